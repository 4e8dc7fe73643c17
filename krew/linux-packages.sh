#!/usr/bin/env bash
# Writes the plugin's packages for Debian and for RPM, with manual pages and completions:
# krew/linux-packages.sh TARGET PROGRAM DIST. TARGET is of rustc, as in x86_64-unknown-linux-musl. This machine runs
# NATIVE, a program of the same version, for the manual pages and the completions; default PROGRAM.
#
# The same program and SOURCE_DATE_EPOCH give the same packages. kubectl-mc/Cargo.toml lists their files.
set -euo pipefail
target=${1:?a target of rustc is needed} program=$(realpath "${2:?the program is needed}") dist=$(realpath "${3:?a folder is needed}")
native=$(realpath "${NATIVE:-$program}")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH="$PWD/target/tools/bin:$PATH"
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH

case $target in
    x86_64-*) architecture=amd64 ;;
    aarch64-*) architecture=arm64 ;;
    *) echo "krew/linux-packages.sh: no architecture is known for $target" >&2 && exit 1 ;;
esac
# Cargo.toml refers to files in this folder.
files=target/package
rm -rf $files
mkdir -p $files/{man,completions}
install -m 0755 "$program" $files/kubectl-mc
cp krew/kmc krew/kubectl_complete-mc LICENSE $files
"$native" __man $files/man
gzip -n9 $files/man/*.1
for shell in bash zsh fish; do "$native" completion $shell >$files/completions/kubectl-mc.$shell; done
# The RPM contains the times of its files.
find $files -exec touch --date="@$SOURCE_DATE_EPOCH" {} +

name=$dist/kubectl-mc_v$(krew/version.sh)_linux_$architecture
cargo deb --quiet --locked --package kubectl-mc --target "$target" --no-build --no-strip --output "$name.deb"
cargo generate-rpm --package kubectl-mc --target "$target" --auto-req disabled --output "$name.rpm"
rm -r $files
echo "$name.rpm"
