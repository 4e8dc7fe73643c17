#!/usr/bin/env bash
# Packs the Helm charts into mc-sidecar-VERSION.tgz and mc-agent-VERSION.tgz in the folder OUT:
# sidecar/deploy/package.sh OUT [IMAGE@DIGEST]. With an image, that is the charts' default. The same charts make the same
# archives, unlike `helm package`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
out=${1:?a folder is needed} image=${2:-}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for chart in chart agent-chart; do
    name=$(sed -n 's/^name: //p' $chart/Chart.yaml)
    archive=$out/$name-$(sed -n 's/^version: //p' $chart/Chart.yaml).tgz
    # The manifests are links out of the chart.
    cp -rL $chart "$folder/$name"
    if [ -n "$image" ]; then
        sed -i "s|^  repository: \"\"|  repository: ${image%@*}|; s|^  digest: \"\"|  digest: ${image#*@}|" \
            "$folder/$name/values.yaml"
    fi
    chmod -R u=rwX,go=rX "$folder/$name"
    tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -C "$folder" -cf - "$name" |
        gzip -n9 >"$archive"
    echo "$archive"
done
