#!/usr/bin/env bash
# Runs the demo: a host, two members, the sidecar, and each command with its real output. On a terminal it
# ends in a shell; DEMO_SHELL=0 leaves the shell out.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" != --in-bed ]; then
    tests/setup.sh --no-deny
    export PATH="$PATH:/usr/sbin"
    echo "demo: building the plugin, the sidecar and the test bed"
    cargo build --quiet --package kubectl-mc --package sidecar --package testbed
    # The test bed builds only the programs of Kubernetes that it starts.
    [ -d target/kubernetes ] || echo "demo: the first time, Kubernetes is built from its Go modules: about four minutes on two cores, and 6 GB of disk here and in Go's caches"
    bed=(--members 2 --spare s1 --sidecar target/debug/mc-sidecar)
    if [ "$(uname -s)" = Linux ] && [ "$(id -u)" -eq 0 ]; then
        bed+=(--node m1)
    else
        echo "demo: not root on Linux, so without a node: control planes only, and no logs, exec, cp and port-forward"
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

# Jane is a developer. She has a certificate of the host, a right on the host to reach m1, and a right on m1
# to work in the namespace shop. She has no right on m2, and no credential of any member.
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

say "Jane is logged in to the host, and to nothing else. These are the clusters behind it:"
show kubectl mc clusters
say "A pod of member m1, through the host, as Jane:"
show kubectl mc --cluster=m1 get pods --namespace shop
if [ -n "$nodes" ]; then
    say "Its log, a command in it, a file into it and back:"
    show kubectl mc --cluster=m1 logs --namespace shop web --container web
    show kubectl mc --cluster=m1 exec --namespace shop web --container box -- sh -c "'echo I am \$(hostname); uname -s'"
    echo "hello from here" >"$home/note"
    show kubectl mc --cluster=m1 cp --container box "$home/note" shop/web:/tmp/note
    show kubectl mc --cluster=m1 exec --namespace shop web --container box -- sha256sum /tmp/note
    show kubectl mc --cluster=m1 cp --container box shop/web:/tmp/note "$home/back"
    show sha256sum "$home/back"
    say "A port of it, and a request through that:"
    printf '%s$ kubectl mc --cluster=m1 port-forward --namespace shop pod/web 18080:8080 &%s\n' "$bold" "$plain"
    kubectl-mc --cluster=m1 port-forward --namespace shop pod/web 18080:8080 >"$home/forward" 2>&1 &
    forward=$!
    until grep -q Forwarding "$home/forward"; do kill -0 "$forward" || { cat "$home/forward"; exit 1; }; done
    show curl --silent 'http://127.0.0.1:18080/echo?msg=it+works'
    echo
    kill "$forward"
    forward=
fi
say "Member m2 is closed to her: the host says so."
show kubectl mc --cluster=m2 get pods
say "And m1 itself says no where she has no right there:"
show kubectl mc --cluster=m1 get nodes
say "What m1 saw of it all: Jane, by name, in its audit log."
show "jq -c 'select(.impersonatedUser.username == \"jane\") | [.verb, .requestURI, .impersonatedUser.username, .impersonatedUser.groups]' $(jq -r .members.m1.audit_log "$TESTBED/bed.json") | tail -n 3"

say "The host's administrator adds a cluster, and gives Jane's group access to all clusters of its label:"
spare=$(jq -r .spares.s1.kubeconfig "$TESTBED/bed.json")
kubectl --kubeconfig "$spare" create namespace shop >/dev/null
export KUBECONFIG=$admin:$spare
show kubectl mc join shop --member-context=s1 --labels=env=prod --bindable-roles=view
show kubectl mc access grant view --group=dev --cluster-selector=env=prod
export KUBECONFIG=$home/jane.kubeconfig
say "Jane reads the new cluster, beside the one that she had:"
show kubectl mc --cluster=m1,shop get configmaps --namespace shop
say "An outage: the kube-apiserver of the new cluster is gone. The other one answers as before, and it is said what is missing:"
target/debug/testbed stop s1
kubectl --kubeconfig "$admin" wait membercluster/shop --for=condition=Ready=false --timeout=120s >/dev/null 2>&1
show kubectl mc --cluster=m1,shop get configmaps --namespace shop
show kubectl mc clusters
say "It is back, and needs nobody:"
target/debug/testbed restart s1
kubectl --kubeconfig "$admin" wait membercluster/shop --for=condition=Ready --timeout=120s >/dev/null 2>&1
show kubectl mc --cluster=shop get namespaces

if [ -t 0 ] && [ -t 1 ] && [ "${DEMO_SHELL:-1}" != 0 ]; then
    say "A shell as Jane. KUBECONFIG=$admin is the host's administrator. 'exit' takes everything down."
    PS1='mc-demo$ ' bash --norc -i || true
fi
