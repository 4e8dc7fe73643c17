#!/usr/bin/env bash
# Prints the digest under which the image in a release's folder is published: krew/digest.sh DIST
set -euo pipefail
tar -xOf "${1:?the folder of a release is needed}"/mc-sidecar_v*_image.tar ./index.json | jq -er '.manifests[0].digest'
