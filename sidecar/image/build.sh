#!/usr/bin/env bash
# Builds the image of mc-sidecar and its SBOMs: sidecar/image/build.sh NAME.
#
#   PLATFORMS  for example linux/amd64,linux/arm64; default this machine's
#   PUSH       yes: push to the registry in NAME; default: keep the image in the builder's local store
#   ARCHIVE    write an OCI archive to this file and use no store; buildah only
#   BUILDER    docker (with buildx) or buildah; default the first one that is installed
#   PROFILE    dev: a debug build, which takes a minute; default release
#   ROOTS      file with the public CA certificates to trust; default Mozilla's from Debian's package
#
# Cross-compiles the programs; the Dockerfile packs them. The same programs give the same image.
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
# Do not export it: crates with C code would be rebuilt for each commit.
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
        *) fail "unsupported platform $platform: use linux/amd64 or linux/arm64" ;;
    esac
    objcopy=objcopy
    if [ "$platform" != "$own" ]; then objcopy=$machine-linux-gnu-objcopy; fi
    make --no-print-directory program PLATFORM=$machine-unknown-linux-gnu PROFILE="$profile"
    SOURCE_DATE_EPOCH=$epoch python3 sidecar/image/sbom.py sidecar $machine-unknown-linux-gnu "$out/mc-sidecar-$architecture.cdx.json" "$out/crates"
    # Add the list of crates where image scanners and `cargo audit bin` look for it.
    mkdir -p "$context/$architecture"
    $objcopy --strip-all --add-section .dep-v0="$out/crates" \
        "target/$machine-unknown-linux-gnu/${profile/#dev/debug}/mc-sidecar" \
        "$context/$architecture/mc-sidecar"
done

# Only Mozilla's certificates: this machine may trust other CAs too.
mozilla=/usr/share/ca-certificates/mozilla
if [ -n "${ROOTS:-}" ]; then
    cp "$ROOTS" "$context/ca-certificates.crt"
elif [ -d $mozilla ]; then
    LC_ALL=C bash -c 'cat "$1"/*.crt' - $mozilla >"$context/ca-certificates.crt"
else
    fail "set ROOTS=FILE to the public CA certificates (Debian: the package ca-certificates)"
fi
chmod 0755 "$context"/*/mc-sidecar
chmod 0644 "$context/ca-certificates.crt"

by_docker() {
    [ -z "${ARCHIVE:-}" ] || fail "ARCHIVE needs buildah: set BUILDER=buildah"
    SOURCE_DATE_EPOCH=$epoch docker buildx build --tag "$name" --platform "$(IFS=, && echo "${platforms[*]}")" \
        "$([ -n "${PUSH:-}" ] && echo --push || echo --load)" --file Dockerfile "$context"
}

by_buildah() {
    local buildah=(buildah) to=()
    if [ -n "${ARCHIVE:-}" ]; then
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
    else fail "install docker with buildx, or buildah (Debian: apt install buildah)"; fi
fi
case $BUILDER in
    docker) by_docker ;;
    buildah) by_buildah ;;
    *) fail "unknown BUILDER=$BUILDER: use docker or buildah" ;;
esac
echo "image: $name for ${platforms[*]}${ARCHIVE:+ in $ARCHIVE}; SBOMs: $out/mc-sidecar-*.cdx.json"
