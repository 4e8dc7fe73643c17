#!/usr/bin/env bash
# Writes requests.tsv or queries.tsv to standard output: generate.sh requests|queries
# main.go runs in the module of the newest Kubernetes here, with the flags that the test bed builds it with, so that what
# is built for one is there for the other.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$(printf '%s\n' "$here"/../kubernetes/v* | sort --version-sort | tail -n 1)"
export CGO_ENABLED=0 GOTOOLCHAIN=local
# Where it is, `go list` knows only once it is there.
go mod download k8s.io/kubernetes
upstream=$(go list -mod=readonly -m -f '{{.Dir}}' k8s.io/kubernetes)
exec go run -mod=readonly -gcflags=all=-dwarf=false "$here/main.go" -kubernetes "$upstream" "$1"
