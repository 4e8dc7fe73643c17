#!/usr/bin/env bash
# Searches the output of the test bed's sidecar after a run of tests (its log, metrics and debug page, the
# Events, conditions and ConfigMaps that it writes on the host) for credentials: tokens (JWT), private keys
# and PEM blocks, plain or in base64. Fails if there is one, if there is nothing to search, or if the search
# itself fails.
set -euo pipefail
bed="${TESTBED:?run this in a test bed: target/debug/testbed run … -- $0}"
folder="$(mktemp -d)"
trap 'rm -r "$folder"' EXIT
output="$folder/output" lines="$folder/lines"
mkdir "$output"

kubectl get events --all-namespaces -o json >"$output/events"
kubectl get memberclusters -o json >"$output/memberclusters"
# The cluster writes kube-root-ca.crt, with its public CA.
kubectl get configmaps -n kubectl-mc-system --field-selector metadata.name!=kube-root-ca.crt -o json >"$output/configmaps"
name=mc-sidecar.kubectl-mc-system.svc
user() { kubectl config view --raw -o jsonpath="{.users[0].user.client-$1-data}" | base64 --decode; }
for path in metrics debug/state; do
    curl --silent --show-error --fail --cacert "$bed/mc-sidecar/ca.crt" --cert <(user certificate) --key <(user key) \
        --connect-to "$name:443:$(jq -r '.sidecar.url | ltrimstr("https://")' "$bed/bed.json")" \
        "https://$name/$path" >"$output/${path//\//-}"
done
ln -s "$bed/mc-sidecar/mc-sidecar.log" "$output/log"

found=0
for file in "$output"/*; do
    [ -s "$file" ] || { echo "there is nothing to search in: ${file##*/}" >&2; exit 1; }
    status=0
    grep -nEo '.{0,80}(eyJ[A-Za-z0-9_-]{10,}\.eyJ|ZXlK[A-Za-z0-9+/]{60,}|PRIVATE KEY|-----BEGIN|LS0tLS1CRUdJTi).{0,20}' \
        "$file" >"$lines" || status=$?
    case "$status" in
        0)
            found=1
            echo "a credential is in the sidecar's ${file##*/}:" >&2
            head -20 "$lines" >&2
            ;;
        1) ;;
        *) echo "cannot search the sidecar's ${file##*/}: grep ended with $status" >&2; exit 1 ;;
    esac
done
echo "searched $(cat "$output"/* | wc -c) bytes of output for credentials"
exit "$found"
