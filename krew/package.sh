#!/usr/bin/env bash
# Packs the plugin for krew: target/krew/kubectl-mc_<version>_<os>_<arch>.tar.gz (for Windows .zip) with its .sha256, and
# target/krew/mc.yaml, the manifest of this version's archives in that folder.
#
#   krew/package.sh             builds and packs for this machine
#   krew/package.sh TARGET      the same for a target of rustc, such as aarch64-apple-darwin
#   krew/package.sh TARGET BIN  packs an existing binary
#
# RELEASE_URL: URL of the archives; by default the project's release of this version.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=${KREW_OUT:-$root/target/krew}
cd "$root"

version=v$(krew/version.sh)
repository=$(sed -n '/^\[workspace.package\]/,/^\[/s/^repository = "\(.*\)"/\1/p' Cargo.toml)
url=${RELEASE_URL:-$repository/releases/download/$version}
native=$(rustc -vV | sed -n 's/^host: //p')
target=${1:-$native}

case $target in
  *-linux-*) os=linux bin=kubectl-mc ;;
  *-apple-darwin) os=darwin bin=kubectl-mc ;;
  *-windows-*) os=windows bin=kubectl-mc.exe ;;
  *) echo "krew/package.sh: krew has no platform for $target" >&2 && exit 1 ;;
esac
case $target in
  x86_64-*) arch=amd64 ;;
  aarch64-*) arch=arm64 ;;
  *) echo "krew/package.sh: krew has no platform for $target" >&2 && exit 1 ;;
esac

built=${2:-}
GIT_COMMIT=$(git rev-parse --short=12 HEAD 2>/dev/null || true)
export GIT_COMMIT
if [[ -z $built && $target == "$native" ]]; then
  cargo build --release --locked --quiet --package kubectl-mc
  built=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release/$bin
elif [[ -z $built ]]; then
  cargo build --release --locked --quiet --package kubectl-mc --target "$target"
  built=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/$target/release/$bin
fi

sum() { if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d' ' -f1; }

mkdir -p "$out"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
install -m 0755 "$built" "$folder/$bin"
install -m 0644 LICENSE "$folder/LICENSE"
files=("$bin" LICENSE)
# For users of the archive: krew does not install it, because the manifest does not list it.
if [[ $os != windows ]]; then
  install -m 0755 krew/kmc "$folder/kmc"
  files+=(kmc)
fi
archive=kubectl-mc_${version}_${os}_${arch}.tar.gz
# The same binary gives the same archive: no owners, no times, and gzip -n.
if [[ $os == windows ]]; then
  archive=${archive%.tar.gz}.zip
  python3 - "$out/$archive" "$folder" "${files[@]}" <<'EOF'
import sys, zipfile
from pathlib import Path

archive, folder, *names = sys.argv[1:]
with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
    for name in sorted(names):
        entry = zipfile.ZipInfo(name)
        entry.compress_type, entry.create_system, entry.external_attr = zipfile.ZIP_DEFLATED, 3, 0o100755 << 16
        packed.writestr(entry, Path(folder, name).read_bytes())
EOF
elif tar --version 2>/dev/null | grep -q GNU; then
  tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -C "$folder" -cf - "${files[@]}" | gzip -n9 >"$out/$archive"
else
  tar -C "$folder" -cf - "${files[@]}" | gzip -n9 >"$out/$archive"
fi
sum "$out/$archive" >"$out/$archive.sha256"

# Repeats the platform's lines for each archive of this version.
{
  sed '/^#/d; /# begin platform/,$d' krew/mc.yaml | sed "s|\${VERSION}|$version|"
  for file in "$out/kubectl-mc_${version}_"*.sha256; do
    name=$(basename "$file" .sha256)
    platform=${name#"kubectl-mc_${version}_"}
    platform=${platform%%.*}
    binary=kubectl-mc
    [[ ${platform%_*} == windows ]] && binary=kubectl-mc.exe
    sed '1,/# begin platform/d; /# end platform/,$d' krew/mc.yaml |
      sed "s|\${OS}|${platform%_*}|; s|\${ARCH}|${platform#*_}|; s|\${BIN}|$binary|
           s|\${URI}|$url/$name|; s|\${SHA256}|$(cat "$file")|"
  done
} >"$out/mc.yaml"

echo "$out/$archive"
echo "$out/mc.yaml"
