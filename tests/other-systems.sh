#!/usr/bin/env bash
# Runs clippy on the plugin for macOS and Windows, if rustup can install their standard libraries. Nothing is linked, and
# a fake C compiler writes empty files.
set -euo pipefail
cd "$(dirname "$0")/.."
targets=(aarch64-apple-darwin x86_64-pc-windows-gnu)
tools="$PWD/target/no-c"
mkdir -p "$tools"
cat >"$tools/cc" <<'EOF'
#!/bin/sh
while [ $# -gt 0 ]; do
    if [ "$1" = -o ]; then : >"$2"; fi
    shift
done
EOF
cat >"$tools/ar" <<'EOF'
#!/bin/sh
for file; do case $file in *.a) : >"$file" ;; esac; done
EOF
chmod +x "$tools/cc" "$tools/ar"
flags=()
for target in "${targets[@]}"; do
    if ! rustup target add "$target" >/dev/null 2>&1; then
        echo "plugin for $target: rustup cannot install its standard library" >>"${SKIPPED:-/dev/stderr}"
        continue
    fi
    variable=${target//-/_}
    export "CC_$variable=$tools/cc" "AR_$variable=$tools/ar"
    flags+=(--target "$target")
done
[ "${#flags[@]}" = 0 ] || AWS_LC_SYS_PREBUILT_NASM=1 cargo clippy --quiet --locked --package kubectl-mc "${flags[@]}" -- -D warnings
