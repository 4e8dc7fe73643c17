#!/usr/bin/env bash
# Builds the plugin and the sidecar of the previous version once, in target/previous, and puts their Helm chart next
# to them. Until there is a release, the previous version is the commit in the file `reference`.
set -euo pipefail
cd "$(dirname "$0")/../.."
commit="$(cat tests/previous/reference)"
folder="${CARGO_TARGET_DIR:-$PWD/target}/previous"
mkdir -p "$folder"
exec 9>"$folder/.lock"
flock 9
[ "$(cat "$folder/.stamp" 2>/dev/null)" != "$commit" ] || exit 0
git cat-file -e "$commit^{commit}" || { echo "error: commit $commit is missing; a shallow clone has no history" >&2; exit 1; }
rm -rf "$folder"/{source,build,chart,kubectl-mc,mc-sidecar,.stamp}
mkdir "$folder/source"
git archive "$commit" | tar -x -C "$folder/source"
(cd "$folder/source" && CARGO_TARGET_DIR="$folder/build" CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0 \
    cargo build --quiet --locked --package kubectl-mc --package sidecar --bin kubectl-mc --bin mc-sidecar)
mv "$folder/build/debug/kubectl-mc" "$folder/build/debug/mc-sidecar" "$folder"
# The chart's manifests are links to files outside it.
cp -RL "$folder/source/sidecar/deploy/chart" "$folder/chart"
rm -rf "$folder/source" "$folder/build"
echo "$commit" >"$folder/.stamp"
