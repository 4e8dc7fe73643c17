#!/usr/bin/env bash
# Runs upstream's own tests of kubectl through the proxy of a member, in a test bed of their own:
# conformance.sh [--focus EXPRESSION] [--by-agent] [--by-plugin]. They need a node, which needs root on Linux;
# elsewhere they are skipped, and the file that SKIPPED names reports it.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "$(uname -s)" != Linux ] || [ "$(id -u)" -ne 0 ]; then
    echo "conformance: it needs a node, and that needs root on Linux" >>"${SKIPPED:-/dev/stderr}"
    exit 0
fi
cargo build-all --bins
target/debug/conformance build
exec target/debug/testbed run --members 1 --node m1 --sidecar target/debug/mc-sidecar -- \
    target/debug/conformance run "$@"
