#!/usr/bin/env bash
# Builds the plugin for Windows with Debian's mingw, and creates the prefix in which wine runs it: target/windows.
set -euo pipefail
cd "$(dirname "$0")/../.."
tests/setup.sh --windows
rustup target add x86_64-pc-windows-gnu >/dev/null 2>&1
AWS_LC_SYS_PREBUILT_NASM=1 cargo build --quiet --locked --package kubectl-mc --target x86_64-pc-windows-gnu
folder="${CARGO_TARGET_DIR:-$PWD/target}/windows"
mkdir -p "$folder"
exec 9>"$folder/.lock"
flock 9
stamp="$(dpkg-query --show wine64)"
if [ "$(cat "$folder/.stamp" 2>/dev/null)" != "$stamp" ]; then
    rm -rf "$folder/prefix"
    # The 32-bit half is not needed, and neither are Mono and Gecko, which wine would download.
    WINEPREFIX="$folder/prefix" WINEDEBUG=-all WINEARCH=win64 WINEDLLOVERRIDES="mscoree=;mshtml=" \
        /usr/lib/wine/wine64 wineboot --init </dev/null >"$folder/wineboot.log" 2>&1
    x86_64-w64-mingw32-gcc -shared -O1 -o "$folder/bcryptprimitives.dll" tests/windows/bcryptprimitives.c -ladvapi32
    cp -n "$folder/bcryptprimitives.dll" "$folder/prefix/drive_c/windows/system32/"
    # A kubectl that ends with an exit code that no other system has.
    echo 'int main(void) { return 3000; }' | x86_64-w64-mingw32-gcc -o "$folder/kubectl-3000.exe" -x c -
    echo "$stamp" >"$folder/.stamp"
fi
