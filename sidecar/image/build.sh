#!/usr/bin/env bash
# Builds the image of mc-sidecar and the lists of its contents: sidecar/image/build.sh NAME.
#
#   PLATFORMS  for example linux/amd64,linux/arm64; by default, this machine's
#   PUSH       yes: push to the registry in NAME; by default, the image goes into the builder's local store
#   ARCHIVE    write this file, an OCI archive, and use no store; by buildah only
#   BUILDER    docker (by buildx) or buildah; by default, the first of them that is installed
#   PROFILE    dev: a build of a minute, to try it; by default, release
#   ROOTS      a file with the public authorities to trust; by default, Mozilla's as Debian packages them
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
# Not exported, because crates with C code would be built again for each commit.
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
    # The program contains the list of crates too, where image scanners and `cargo audit bin` look for it.
    mkdir -p "$context/$architecture"
    $objcopy --strip-all --add-section .dep-v0="$out/crates" \
        "target/$machine-unknown-linux-gnu/${profile/#dev/debug}/mc-sidecar" \
        "$context/$architecture/mc-sidecar"
done

# Authorities that this machine trusts in addition are left out.
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
        # A temporary store, removed afterwards.
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
