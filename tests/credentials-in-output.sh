#!/usr/bin/env bash
# Searches the output of the test bed's sidecar for credentials: tokens (JWT), private keys and PEM blocks, plain or in
# base64. The output is its log, metrics and debug page, and the Events, conditions and ConfigMaps that it writes on the
# host. Fails if it finds a credential, if an output is empty, or if the search fails.
set -euo pipefail
bed="${TESTBED:?run this in a test bed: target/debug/testbed run … -- $0}"
folder="$(mktemp -d)"
trap 'rm -r "$folder"' EXIT
output="$folder/output" lines="$folder/lines"
mkdir "$output"

kubectl get events --all-namespaces -o json >"$output/events"
kubectl get memberclusters -o json >"$output/memberclusters"
# Kubernetes itself writes kube-root-ca.crt, a public CA.
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
    [ -s "$file" ] || { echo "the sidecar's ${file##*/} is empty" >&2; exit 1; }
    status=0
    grep -nEo '.{0,80}(eyJ[A-Za-z0-9_-]{10,}\.eyJ|ZXlK[A-Za-z0-9+/]{60,}|PRIVATE KEY|-----BEGIN|LS0tLS1CRUdJTi).{0,20}' \
        "$file" >"$lines" || status=$?
    case "$status" in
        0)
            found=1
            echo "the sidecar's ${file##*/} contains a credential:" >&2
            head -20 "$lines" >&2
            ;;
        1) ;;
        *) echo "cannot search the sidecar's ${file##*/}: grep exited with $status" >&2; exit 1 ;;
    esac
done
echo "searched $(cat "$output"/* | wc -c) bytes of output for credentials"
exit "$found"
