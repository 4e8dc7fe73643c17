#!/usr/bin/env bash
# Runs the commands of standard input, one per line and as many as the argument says, as a user would paste them into the demo's
# shell: each on its own terminal, with an answer where it asks. Each must end with exit code 0. Endless ones are interrupted
# (SIGINT) after the output that they are meant to show.
set -euo pipefail

out=$(mktemp)
trap 'rm -f "$out"' EXIT
# Each job has its own process group, which an interrupt reaches as it would from a terminal.
set -m

count=0 failed=0
report() { # STATUS COMMAND
    if [ "$1" = 0 ]; then echo "ok: $2"; return; fi
    echo "FAILED (exit code $1): $2"
    sed 's/^/    /' "$out"
    failed=$((failed + 1))
}

until_printed() { # TEXT COMMAND
    local job status=0 seconds=0
    bash -c "exec $2" >"$out" 2>&1 </dev/null &
    job=$!
    until grep -q -- "$1" "$out"; do
        if ! kill -0 "$job" 2>/dev/null || [ "$seconds" -ge 60 ]; then status=1; break; fi
        read -rt 1 <> <(:) || seconds=$((seconds + 1))
    done
    kill -INT -- "-$job" 2>/dev/null || true
    # 130 means that it ended because of the interrupt.
    local code=0
    wait "$job" || code=$?
    [ "$code" = 0 ] || [ "$code" = 130 ] || status=$code
    report "$status" "$2"
}

on_terminal() { # ANSWER COMMAND
    local status=0
    printf '%s\n' "$1" | timeout 180 script --quiet --return --command "$2" /dev/null >"$out" 2>&1 || status=$?
    report "$status" "$2"
}

while IFS= read -r line; do
    command=${line%%  #*}
    command=${command%"${command##*[![:space:]]}"}
    [ -n "$command" ] || continue
    count=$((count + 1))
    case "$command" in
    *' exec '* | *' logs '* | *' port-forward '* | *' tail '*)
        [ -n "${NODES:-}" ] || { echo "skipped, because it needs a node: $command"; continue; }
        ;;
    esac
    case "$command" in
    *' port-forward '*) until_printed '^Forwarding from' "$command" ;;
    *' -f '*) until_printed . "$command" ;;
    *' exec '*) on_terminal exit "$command" ;;
    *) on_terminal y "$command" ;;
    esac
done
[ "$count" = "$1" ] || { echo "demo: $count commands and not $1"; exit 1; }
[ "$failed" = 0 ] || { echo "demo: $failed of $count commands failed"; exit 1; }
