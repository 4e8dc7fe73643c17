#!/usr/bin/env bash
# Pushes the image and the charts of a release to a registry, and signs them and the archives with the identity of the
# workflow: krew/publish.sh DIST REGISTRY SIGNATURES. REGISTRY is as in ghcr.io/OWNER. Each image, chart and archive gets
# the SBOMs of its programs as attestations. The signatures of the files are written to SIGNATURES. Prints the names and
# digests of what it pushed, as outputs of a step.
set -euo pipefail
dist=${1:?the folder of a release is needed} registry=${2:?a registry is needed} signatures=${3:?a folder is needed}
here=$(dirname "${BASH_SOURCE[0]}")
version=$("$here/version.sh")
mkdir -p "$signatures"

# Signs what is in the registry, and attests each SBOM of it.
sign() { # NAME@DIGEST SBOM...
    cosign sign --yes "$1" >&2
    for sbom in "${@:2}"; do cosign attest --yes --type cyclonedx --predicate "$sbom" "$1" >&2; done
}

digest=$("$here/digest.sh" "$dist")
image=$registry/mc-sidecar
boms=("$dist"/mc-sidecar_v"$version"_linux_*.cdx.json)
skopeo copy --all --preserve-digests "oci-archive:$dist/mc-sidecar_v${version}_image.tar" "docker://$image:$version" >&2
sign "$image@$digest" "${boms[@]}"
echo "image=$image"
echo "image-digest=$digest"

# A chart's own files are not a program. Its SBOMs are those of the image that it runs.
for chart in mc-sidecar mc-agent; do
    digest=$(helm push "$dist/$chart-$version.tgz" "oci://$registry/charts" 2>&1 | tee /dev/stderr | sed -n 's/^Digest: //p')
    [[ $digest = sha256:* ]] || { echo "publish: helm has named no digest of $chart" >&2 && exit 1; }
    sign "$registry/charts/$chart@$digest" "${boms[@]}"
    echo "$chart=$registry/charts/$chart"
    echo "$chart-digest=$digest"
done

for file in "$dist"/*; do
    cosign sign-blob --yes --bundle "$signatures/$(basename "$file").sigstore.json" "$file" >&2
done
for sbom in "$dist"/kubectl-mc_v"$version"_*.cdx.json; do
    for archive in "${sbom%.cdx.json}".{tar.gz,zip,deb,rpm}; do
        [ -e "$archive" ] || continue
        cosign attest-blob --yes --type cyclonedx --predicate "$sbom" \
            --bundle "$signatures/$(basename "$archive").sbom.sigstore.json" "$archive" >&2
    done
done
