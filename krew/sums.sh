#!/usr/bin/env bash
# Writes SHA256SUMS, the checksums of all files of a folder: krew/sums.sh DIST
set -euo pipefail
cd "${1:?the folder of a release is needed}"
rm -f SHA256SUMS
sums=$(LC_ALL=C sha256sum -- *)
echo "$sums" >SHA256SUMS
