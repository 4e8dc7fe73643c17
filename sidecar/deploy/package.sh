#!/usr/bin/env bash
# Packs the Helm chart into mc-sidecar-VERSION.tgz in the folder OUT: sidecar/deploy/package.sh OUT [IMAGE@DIGEST].
# With an image, that is the chart's default. The same chart makes the same archive, unlike `helm package`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
out=${1:?a folder is needed} image=${2:-}

version=$(sed -n 's/^version: //p' chart/Chart.yaml)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# The manifests are links out of the chart.
cp -rL chart "$folder/mc-sidecar"
if [ -n "$image" ]; then
    sed -i "s|^  repository: \"\"|  repository: ${image%@*}|; s|^  digest: \"\"|  digest: ${image#*@}|" \
        "$folder/mc-sidecar/values.yaml"
fi
chmod -R u=rwX,go=rX "$folder/mc-sidecar"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -C "$folder" -cf - mc-sidecar |
    gzip -n9 >"$out/mc-sidecar-$version.tgz"
echo "$out/mc-sidecar-$version.tgz"
