#!/usr/bin/env bash
# Installs mdBook into target/tools, if this version is missing. It is built without optimization, because optimizing would
# take more time than it saves.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=0.5.4
[ "$(target/tools/bin/mdbook --version 2>/dev/null)" != "mdbook v$version" ] || exit 0
echo "site: installing mdBook (cargo install)" >&2
CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=0 \
    cargo install --quiet --locked --force --root target/tools --no-default-features --features search mdbook@$version
