//! Tests `kubectl mc install` and `uninstall` for the place of the sidecars: a namespace or a cluster that
//! the command does not name, or a namespace that the plugin did not create.

use std::fs;

use serde_json::{Value, json};

use crate::bed::{Bed, Ran};

const REGISTERED: &str = "/apiservices/v1alpha1.proxy.kubectl-mc.dev";
const INSTALL: [&str; 3] = ["--context=host", "install", "--image=i"];

/// The end of a path, and the object there.
type Found = (&'static str, fn() -> Value);

/// A host with these objects by the ends of their paths. Every other object has the keys of the
/// host's front proxy and of a token, but not the plugin's label.
fn host(found: &'static [Found]) -> Bed {
    Bed::serving(move |path| {
        let path = path.split('?').next().unwrap_or_default();
        let other = || {
            json!({"data": {
                "requestheader-client-ca-file": "x", "requestheader-username-headers": "x",
                "requestheader-group-headers": "x", "token": "eA==",
            }})
        };
        let object =
            found.iter().find(|(end, _)| path.ends_with(end)).map_or_else(other, |(_, object)| object());
        (200, "application/json", object.to_string())
    })
}

fn registration() -> Value {
    json!({
        "metadata": {"labels": {"app.kubernetes.io/managed-by": "kubectl-mc"}},
        "spec": {"service": {"namespace": "mc", "name": "mc-sidecar"}},
    })
}

fn is_write(head: &str) -> bool {
    !head.starts_with("GET ") && !head.contains("dryRun=All")
}

fn refused(bed: &Bed, words: &[&str], error: &str, hint: &str) {
    let ran = bed.run(words);
    let (code, text) = ran.failed();
    assert_eq!(code, 2, "{text}");
    assert!(text.contains(error) && text.contains(hint), "{text}");
    assert_eq!(bed.requests().into_iter().filter(|head| is_write(head)).count(), 0, "something was written");
}

#[test]
fn sidecars_of_another_namespace_are_not_cut_off() {
    let bed = host(&[
        (REGISTERED, registration),
        ("/deployments/mc-sidecar", || json!({"metadata": registration()["metadata"]})),
    ]);
    let error =
        "error: nothing was changed: the sidecars are installed in namespace mc, not in kubectl-mc-system\n";
    refused(
        &bed,
        &[&INSTALL[..], &["--replicas=3"]].concat(),
        error,
        "hint: install them there: kubectl mc --context=host install -n mc --image=i --replicas=3; to move them, \
         remove them there first: kubectl mc --context=host uninstall -n mc\n",
    );
    refused(
        &bed,
        &["--context=host", "uninstall", "--yes"],
        error,
        "hint: remove them there: kubectl mc --context=host uninstall -n mc\n",
    );
    for verb in [&INSTALL[..], &["uninstall", "--yes"]] {
        let ran = bed.run(&[verb, &["-n", "mc", "--dry-run"]].concat());
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
}

fn of_helm() -> Value {
    json!({"metadata": {
        "labels": {"app.kubernetes.io/managed-by": "Helm"},
        "annotations": {"meta.helm.sh/release-name": "proxy", "meta.helm.sh/release-namespace": "mc"},
    }})
}

#[test]
fn uninstall_refuses_sidecars_of_another_tool() {
    let by_helm = "error: nothing was changed: the sidecar was installed by Helm, as release \"proxy\"\n";
    let by_another = "error: nothing was changed: the sidecar was installed by another tool\n";
    let see = "see: kubectl --context=host get --raw /apis/apps/v1/namespaces/mc/deployments/mc-sidecar\n";
    for (bed, error, hint) in [
        (host(&[(REGISTERED, of_helm)]), by_helm, "hint: remove it by Helm: helm -n mc uninstall proxy\n"),
        (
            host(&[(REGISTERED, || Value::Null), ("/deployments/mc-sidecar", of_helm)]),
            by_helm,
            "helm -n mc uninstall proxy\n",
        ),
        (host(&[(REGISTERED, registration)]), by_another, see),
    ] {
        let ran = bed.run(&["--context=host", "uninstall", "-n", "mc", "--yes"]);
        let (code, text) = ran.failed();
        assert!(code == 1 && text.contains(error) && text.contains(hint), "{text}");
        assert_eq!(bed.requests().into_iter().filter(|head| is_write(head)).count(), 0, "it wrote");
    }
}

fn service_by_name() -> Value {
    json!({
        "metadata": {"labels": {"app.kubernetes.io/managed-by": "kubectl-mc"}},
        "spec": {"type": "ExternalName", "externalName": "mc.example"},
    })
}

fn service_by_address() -> Value {
    json!({"metadata": service_by_name()["metadata"], "spec": {"ports": [{"port": 443}]}})
}

fn service_of_pods() -> Value {
    json!({"metadata": service_by_name()["metadata"], "spec": {"selector": {"app.kubernetes.io/name": "mc-sidecar"}}})
}

#[test]
fn sidecars_of_another_cluster_are_not_cut_off() {
    let error = "error: nothing was applied: Service kubectl-mc-system/mc-sidecar of the host leads to sidecars in \
                 another cluster, which --run-on does not name\n";
    for (bed, reach) in [
        (host(&[("/services/mc-sidecar", service_by_name)]), "--external-name=mc.example"),
        (host(&[("/services/mc-sidecar", service_by_address)]), "--endpoint=IP:PORT"),
    ] {
        let hint = format!(
            "hint: name that cluster: kubectl mc --context=host install -n kubectl-mc-system --image=i \
             --run-on=CONTEXT {reach}; to run them on the host, remove them there first: kubectl mc --context=host \
             uninstall -n kubectl-mc-system --run-on=CONTEXT\n"
        );
        refused(&bed, &INSTALL, error, &hint);
    }
    let ran =
        host(&[("/services/mc-sidecar", service_of_pods)]).run(&[&INSTALL[..], &["--dry-run"]].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

fn crd() -> Value {
    json!({"status": {"conditions": [{"type": "Established", "status": "True"}]}})
}

/// Runs an installation on a host whose sidecars run in another cluster.
fn run_on(runs: &Bed, flags: &[&str]) -> Ran {
    let host = host(&[
        ("/memberclusters.fleet.kubectl-mc.dev", crd),
        ("/clusteraccesses.fleet.kubectl-mc.dev", crd),
        ("/namespaces/kube-system", || json!({"metadata": {"uid": "of-the-host"}})),
    ]);
    let kubeconfig = json!({
        "current-context": "host",
        "clusters": [
            {"name": "host", "cluster": {"server": host.server()}},
            {"name": "runs", "cluster": {"server": runs.server()}},
        ],
        "contexts": [
            {"name": "host", "context": {"cluster": "host", "user": "u"}},
            {"name": "runs", "context": {"cluster": "runs", "user": "u"}},
        ],
        "users": [{"name": "u", "user": {"token": "secret"}}],
    });
    fs::write(host.path("kubeconfig"), kubeconfig.to_string()).unwrap();
    let run_on = ["--run-on=runs", "--external-name=mc.example", "--host-server=https://host.example"];
    host.run(&[&INSTALL[..], &run_on, flags].concat())
}

#[test]
fn foreign_namespace_of_another_cluster_is_not_claimed() {
    let runs = host(&[]);
    let ran = run_on(&runs, &["--timeout=1s"]);
    let note = "namespace kubectl-mc-system of the cluster of the sidecars was not created by kubectl-mc and is left \
                unchanged";
    assert!(ran.err.contains(note), "{ran:?}");
    let patched = |head: &&String| head.starts_with("PATCH ");
    let requests = runs.requests();
    let is_namespace = |head: &&String| head.contains("/namespaces/kubectl-mc-system?");
    assert_eq!(requests.iter().filter(patched).filter(is_namespace).count(), 0, "{requests:?}");
    // It was applied there.
    let is_program = |head: &&String| head.contains("/deployments/mc-sidecar?") && !head.contains("dryRun");
    assert_eq!(requests.iter().filter(patched).filter(is_program).count(), 1, "{requests:?}");
}

fn sidecars_of(host_uid: &str) -> Value {
    json!({"metadata": {
        "labels": {"app.kubernetes.io/managed-by": "kubectl-mc"},
        "annotations": {"fleet.kubectl-mc.dev/host": host_uid},
    }})
}

#[test]
fn sidecars_of_another_host_are_not_replaced() {
    let of_another = host(&[("/deployments/mc-sidecar", || sidecars_of("other"))]);
    let of_itself = host(&[
        ("/deployments/mc-sidecar", || json!({"metadata": registration()["metadata"]})),
        ("/secrets/mc-sidecar-host", || Value::Null),
    ]);
    for (runs, served) in
        [(of_another, "another host, whose kube-system has uid other"), (of_itself, "that cluster itself")]
    {
        let ran = run_on(&runs, &[]);
        let error = format!(
            "error: nothing was changed: the sidecars in namespace kubectl-mc-system of the cluster of the sidecars \
             serve {served}\nhint: run the sidecars of this host in another namespace: -n NAME\n"
        );
        let (code, text) = ran.failed();
        assert!(code == 2 && text.contains(&error), "{ran:?}");
        assert_eq!(runs.requests().into_iter().filter(|head| is_write(head)).count(), 0);
    }
    for runs in [
        host(&[("/deployments/mc-sidecar", || sidecars_of("of-the-host"))]),
        // Earlier versions wrote no annotation.
        host(&[("/deployments/mc-sidecar", || json!({"metadata": registration()["metadata"]}))]),
    ] {
        let ran = run_on(&runs, &["--dry-run"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
}
