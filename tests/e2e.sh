#!/usr/bin/env bash
# The end-to-end tests, in a test bed of their own. What needs a node needs root on Linux: elsewhere
# it is left out, and said in the file that SKIPPED names.
set -euo pipefail
cd "$(dirname "$0")/.."

bed=(--members 3 --member m2=v1.34.4 --sidecar target/debug/mc-sidecar)
tests=(--test-threads 4)
if [ "$(uname -s)" = Linux ] && [ "$(id -u)" -eq 0 ]; then
    bed+=(--node m1)
else
    for filter in attach:: copy:: exec:: logs:: port_forward:: may_not_exec past_two_dashes in_a_pod_no_kubeconfig; do
        tests+=(--skip "$filter")
        echo "e2e tests ${filter}: they need a node, and that needs root on Linux" >>"${SKIPPED:-/dev/stderr}"
    done
fi
cargo test --package kubectl-mc --test e2e --no-run
exec target/debug/testbed run "${bed[@]}" -- \
    cargo test --offline --package kubectl-mc --test e2e -- "${tests[@]}"
