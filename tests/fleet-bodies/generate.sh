#!/usr/bin/env bash
# Writes bodies.tsv to standard output. Runs main.go in the module of the newest Kubernetes here, with the test bed's build
# flags, so that both share Go's cache.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$(printf '%s\n' "$here"/../kubernetes/v* | sort --version-sort | tail -n 1)"
export CGO_ENABLED=0 GOTOOLCHAIN=local
exec go run -mod=readonly -gcflags=all=-dwarf=false "$here/main.go"
