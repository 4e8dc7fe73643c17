#!/bin/sh
# Compiles with coverage for libFuzzer: branches, and values in comparisons. These are cargo-fuzz's passes without a
# sanitizer. All of them are stable options.
exec "$@" --cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares
