#!/usr/bin/env bash
# Everything that says whether the project is well: lint, unit tests, a little fuzzing, end-to-end tests on a real
# Kubernetes. What cannot run here is listed at the end with its reason; with CI set that is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
export SKIPPED="$PWD/target/skipped"
# A failed test says what it saw, and not 30 lines of how it came there.
export RUST_BACKTRACE=0
mkdir -p target
: >"$SKIPPED"

# The program of the image is linked by one thread for minutes: that is done beside the linter, which wants no certain
# pace. Whatever goes wrong is told when the image is made.
if [ "$(uname -s)" = Linux ]; then
    make --no-print-directory program PLATFORM="$(uname -m)-unknown-linux-gnu" PROFILE=release >target/program.log 2>&1 &
fi
make --no-print-directory lint
wait
make --no-print-directory unit
tests/fuzz.sh
make --no-print-directory e2e
# Those of exec, attach, logs, cp and port-forward; `make conformance` runs all.
make --no-print-directory conformance FOCUS='Kubectl (logs|exec|copy)|Port forwarding|Simple pod'

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
