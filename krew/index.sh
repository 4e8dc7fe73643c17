#!/usr/bin/env bash
# Adds a release's manifest to the krew index of this plugin: krew/index.sh MANIFEST FOLDER. FOLDER is a checkout of the
# index, created if missing. krew reads plugins/ at the root of a repository, so the index has its own repository.
set -euo pipefail
manifest=${1:?the manifest of a release is needed} index=${2:?the folder of the index is needed}
version=$(sed -n 's/^  version: //p' "$manifest")

[ -e "$index/.git" ] || git init --quiet --initial-branch=main "$index"
mkdir -p "$index/plugins"
cp "$manifest" "$index/plugins/mc.yaml"
cp "$(dirname "${BASH_SOURCE[0]}")/artifacthub-repo.yml" "$index/artifacthub-repo.yml"
git -C "$index" add plugins/mc.yaml artifacthub-repo.yml
git -C "$index" commit --quiet --message="mc $version"
echo "$index has mc $version; push it"
