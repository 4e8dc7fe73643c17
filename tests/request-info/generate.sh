#!/usr/bin/env bash
# Writes requests.tsv or queries.tsv to standard output: generate.sh requests|queries
# Runs main.go in the module of the newest Kubernetes here, with the test bed's build flags, so that both share Go's cache.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$(printf '%s\n' "$here"/../kubernetes/v* | sort --version-sort | tail -n 1)"
export CGO_ENABLED=0 GOTOOLCHAIN=local
# `go list` knows the module's folder only after the download.
go mod download k8s.io/kubernetes
upstream=$(go list -mod=readonly -m -f '{{.Dir}}' k8s.io/kubernetes)
exec go run -mod=readonly -gcflags=all=-dwarf=false "$here/main.go" -kubernetes "$upstream" "$1"
