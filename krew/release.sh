#!/usr/bin/env bash
# Builds all files of a release into target/dist, from a clean checkout: krew/release.sh IMAGE. IMAGE is the published name
# of the sidecar's image, without a tag: the plugin and the chart refer to it by digest.
#
#   PLATFORMS    default linux/amd64,linux/arm64
#   DIST         output folder; default target/dist
#   RELEASE_URL  URL of the files; default the project's release of this version
#
# Archives contain no build times: the same commit gives the same SHA256SUMS.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
image=${1:?the name of the image is needed} out=${DIST:-$PWD/target/dist}
IFS=, read -ra platforms <<<"${PLATFORMS:=linux/amd64,linux/arm64}"
export PLATFORMS

case $(uname -m) in x86_64) own=linux/amd64 ;; *) own=linux/arm64 ;; esac
if [[ " ${platforms[*]} " != *" $own "* ]]; then
    echo "release: PLATFORMS needs $own, because the plugin writes the manual pages on this machine" >&2
    exit 1
fi
if [ -n "$(git status --porcelain)" ]; then
    echo "release: the checkout has uncommitted changes" >&2
    exit 1
fi
version=$(krew/version.sh)
epoch=$(git log -1 --format=%ct)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
rm -rf "$out"
mkdir -p "$out"

# Build the image first: the other files contain its digest. Repack buildah's archive, which contains the build time.
ARCHIVE="$folder/image.tar" BUILDER=buildah PROFILE=release sidecar/image/build.sh "$image:$version"
mkdir "$folder/image"
tar -xf "$folder/image.tar" -C "$folder/image"
tar --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$epoch" \
    -C "$folder/image" -cf "$out/mc-sidecar_v${version}_image.tar" .
digest=$(krew/digest.sh "$out")
for list in target/image/mc-sidecar-*.cdx.json; do
    name=$(basename "$list")
    cp "$list" "$out/mc-sidecar_v${version}_linux_${name#mc-sidecar-}"
done

export KUBECTL_MC_IMAGE="$image@$digest"
for platform in "${platforms[@]}"; do
    case $platform in
        linux/amd64) machine=x86_64 ;;
        linux/arm64) machine=aarch64 ;;
        *) echo "release: unsupported platform $platform" >&2 && exit 1 ;;
    esac
    target=$machine-unknown-linux-musl objcopy=objcopy
    if [ "$machine" != "$(uname -m)" ]; then objcopy=$machine-linux-gnu-objcopy; fi
    make --no-print-directory plugin PLATFORM=$machine-unknown-linux-gnu
    SOURCE_DATE_EPOCH=$epoch python3 sidecar/image/sbom.py kubectl-mc $target \
        "$out/kubectl-mc_v${version}_${platform/\//_}.cdx.json" "$folder/crates"
    $objcopy --strip-all --add-section .dep-v0="$folder/crates" "target/$target/release/kubectl-mc" "$folder/kubectl-mc"
    KREW_OUT=$out krew/package.sh $target "$folder/kubectl-mc"
    mv "$folder/kubectl-mc" "$folder/$target"
done
native=$folder/$(uname -m)-unknown-linux-musl
for target in "$folder"/*-musl; do
    SOURCE_DATE_EPOCH=$epoch NATIVE=$native krew/linux-packages.sh "$(basename "$target")" "$target" "$out"
done
"$native" __man "$folder/man"
tar --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$epoch" \
    -C "$folder/man" -cf - . | gzip -n9 >"$out/kubectl-mc-man_v${version}.tar.gz"
rm "$out"/*.sha256

sidecar/deploy/package.sh "$out" "$KUBECTL_MC_IMAGE"
krew/notes.sh "$version" >"$out/RELEASE_NOTES.md"
krew/sums.sh "$out"
echo "release: v$version of $KUBECTL_MC_IMAGE in $out"
