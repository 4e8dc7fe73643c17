#!/usr/bin/env bash
# The quickstart on kind: creates a host and two members, installs the sidecar, joins the members, and prints each command
# with its output. After an error, run it again to continue.
#
#   docs/tutorials/quickstart.sh        create the clusters and run the commands
#   docs/tutorials/quickstart.sh down   delete the clusters that the script created
#
#   QUICKSTART_HOST     kind's name of the host; default host
#   QUICKSTART_MEMBERS  kind's names of the two members; default "m1 m2"
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
host=${QUICKSTART_HOST:-host} image=mc-sidecar:quickstart
read -ra members <<<"${QUICKSTART_MEMBERS:-m1 m2}"
first=${members[0]} second=${members[1]:?QUICKSTART_MEMBERS needs two names}
folder=$PWD/target/quickstart
# Leave your own kubeconfig unchanged.
export KUBECONFIG=$folder/kubeconfig PATH="$PWD/target/debug:$PATH"

show() {
    printf '\n$ %s\n' "$*"
    "$@"
}
is_made() { kubectl config get-contexts "kind-$1" >/dev/null 2>&1; }

for need in kind=https://kind.sigs.k8s.io docker=https://docs.docker.com/engine/install kubectl=https://kubernetes.io/docs/tasks/tools cargo=https://rustup.rs make=https://www.gnu.org/software/make python3=https://www.python.org cmake=https://cmake.org cc=https://gcc.gnu.org; do
    command -v "${need%%=*}" >/dev/null || {
        echo "quickstart: install ${need%%=*} first: ${need#*=}" >&2
        exit 2
    }
done
mkdir -p "$folder"

if [ "${1:-}" = down ]; then
    for cluster in "$host" "${members[@]}"; do
        if is_made "$cluster"; then show kind delete cluster --name "$cluster"; fi
    done
    rm -rf "$folder"
    exit
fi

echo "# Three clusters"
for cluster in "${members[@]}" "$host"; do
    if is_made "$cluster"; then continue; fi
    if kind get clusters 2>/dev/null | grep -qx "$cluster"; then
        echo "quickstart: kind has a cluster $cluster that this script did not create: set QUICKSTART_HOST or QUICKSTART_MEMBERS" >&2
        exit 1
    fi
    show kind create cluster --name "$cluster"
done
kubectl config use-context "kind-$host" >/dev/null

printf '\n# The plugin, and the sidecar image on the node of the host\n'
show cargo build --package kubectl-mc
show make image IMAGE=$image PROFILE=dev BUILDER=docker
show kind load docker-image $image --name "$host"

printf '\n# The sidecar, and the members\n'
show kubectl mc install --image=$image
for member in "${members[@]}"; do
    show kubectl mc join "$member" --member-context="kind-$member" --server="https://$member-control-plane:6443"
done

printf '\n# Commands on one member, and on all\n'
show kubectl mc clusters
if ! kubectl mc --cluster="$first" get deployment web >/dev/null 2>&1; then
    show kubectl mc -C "$first,$second" create deployment web --image=nginx --yes
fi
show kubectl mc --cluster="$first" get deployments -o name
show kubectl mc --all-clusters get deployments -o name

printf '\n# Another user\n'
show kubectl mc access grant view --user=jane -C "$first"
show kubectl mc access explain --as=jane -C "$first" get pods
show kubectl mc access explain --as=jane --as-group=system:authenticated -C "$first" delete pods || true

printf '\n# Go on:\nexport KUBECONFIG=%s PATH=%s:$PATH\n' "$KUBECONFIG" "$PWD/target/debug"
