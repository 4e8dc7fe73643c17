#!/usr/bin/env bash
# Runs Kubernetes' own kubectl tests through the proxy of a member, in a separate test bed:
# conformance.sh [--focus REGEX] [--by-agent] [--by-plugin]. They need a node, and so root on Linux. Elsewhere they are
# skipped, with an entry in the file $SKIPPED.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "$(uname -s)" != Linux ] || [ "$(id -u)" -ne 0 ]; then
    echo "conformance: needs a node, and so root on Linux" >>"${SKIPPED:-/dev/stderr}"
    exit 0
fi
cargo build-all --bins
target/debug/conformance build
exec target/debug/testbed run --members 1 --node m1 --sidecar target/debug/mc-sidecar -- \
    target/debug/conformance run "$@"
