#!/usr/bin/env bash
# Packs the Helm charts into OUT/mc-sidecar-VERSION.tgz and OUT/mc-agent-VERSION.tgz:
# sidecar/deploy/package.sh OUT [IMAGE@DIGEST]. The image becomes the charts' default. Unlike `helm package`, the same charts
# give the same archives.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
out=${1:?a folder is needed} image=${2:-}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for chart in chart agent-chart; do
    name=$(sed -n 's/^name: //p' $chart/Chart.yaml)
    archive=$out/$name-$(sed -n 's/^version: //p' $chart/Chart.yaml).tgz
    # Resolve the manifests' links, which point out of the chart.
    cp -rL $chart "$folder/$name"
    if [ -n "$image" ]; then
        sed -i "s|^  repository: \"\"|  repository: ${image%@*}|; s|^  digest: \"\"|  digest: ${image#*@}|" \
            "$folder/$name/values.yaml"
        # Artifact Hub scans the image that it finds here.
        printf '  artifacthub.io/images: |\n    - name: mc-sidecar\n      image: %s\n' "$image" >>"$folder/$name/Chart.yaml"
    fi
    chmod -R u=rwX,go=rX "$folder/$name"
    tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -C "$folder" -cf - "$name" |
        gzip -n9 >"$archive"
    echo "$archive"
done
