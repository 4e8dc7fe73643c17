#!/bin/sh
# Writes the Go module that builds one version of Kubernetes: add-version.sh v1.36.3
# Its go.sum is committed, so that what is built later is what was checked now.
set -eu
version=$1
staging=v0.${version#v1.}
cd "$(dirname "$0")"
upstream=$(go mod download -json "k8s.io/kubernetes@$version" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
etcd=$(sed -n 's/^.*go.etcd.io\/etcd\/client\/v3 \(v[0-9.]*\).*/\1/p' "$upstream")
mkdir -p "$version"
cp tools.go.in "$version/tools.go"
{
    echo "// The programs of Kubernetes $version; written by ../add-version.sh."
    echo "module github.com/kubectl-mc/kubectl-mc/tests/kubernetes/$version"
    echo
    sed -n -e 's/^go .*/&\n/p' -e 's/^godebug .*/&\n/p' "$upstream"
    # With the versions Kubernetes itself was released with.
    sed -n -e '/^require (/,/^)/p' "$upstream" |
        sed -e "s/^\(\tk8s.io\/[a-z-]*\) v0\.0\.0$/\1 $staging/"
    echo
    echo "require ("
    echo "	k8s.io/kubernetes $version"
    echo "	go.etcd.io/etcd/server/v3 $etcd"
    echo ")"
    echo
    # Upstream replaces these by folders of its own repository; each is also published as a module.
    echo "replace ("
    sed -n "s/^\t\(k8s.io\/[a-z-]*\) => .*/\t\1 => \1 $staging/p" "$upstream"
    echo ")"
} >"$version/go.mod"
cd "$version"
GOTOOLCHAIN=local go mod tidy
