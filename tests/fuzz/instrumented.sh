#!/bin/sh
# The project's own code, compiled so that libFuzzer sees which ways an input takes and what it is
# compared with. All of it are stable options: the passes of cargo-fuzz without a sanitizer.
exec "$@" --cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares
