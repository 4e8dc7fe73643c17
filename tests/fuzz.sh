#!/usr/bin/env bash
# Runs every fuzz target for FUZZ_SECONDS (5), two at a time, starting from the inputs in tests/fuzz/corpus, and compares
# generated kubeconfigs with client-go for the same time. FUZZ_PROFILE is the cargo profile (dev; `fuzz` runs faster and
# takes minutes to build). Failing inputs go to target/fuzz/found, prefixed with the target's name.
set -euo pipefail
cd "$(dirname "$0")/.."
export seconds="${FUZZ_SECONDS:-5}" profile="${FUZZ_PROFILE:-dev}"
export out="$PWD/target/fuzz" programs="${CARGO_TARGET_DIR:-target}/${profile/dev/debug}"
mkdir -p "$out/found"

# Instrument the project's own crates only, so that dependencies are not rebuilt.
RUSTC_WORKSPACE_WRAPPER="$PWD/tests/fuzz/instrumented.sh" cargo build --workspace --bin "fuzz-*" --profile "$profile"

fuzz() { # TARGET
    mkdir -p "$out/corpus/$1"
    # libFuzzer adds new inputs to the first folder.
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

# The plugin is not a library that libFuzzer could call. This test uses generated kubeconfigs, which differ in each run.
KUBECONFIG_SECONDS="$seconds" cargo test-all --quiet --bin kubectl-mc generated_kubeconfigs >"$out/kubeconfig.log" 2>&1 ||
    { tail -40 "$out/kubeconfig.log" >&2; echo "fuzz: kubeconfig failed" >&2; exit 1; }
echo "fuzz: kubeconfig: done"
