#!/usr/bin/env bash
# Runs lint, unit tests, short fuzzing, and the end-to-end tests of the first tier. --all adds the long tests: every version
# and hub, the image in pods, upstream's tests, attacks and soaks. Lists skipped parts with the reason at the end; with CI
# set, a skipped part is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
all=("$@")
export SKIPPED="$PWD/target/skipped"
# Print what a failed test saw, without 30 lines of backtrace.
export RUST_BACKTRACE=0
mkdir -p target
: >"$SKIPPED"

# Build slow, non-urgent targets in the background at low priority. Failures surface when the result is used.
in_background() { # NAME COMMAND...
    nice -n 19 "${@:2}" >"target/$1.log" 2>&1 &
}
trap 'jobs -p | xargs -r kill 2>/dev/null || true' EXIT
tests/setup.sh --no-tools
# Compile cargo-deny and mdBook in parallel with the first build, which does not use all cores.
tests/setup.sh >target/setup.log 2>&1 &
setup=$!
if [ "${#all[@]}" -gt 0 ] && [ "$(uname -s)" = Linux ]; then
    in_background program make --no-print-directory program PLATFORM="$(uname -m)-unknown-linux-gnu" PROFILE=release
    program=$!
fi
cargo build-all --quiet --bin testbed
in_background kubernetes target/debug/testbed build ${all[@]:+--everything}
kubernetes=$!
cargo build-all --quiet --bins
status=0
wait "$setup" || status=$?
cat target/setup.log
[ "$status" = 0 ] || exit "$status"
make --no-print-directory lint
make --no-print-directory unit
tests/fuzz.sh
echo "waiting for background builds; logs: target/*.log"
for process in ${program:-} $kubernetes; do wait "$process" || true; done
# README's first commands, in the demo.
DEMO_SHELL=check tests/demo.sh >target/demo.log 2>&1 || { cat target/demo.log; exit 1; }
if [ "${#all[@]}" -gt 0 ]; then
    # Upstream's tests of exec, attach, logs, cp and port-forward; `make conformance` runs all. They mostly wait, so they run
    # in parallel with ours. Their bed starts after ours, and our tests that need a quiet machine start after them.
    rm -f target/bed-is-up
    (
        until [ -e target/bed-is-up ]; do sleep 1; done
        exec make --no-print-directory conformance FOCUS='Kubectl (logs|exec|copy)|Port forwarding|Simple pod'
    ) >target/conformance.log 2>&1 &
    conformance=$!
fi
BESIDE="${conformance:-}" tests/e2e.sh "${all[@]}"
if [ -n "${conformance:-}" ]; then
    wait "$conformance" || status=$?
    cat target/conformance.log
    [ "$status" = 0 ] || exit "$status"
fi

if [ -s "$SKIPPED" ]; then
    echo "skipped:"
    sort -u "$SKIPPED" | sed 's/^/  /'
    if [ -n "${CI:-}" ]; then
        echo "error: CI must not skip anything" >&2
        exit 1
    fi
else
    echo "skipped: nothing"
fi
