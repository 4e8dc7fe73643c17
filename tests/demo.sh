#!/usr/bin/env bash
# Runs the demo: a host, two members, the sidecar, and each command with its real output. On a terminal it
# ends in a shell. DEMO_SHELL=0 leaves out the shell; DEMO_SHELL=check runs the shell's list of commands.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" != --in-bed ]; then
    tests/setup.sh --demo
    export PATH="$PATH:/usr/sbin"
    cores=$(nproc 2>/dev/null || echo 2)
    # These are estimates from builds on two cores.
    minutes() { echo "about $1 minutes of CPU time, so about $((($1 + cores - 1) / cores)) minutes on $cores cores"; }
    [ -d target/debug/deps ] || echo "demo: the first time, Rust compiles the plugin, the sidecar and the test bed: $(minutes 10)"
    cargo build-all --bin kubectl-mc --bin mc-sidecar --bin testbed
    # The test bed builds only the programs of Kubernetes that it starts.
    [ -d target/kubernetes ] || echo "demo: the first time, Go compiles Kubernetes from its modules: $(minutes 20), and 6 GB of disk here and in Go's caches"
    bed=(--members 1 --spare m2 --sidecar target/debug/mc-sidecar)
    if [ "$(uname -s)" = Linux ] && [ "$(id -u)" -eq 0 ]; then
        bed+=(--node m1 --node m2)
    else
        echo "demo: not root on Linux, so without nodes: control planes only, and no pods, logs, exec, cp, port-forward and agent"
    fi
    echo "demo: starting three clusters, which takes half a minute to a minute"
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
# kubectl regards every file kubectl-* in PATH as a plugin, so cargo's folder is not in it.
mkdir "$home/bin"
ln -s "$PWD/target/debug/kubectl-mc" "$PWD/target/debug/mc-sidecar" "$home/bin"
ln -s kubectl-mc "$home/bin/kmc"
testbed=$PWD/target/debug/testbed
export HOME=$home PATH="$home/bin:$PATH"

say() { printf '\n%s# %s%s\n' "$bold" "$*" "$plain"; }
pause() { printf '# (%s)\n' "$*"; }
show() {
    printf '%s$ %s%s\n' "$bold" "$*" "$plain"
    bash -c "$*" || printf '(exit code %s)\n' "$?"
}
kubeconfig() { jq -r "(.members.$1 // .spares.$1).kubeconfig" "$TESTBED/bed.json"; }
member() { kubectl --kubeconfig "$(kubeconfig "$1")" "${@:2}"; }

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
        '.users[0].user = {"client-certificate-data": $crt, "client-key-data": $key} | .contexts[0].context.namespace = "shop"' \
        >"$home/jane.kubeconfig"
# The administrator has a context for the host, which is the current one, and one for m2.
cat >"$home/bin/admin" <<SH
#!/bin/sh
export KUBECONFIG='$admin:$(kubeconfig m2)'
exec "\$@"
SH
chmod +x "$home/bin/admin"
{
    kubectl create clusterrole enter-m1 --verb=get,create,update,patch,delete \
        --resource=clusters.proxy.kubectl-mc.dev/proxy --resource-name=m1
    kubectl create clusterrole list-clusters --verb=get,list,watch --resource=clusters.proxy.kubectl-mc.dev
    kubectl create clusterrolebinding jane-enters-m1 --clusterrole=enter-m1 --user=jane
    kubectl create clusterrolebinding jane-lists-clusters --clusterrole=list-clusters --user=jane
    kubectl label membercluster m1 env=prod
    for one in m1 m2; do member "$one" create namespace shop; done
    member m1 create rolebinding dev --namespace shop --clusterrole=edit --group=dev
} >/dev/null
# Without a node, no pod would run.
replicas=0
if [ -n "$nodes" ]; then replicas=1; fi
for one in m1 m2; do
    member "$one" apply --namespace shop -f - >/dev/null <<YAML
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: $replicas
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: web
        image: testbed.local/agnhost:1
        imagePullPolicy: Never
        args: [netexec, --http-port=8080]
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
      - name: box
        image: testbed.local/busybox:1
        imagePullPolicy: Never
        command: [sleep, "86400"]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
YAML
done
if [ -n "$nodes" ]; then
    pause "waiting until the Deployments web of m1 and m2 run: some seconds"
    for one in m1 m2; do member "$one" rollout status --namespace shop deployment/web --timeout=120s >/dev/null; done
fi
export KUBECONFIG=$home/jane.kubeconfig

say "Jane is logged in to the host, and to nothing else. Her context has the namespace shop. The clusters behind the host:"
show kubectl mc clusters
say "The Deployment of member m1, through the host, as Jane:"
show kubectl mc --cluster=m1 get deployments,services
if [ -n "$nodes" ]; then
    say "The log of its pod, a command in it, a file into it and back:"
    show kubectl mc --cluster=m1 logs deploy/web --container web
    show kubectl mc --cluster=m1 exec deploy/web --container box -- sh -c "'echo I am \$(hostname); uname -s'"
    echo "hello from here" >"$home/note"
    pod=$(member m1 get pods --namespace shop --selector app=web -o 'jsonpath={.items[0].metadata.name}')
    show kubectl mc --cluster=m1 cp --container box "$home/note" "$pod:/tmp/note"
    show kubectl mc --cluster=m1 exec "$pod" --container box -- sha256sum /tmp/note
    show kubectl mc --cluster=m1 cp --container box "$pod:/tmp/note" "$home/back"
    show sha256sum "$home/back"
    say "A port of its Service, and a request through that:"
    printf '%s$ kubectl mc --cluster=m1 port-forward svc/web 18080:80 &%s\n' "$bold" "$plain"
    kubectl-mc --cluster=m1 port-forward svc/web 18080:80 >"$home/forward" 2>&1 &
    forward=$!
    until grep -q Forwarding "$home/forward"; do kill -0 "$forward" || { cat "$home/forward"; exit 1; }; done
    show curl --silent 'http://127.0.0.1:18080/echo?msg=it+works'
    echo
    kill "$forward"
    forward=
fi
say "m1 itself says no where she has no right there:"
show kubectl mc --cluster=m1 get nodes
say "What m1 saw of it all: Jane, by name, in its audit log."
show "jq -c 'select(.impersonatedUser.username == \"jane\") | [.verb, .requestURI, .impersonatedUser.username, .impersonatedUser.groups]' $(jq -r .members.m1.audit_log "$TESTBED/bed.json") | tail -n 3"

# The pods of the demo have no DNS, so the agent gets the address of its kube-apiserver.
join="kubectl mc join m2 --member-context=m2 --labels=env=prod --bindable-roles=view,edit"
if [ -n "$nodes" ]; then
    say "The host's administrator adds a cluster that the host need not reach: an agent in it dials the host."
    target=$(member m2 get service kubernetes --namespace default -o 'jsonpath={.spec.clusterIP}')
    printf 'image: {pullPolicy: Never}\ntarget: %s:443\n' "$target" >"$home/agent.yaml"
    join+=" --agent --agent-image=testbed.local/mc-sidecar:1 --agent-values=$home/agent.yaml"
else
    say "The host's administrator adds a cluster:"
fi
show "admin $join"
say "It is closed to Jane: the host says so."
show kubectl mc --cluster=m2 get pods
say "The administrator gives Jane's group access to it. Then she reads both clusters in one table:"
show admin kubectl mc access grant edit --group=dev --cluster=m2
show kubectl mc --cluster=m1,m2 get deployments
say "An outage: the kube-apiserver of m2 is gone. m1 answers as before, and the summary says what is missing:"
"$testbed" stop m2
pause "waiting until the host has noticed: after three failed probes, about half a minute"
kubectl --kubeconfig "$admin" wait membercluster/m2 --for=condition=Ready=false --timeout=120s >/dev/null 2>&1
show kubectl mc --cluster=m1,m2 get deployments
show kubectl mc clusters
say "It is back, and nobody needs to do anything:"
pause "waiting until its kube-apiserver has started and a probe has succeeded: up to a minute"
"$testbed" restart m2
kubectl --kubeconfig "$admin" wait membercluster/m2 --for=condition=Ready --timeout=120s >/dev/null 2>&1
show kubectl mc --cluster=m2 get deployments

# The list to paste comes from the README.
first_commands() {
    awk '/^## /{here = $0 == "## First commands"} here && /^```/{if (inside) exit; inside = 1; next} inside' README.md
}
as_admin="admin kubectl mc access explain --as=jane --as-group=dev -C m1 get pods -n shop"
if [ "${DEMO_SHELL:-1}" = check ]; then
    say "README's first commands, each in the demo:"
    { first_commands; echo "$as_admin"; } | NODES=$nodes tests/demo-commands.sh 11
elif [ -t 0 ] && [ -t 1 ] && [ "${DEMO_SHELL:-1}" != 0 ]; then
    say "A shell as Jane, in the namespace shop. Paste any of these:"
    first_commands
    say "'admin COMMAND' runs a command as the host's administrator: $as_admin"
    say "'exit' takes everything down."
    PS1='mc-demo$ ' bash --norc -i || true
fi
