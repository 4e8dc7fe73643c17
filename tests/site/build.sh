#!/usr/bin/env bash
# Builds the documentation as a site in target/site and checks its links.
set -euo pipefail
cd "$(dirname "$0")/../.."
tests/site/install.sh
rm -rf target/site
log=$(target/tools/bin/mdbook build docs 2>&1) || { echo "$log" >&2 && exit 1; }
# mdBook only warns about what it cannot read.
if grep -E 'WARN|ERROR' <<<"$log" >&2; then exit 1; fi
tests/site/check.py target/site
