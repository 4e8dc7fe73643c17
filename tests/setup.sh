#!/usr/bin/env bash
# Installs missing Debian packages and cargo's tools, and prints their names:
# setup.sh [--no-tools|--demo|--bench|--release|--release-test|--arm64|--windows|--mutants].
# Without root, it only prints the names of the missing packages, and tests that need them are skipped later.
set -euo pipefail

# program:package
needs=(
    cc:gcc
    c++:g++
    cmake:cmake
    curl:curl
    jq:jq
    openssl:openssl
)
# The clusters' networks and nodes need root, so without it, nothing that they need counts as missing.
if [ "${1:-}" != --demo ] || [ "$(id -u)" -eq 0 ]; then
    needs+=(ip:iproute2 containerd:containerd runc:runc nft:nftables busybox:busybox-static)
fi
if [ "${1:-}" != --demo ]; then needs+=(
    buildah:buildah
    script:bsdutils
    less:less
    zsh:zsh
    fish:fish
    dbus-run-session:dbus-daemon
    gnome-keyring-daemon:gnome-keyring
    python3:python3
    node:nodejs
    npm:npm
); fi
if [ "${1:-}" = --bench ]; then needs+=(nginx:nginx-light wrk:wrk); fi
if [ "${1:-}" = --release ]; then needs+=(aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu); fi
if [ "${1:-}" = --release-test ]; then needs+=(dpkg-deb:dpkg rpm2archive:rpm); fi
if [ "${1:-}" = --windows ]; then needs+=(x86_64-w64-mingw32-gcc:gcc-mingw-w64-x86-64); fi
# A cross compiler builds the program for arm64, and an emulator runs it.
if [ "${1:-}" = --arm64 ]; then
    needs+=(aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu qemu-aarch64-static:qemu-user-static)
fi

missing=()
for need in "${needs[@]}"; do
    command -v "${need%%:*}" >/dev/null 2>&1 || [ -x "/usr/sbin/${need%%:*}" ] || missing+=("${need##*:}")
done
if [ "${1:-}" != --demo ]; then
    [ -e /usr/share/bash-completion/bash_completion ] || missing+=(bash-completion)
    python3 -c 'import ensurepip' >/dev/null 2>&1 || missing+=(python3-venv)
fi
if [ "${1:-}" = --windows ] && [ ! -x /usr/lib/wine/wine64 ]; then missing+=(wine64); fi
[ -d /usr/share/ca-certificates/mozilla ] || missing+=(ca-certificates)
if [[ "${1:-}" = --@(arm64|release) ]] && [ ! -e /usr/aarch64-linux-gnu/lib/libc.a ]; then missing+=(libc6-dev-arm64-cross); fi
if [ "${1:-}" = --release ]; then
    # C headers for the plugin's platforms.
    for machine in x86_64:amd64 aarch64:arm64; do
        [ -d /usr/lib/${machine%:*}-linux-musl ] || missing+=(musl-dev:${machine#*:})
    done
fi
if [[ " ${needs[*]} " = *:containerd\ * ]] && [ ! -d /usr/lib/cni ]; then missing+=(containernetworking-plugins); fi

if [ "${#missing[@]}" -gt 0 ]; then
    if [ "$(uname -s)" != Linux ] || ! command -v apt-get >/dev/null 2>&1; then
        echo "setup: install these packages (there is no apt-get here): ${missing[*]}" >&2
    elif [ "$(id -u)" -ne 0 ]; then
        echo "setup: missing packages; to install them, run:" >&2
        echo "setup:   sudo apt-get install --no-install-recommends ${missing[*]}" >&2
    else
        echo "setup: installing Debian packages: ${missing[*]}"
        export DEBIAN_FRONTEND=noninteractive
        case " ${missing[*]}" in *:arm64*) dpkg --add-architecture arm64 ;; esac
        apt-get update -qq
        if [ ! -e /usr/sbin/policy-rc.d ]; then
            # Keep the packages from starting containerd and nginx: tests start their own.
            printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
            chmod 0755 /usr/sbin/policy-rc.d
            trap 'rm -f /usr/sbin/policy-rc.d' EXIT
        fi
        apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
    fi
fi

for tool in cargo:Rust go:Go; do
    command -v "${tool%%:*}" >/dev/null 2>&1 || { echo "setup: install ${tool##*:} first" >&2; exit 1; }
done
# Go downloads the version that a module requires, unless GOTOOLCHAIN forbids it.
modules=(tests/*/go.mod)
if [ "${1:-}" = --demo ]; then modules=(tests/kubernetes/v*/go.mod); fi
newest="$(grep -H '^go ' "${modules[@]}" | sort -k2V | tail -1)"
module="${newest%/go.mod:*}"
if ! (cd "$module" && go list -m) >/dev/null 2>&1; then
    echo "setup: $module needs Go ${newest##* } or later, and this is $(go env GOVERSION)" >&2
    exit 1
fi
# A release's commit has already passed all checks.
if [[ "${1:-}" != --@(no-tools|release|release-test|windows|demo) ]]; then
    if ! cargo deny --version >/dev/null 2>&1; then
        echo "setup: installing cargo-deny (cargo install)"
        CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=0 \
            cargo install --quiet --locked --root target/tools cargo-deny@0.20.2 || exit 1
    fi
    tests/site/install.sh
fi
if [ "${1:-}" = --release ]; then
    for tool in cargo-deb@3.8.0 cargo-generate-rpm@0.21.1; do
        if [ -x "target/tools/bin/${tool%@*}" ]; then continue; fi
        echo "setup: installing ${tool%@*} (cargo install)"
        CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
            cargo install --quiet --locked --root target/tools "$tool" || exit 1
    done
fi
if [ "${1:-}" = --mutants ] && ! cargo mutants --version >/dev/null 2>&1; then
    echo "setup: installing cargo-mutants (cargo install)"
    CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=0 \
        cargo install --quiet --locked --root target/tools cargo-mutants@27.1.0 || exit 1
fi
echo "setup: complete"
