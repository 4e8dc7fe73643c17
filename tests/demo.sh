#!/usr/bin/env bash
# Runs the demo: a host, two members, the sidecar, and each command with its real output. On a terminal it ends in a shell,
# unless DEMO_SHELL=0.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" != --in-bed ]; then
    tests/setup.sh --no-deny
    export PATH="$PATH:/usr/sbin"
    echo "demo: building the plugin, the sidecar and the test bed"
    cargo build --quiet --package kubectl-mc --package sidecar --package testbed
    [ -d target/kubernetes ] || echo "demo: building Kubernetes from its Go modules, the first time only: about four minutes on two cores, and 6 GB of disk here and in Go's caches"
    bed=(--members 2 --spare s1 --sidecar target/debug/mc-sidecar)
    if [ "$(uname -s)" = Linux ] && [ "$(id -u)" -eq 0 ]; then
        bed+=(--node m1)
    else
        echo "demo: without root on Linux there is no node: the demo skips logs, exec, cp and port-forward"
    fi
    exec target/debug/testbed run "${bed[@]}" -- tests/demo.sh --in-bed
fi

bold='' plain=''
if [ -t 1 ]; then bold=$'\e[1m' plain=$'\e[0m'; fi
home=$(mktemp -d "${TMPDIR:-/tmp}/kubectl-mc-demo.XXXXXX")
forward=
leave() {
    [ -z "$forward" ] || kill "$forward" 2>/dev/null || true
    rm -rf "$home"
}
trap leave EXIT
export HOME=$home PATH="$PWD/target/debug:$PATH"

say() { printf '\n%s# %s%s\n' "$bold" "$*" "$plain"; }
show() {
    printf '%s$ %s%s\n' "$bold" "$*" "$plain"
    bash -c "$*" || printf '(exit code %s)\n' "$?"
}
member() { kubectl --kubeconfig "$(jq -r ".members.$1.kubeconfig" "$TESTBED/bed.json")" "${@:2}"; }

nodes=$(jq -r '.members.m1.node // empty' "$TESTBED/bed.json")

# Jane is a developer. The host lets her reach m1, and m1 lets her edit namespace shop. She has no right on m2. Her only
# credential is a certificate of the host.
jane=$home/jane
openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj '/CN=jane/O=dev' \
    -keyout "$jane.key" -out "$jane.csr" 2>/dev/null
openssl x509 -req -in "$jane.csr" -days 1 -out "$jane.crt" -CAcreateserial -CAserial "$home/serial" \
    -extfile <(printf 'extendedKeyUsage=clientAuth') \
    -CA "$(jq -r .host.ca_certificate "$TESTBED/bed.json")" -CAkey "$(jq -r .host.ca_key "$TESTBED/bed.json")" 2>/dev/null
admin=$KUBECONFIG
kubectl config view --raw --minify --flatten -o json |
    jq --arg crt "$(base64 -w0 <"$jane.crt")" --arg key "$(base64 -w0 <"$jane.key")" \
        '.users[0].user = {"client-certificate-data": $crt, "client-key-data": $key}' >"$home/jane.kubeconfig"
{
    kubectl create clusterrole enter-m1 --verb=get,create,update,patch,delete \
        --resource=clusters.proxy.kubectl-mc.dev/proxy --resource-name=m1
    kubectl create clusterrole list-clusters --verb=get,list,watch --resource=clusters.proxy.kubectl-mc.dev
    kubectl create clusterrolebinding jane-enters-m1 --clusterrole=enter-m1 --user=jane
    kubectl create clusterrolebinding jane-lists-clusters --clusterrole=list-clusters --user=jane
    member m1 create namespace shop
    member m1 create rolebinding dev --namespace shop --clusterrole=edit --group=dev
} >/dev/null
member m1 apply --namespace shop -f - >/dev/null <<'YAML'
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers:
  - name: web
    image: testbed.local/agnhost:1
    imagePullPolicy: Never
    args: [netexec, --http-port=8080]
  - name: box
    image: testbed.local/busybox:1
    imagePullPolicy: Never
    command: [sleep, "86400"]
YAML
[ -z "$nodes" ] || member m1 wait --namespace shop --for=condition=Ready pod/web --timeout=60s >/dev/null
export KUBECONFIG=$home/jane.kubeconfig

say "Jane is logged in to the host only. The host has these clusters:"
show kubectl mc clusters
say "Jane lists the pods of member m1, through the host:"
show kubectl mc --cluster=m1 get pods --namespace shop
if [ -n "$nodes" ]; then
    say "She reads a pod's log, runs commands in it, and copies a file in and out:"
    show kubectl mc --cluster=m1 logs --namespace shop web --container web
    show kubectl mc --cluster=m1 exec --namespace shop web --container box -- sh -c "'echo I am \$(hostname); uname -s'"
    echo "hello from here" >"$home/note"
    show kubectl mc --cluster=m1 cp --container box "$home/note" shop/web:/tmp/note
    show kubectl mc --cluster=m1 exec --namespace shop web --container box -- sha256sum /tmp/note
    show kubectl mc --cluster=m1 cp --container box shop/web:/tmp/note "$home/back"
    show sha256sum "$home/back"
    say "She forwards a port and sends a request to it:"
    printf '%s$ kubectl mc --cluster=m1 port-forward --namespace shop pod/web 18080:8080 &%s\n' "$bold" "$plain"
    kubectl-mc --cluster=m1 port-forward --namespace shop pod/web 18080:8080 >"$home/forward" 2>&1 &
    forward=$!
    until grep -q Forwarding "$home/forward"; do kill -0 "$forward" || { cat "$home/forward"; exit 1; }; done
    show curl --silent 'http://127.0.0.1:18080/echo?msg=it+works'
    echo
    kill "$forward"
    forward=
fi
say "The host refuses her on member m2:"
show kubectl mc --cluster=m2 get pods
say "m1 itself refuses what she has no right to there:"
show kubectl mc --cluster=m1 get nodes
say "The audit log of m1 has her name:"
show "jq -c 'select(.impersonatedUser.username == \"jane\") | [.verb, .requestURI, .impersonatedUser.username, .impersonatedUser.groups]' $(jq -r .members.m1.audit_log "$TESTBED/bed.json") | tail -n 3"

say "The host's administrator adds a cluster, and grants Jane's group access to all clusters with its label:"
spare=$(jq -r .spares.s1.kubeconfig "$TESTBED/bed.json")
kubectl --kubeconfig "$spare" create namespace shop >/dev/null
export KUBECONFIG=$admin:$spare
show kubectl mc join shop --member-context=s1 --labels=env=prod --bindable-roles=view
show kubectl mc access grant view --group=dev --cluster-selector=env=prod
export KUBECONFIG=$home/jane.kubeconfig
say "Jane reads both clusters with one command:"
show kubectl mc --cluster=m1,shop get configmaps --namespace shop
say "The kube-apiserver of the new cluster stops. The other cluster answers as before, and a summary names the missing one:"
target/debug/testbed stop s1
kubectl --kubeconfig "$admin" wait membercluster/shop --for=condition=Ready=false --timeout=120s >/dev/null 2>&1
show kubectl mc --cluster=m1,shop get configmaps --namespace shop
show kubectl mc clusters
say "The cluster returns, and nobody has to do anything:"
target/debug/testbed restart s1
kubectl --kubeconfig "$admin" wait membercluster/shop --for=condition=Ready --timeout=120s >/dev/null 2>&1
show kubectl mc --cluster=shop get namespaces

if [ -t 0 ] && [ -t 1 ] && [ "${DEMO_SHELL:-1}" != 0 ]; then
    say "A shell as Jane. KUBECONFIG=$admin is the host's administrator. 'exit' stops everything."
    PS1='mc-demo$ ' bash --norc -i || true
fi
