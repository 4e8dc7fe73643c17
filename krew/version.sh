#!/usr/bin/env bash
# Prints the version of the workspace, such as 0.1.0.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml
