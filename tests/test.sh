#!/usr/bin/env bash
# Says whether the project is well: lint, unit tests, a little fuzzing, end-to-end tests on a real Kubernetes. With --all
# also what takes long: every version and hub, the image in pods, upstream's tests, crowds, hostile callers and soaks.
# What cannot run here is listed at the end with its reason; with CI set that is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
all=("$@")
export SKIPPED="$PWD/target/skipped"
# A failed test says what it saw, and not 30 lines of how it came there.
export RUST_BACKTRACE=0
mkdir -p target
: >"$SKIPPED"

# What takes long and wants no certain pace is built beside the rest, with what the rest leaves of the machine. Whatever goes
# wrong is told when it is used.
in_background() { # NAME COMMAND...
    nice -n 19 "${@:2}" >"target/$1.log" 2>&1 &
}
trap 'jobs -p | xargs -r kill 2>/dev/null || true' EXIT
tests/setup.sh --no-deny
# cargo-deny is compiled beside the first build, whose C leaves it room.
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
echo "waiting for what is built beside this: target/*.log"
for process in ${program:-} $kubernetes; do wait "$process" || true; done
if [ "${#all[@]}" -gt 0 ]; then
    # Upstream's tests of exec, attach, logs, cp and port-forward; `make conformance` runs all. They wait most of the time, so
    # they run beside ours: their bed starts when ours is up, and our tests that need a quiet machine wait for their end.
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
        echo "error: nothing may be skipped in CI" >&2
        exit 1
    fi
else
    echo "skipped: nothing"
fi
