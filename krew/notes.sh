#!/usr/bin/env bash
# Prints the release notes of a version, its section of CHANGELOG.md or else [Unreleased]: krew/notes.sh VERSION
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=${1:?a version is needed}
section=$version
grep -qF "## [$version]" CHANGELOG.md || section=Unreleased
echo "# kubectl-mc $version"
awk -v heading="## [$section]" 'index($0, heading) == 1 { inside = 1; next } /^## / || /^\[.*\]: / { inside = 0 } inside' CHANGELOG.md
