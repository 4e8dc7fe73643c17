#!/usr/bin/env bash
# Makes the image of mc-sidecar and the lists of what is in it: sidecar/image/build.sh NAME.
#
#   PLATFORMS  linux/amd64,linux/arm64: for these; without it, for this machine's
#   PUSH       yes: into the registry that is part of NAME; without it, into the store of the tool that packs
#   ARCHIVE    into this file, an OCI archive, and into no store; buildah's alone
#   BUILDER    docker (by buildx) or buildah; without it, the first of them that is there
#   PROFILE    dev: what is built in a minute, to try it; without it, release
#   ROOTS      a file with the public authorities to trust; without it, Mozilla's as Debian packs them
#
# Programs are cross-compiled, and the Dockerfile packs them. The same programs give the same image.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
name=${1:?a name for the image is needed} profile=${PROFILE:-release}
out=target/image context=target/image/context

fail() {
    echo "image: $*" >&2
    exit 2
}

case $(uname -m) in
    aarch64 | arm64) own=linux/arm64 ;;
    *) own=linux/amd64 ;;
esac
IFS=, read -ra platforms <<<"${PLATFORMS:-$own}"
# Not for all: crates of C would be built again for each commit.
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
unset SOURCE_DATE_EPOCH

mkdir -p "$out"
exec 9>"$out/.lock"
flock 9
rm -rf "$context" "$out"/mc-sidecar-*.cdx.json
for platform in "${platforms[@]}"; do
    architecture=${platform#linux/}
    case $platform in
        linux/amd64) machine=x86_64 ;;
        linux/arm64) machine=aarch64 ;;
        *) fail "no program can be built for $platform: linux/amd64 and linux/arm64 are known" ;;
    esac
    objcopy=objcopy
    if [ "$platform" != "$own" ]; then objcopy=$machine-linux-gnu-objcopy; fi
    make --no-print-directory program PLATFORM=$machine-unknown-linux-gnu PROFILE="$profile"
    SOURCE_DATE_EPOCH=$epoch python3 sidecar/image/sbom.py sidecar $machine-unknown-linux-gnu "$out/mc-sidecar-$architecture.cdx.json" "$out/crates"
    # The list of crates is in the program too, where scanners of images and `cargo audit bin` look for it.
    mkdir -p "$context/$architecture"
    $objcopy --strip-all --add-section .dep-v0="$out/crates" \
        "target/$machine-unknown-linux-gnu/${profile/#dev/debug}/mc-sidecar" \
        "$context/$architecture/mc-sidecar"
done

# What this machine was told to trust besides is left out.
mozilla=/usr/share/ca-certificates/mozilla
if [ -n "${ROOTS:-}" ]; then
    cp "$ROOTS" "$context/ca-certificates.crt"
elif [ -d $mozilla ]; then
    LC_ALL=C bash -c 'cat "$1"/*.crt' - $mozilla >"$context/ca-certificates.crt"
else
    fail "ROOTS=FILE is needed: the public authorities to trust (in Debian they are in the package ca-certificates)"
fi
chmod 0755 "$context"/*/mc-sidecar
chmod 0644 "$context/ca-certificates.crt"

by_docker() {
    [ -z "${ARCHIVE:-}" ] || fail "ARCHIVE is made by buildah alone: BUILDER=buildah"
    SOURCE_DATE_EPOCH=$epoch docker buildx build --tag "$name" --platform "$(IFS=, && echo "${platforms[*]}")" \
        "$([ -n "${PUSH:-}" ] && echo --push || echo --load)" --file Dockerfile "$context"
}

by_buildah() {
    local buildah=(buildah) to=()
    if [ -n "${ARCHIVE:-}" ]; then
        # A store of its own, gone afterwards.
        buildah+=(--root "$PWD/$out/store" --runroot "$PWD/$out/store/run" --storage-driver vfs)
        to=("oci-archive:$ARCHIVE:$name")
        rm -rf "$out/store" "$ARCHIVE"
    elif [ -n "${PUSH:-}" ]; then
        to=("docker://$name")
    fi
    "${buildah[@]}" manifest rm "$name" >/dev/null 2>&1 || true
    for platform in "${platforms[@]}"; do
        "${buildah[@]}" build --quiet --layers=false --timestamp "$epoch" --identity-label=false \
            --platform "$platform" --manifest "$name" --file Dockerfile "$context" >/dev/null
    done
    if [ "${#to[@]}" -gt 0 ]; then "${buildah[@]}" manifest push --all --quiet "$name" "${to[@]}" >/dev/null; fi
    [ -z "${ARCHIVE:-}" ] || rm -rf "$out/store"
}

if [ -z "${BUILDER:-}" ]; then
    if docker buildx version >/dev/null 2>&1; then BUILDER=docker
    elif command -v buildah >/dev/null 2>&1; then BUILDER=buildah
    else fail "docker with buildx, or buildah, is needed (in Debian: apt install buildah)"; fi
fi
case $BUILDER in
    docker) by_docker ;;
    buildah) by_buildah ;;
    *) fail "BUILDER=$BUILDER is not known: docker or buildah" ;;
esac
echo "image: $name for ${platforms[*]}${ARCHIVE:+ in $ARCHIVE}; what is in it: $out/mc-sidecar-*.cdx.json"
