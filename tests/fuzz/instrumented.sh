#!/bin/sh
# Compiles the project's own code so that libFuzzer sees the branches that an input takes and the values that
# it is compared with. All are stable options: the passes of cargo-fuzz without a sanitizer.
exec "$@" --cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares
