#!/usr/bin/env bash
# Adds the plugin's programs for macOS and Windows to the files of `make release`: krew/merge.sh DIST PROGRAMS. PROGRAMS has
# a folder for each target of rustc, `TARGET` or `program-TARGET`, with the program. Packs each program and writes its SBOM.
# Then it rewrites SHA256SUMS and the manifests of krew, Homebrew, Scoop and winget.
set -euo pipefail
dist=$(cd "${1:?the folder of a release is needed}" && pwd) programs=$(cd "${2:?the folder of the programs is needed}" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."
epoch=$(git log -1 --format=%ct)

(cd "$dist" && sha256sum --check --strict --quiet SHA256SUMS)
# krew/package.sh reads these of the archives that are already packed.
(cd "$dist" && for archive in kubectl-mc_v*.tar.gz; do sha256sum "$archive" | cut -d' ' -f1 >"$archive.sha256"; done)
for folder in "$programs"/*; do
    target=$(basename "$folder")
    target=${target#program-}
    programs_of=("$folder"/kubectl-mc*)
    # The first line is the archive. A pipe to `head` would end the script when it writes the second.
    written=$(KREW_OUT=$dist krew/package.sh "$target" "${programs_of[0]}")
    archive=${written%%$'\n'*}
    name=${archive%.tar.gz} name=${name%.zip}
    SOURCE_DATE_EPOCH=$epoch python3 sidecar/image/sbom.py kubectl-mc "$target" "$name.cdx.json"
done
rm "$dist"/*.sha256
python3 krew/manifests.py "$dist"
krew/sums.sh "$dist"
