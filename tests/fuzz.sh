#!/usr/bin/env bash
# Runs every fuzz target, two at a time, each for FUZZ_SECONDS (5), starting from the inputs in
# tests/fuzz/corpus. FUZZ_PROFILE is the cargo profile (dev; `fuzz` is faster and takes minutes to build).
# Inputs that fail a target are written to target/fuzz/found, with the target's name.
set -euo pipefail
cd "$(dirname "$0")/.."
export seconds="${FUZZ_SECONDS:-5}" profile="${FUZZ_PROFILE:-dev}"
export out="$PWD/target/fuzz" programs="${CARGO_TARGET_DIR:-target}/${profile/dev/debug}"
mkdir -p "$out/found"

# Only the project's own crates are compiled for fuzzing; their dependencies are those of every build.
RUSTC_WORKSPACE_WRAPPER="$PWD/tests/fuzz/instrumented.sh" cargo build --workspace --bin "fuzz-*" --profile "$profile"

fuzz() { # TARGET
    mkdir -p "$out/corpus/$1"
    # libFuzzer writes new inputs into the first folder.
    if "$programs/fuzz-${1//_/-}" "$out/corpus/$1" "tests/fuzz/corpus/$1" -max_total_time="$seconds" \
        -max_len=4096 -timeout=20 -artifact_prefix="$out/found/$1-" >"$out/$1.log" 2>&1; then
        echo "fuzz: $1: $(grep '^Done' "$out/$1.log" | tail -1)"
    else
        tail -40 "$out/$1.log" >&2
        echo "fuzz: $1 failed" >&2
        return 1
    fi
}
export -f fuzz
ls tests/fuzz/corpus | xargs -P 2 -I{} bash -euo pipefail -c 'fuzz {}'
