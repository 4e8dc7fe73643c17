#!/bin/sh
# Writes the Go module that builds one version of Kubernetes: add-version.sh v1.36.3 [FOLDER]
# FOLDER is relative to this script; default the version. An existing tools.go is kept, as in ../conformance. Commit
# go.sum, because it pins what later builds use.
set -eu
version=$1
folder=${2:-$version}
staging=v0.${version#v1.}
cd "$(dirname "$0")"
upstream=$(go mod download -json "k8s.io/kubernetes@$version" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
etcd=$(sed -n 's/^.*go.etcd.io\/etcd\/client\/v3 \(v[0-9.]*\).*/\1/p' "$upstream")
mkdir -p "$folder"
[ -e "$folder/tools.go" ] || cp tools.go.in "$folder/tools.go"
{
    echo "// The programs of Kubernetes $version; written by tests/kubernetes/add-version.sh."
    echo "module github.com/kubectl-mc/kubectl-mc/tests/kubernetes/$folder" | sed "s,kubernetes/../,,"
    echo
    sed -n -e 's/^go .*/&\n/p' -e 's/^godebug .*/&\n/p' "$upstream"
    # Use the versions of Kubernetes' own release.
    sed -n -e '/^require (/,/^)/p' "$upstream" |
        sed -e "s/^\(\tk8s.io\/[a-z-]*\) v0\.0\.0$/\1 $staging/"
    echo
    echo "require ("
    echo "	k8s.io/kubernetes $version"
    echo "	go.etcd.io/etcd/server/v3 $etcd"
    echo ")"
    echo
    # Upstream replaces these with folders in its repository. Each is also published as a module.
    echo "replace ("
    sed -n "s/^\t\(k8s.io\/[a-z-]*\) => .*/\t\1 => \1 $staging/p" "$upstream"
    echo ")"
} >"$folder/go.mod"
cd "$folder"
GOTOOLCHAIN=local go mod tidy
