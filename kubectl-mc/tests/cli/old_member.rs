//! Tests `kubectl mc join` for a member with a Kubernetes version that is older than those in the
//! tests.

use std::fs;

use serde_json::json;

use crate::bed::{Answer, Bed, Ran};

const UNTESTED: &str = "members before Kubernetes 1.30 are neither tested nor supported";

#[test]
fn untested_member_needs_a_confirmation() {
    let (ran, writes) = join("v1.29.14-gke.7", &[]);
    let (code, error) = ran.failed();
    assert_eq!(code, 1);
    let version = "warning: the member is Kubernetes v1.29.14-gke.7";
    assert!(error.contains(&format!("{version}; {UNTESTED}\n")), "{error}");
    assert!(error.contains(&format!("{version} and serves no ValidatingAdmissionPolicy")), "{error}");
    assert!(error.contains("cannot ask for confirmation") && error.contains("--yes"), "{error}");
    assert_eq!(writes, Vec::<String>::new());
}

#[test]
fn confirmed_untested_member_is_joined() {
    let (ran, writes) = join("v1.22.0", &["--yes"]);
    assert!(ran.err.contains(UNTESTED), "{ran:?}");
    assert!(writes.iter().any(|head| head.contains("/member/")), "{ran:?}");
}

#[test]
fn oldest_tested_member_joins_without_a_warning() {
    let (ran, writes) = join("v1.30.0", &[]);
    assert!(ran.err.contains("preflight: the member is Kubernetes v1.30.0\n"), "{ran:?}");
    assert!(!ran.err.contains("warning"), "{ran:?}");
    assert!(!writes.is_empty(), "{ran:?}");
}

#[test]
fn member_before_the_minimum_version_is_refused() {
    let (ran, writes) = join("v1.21.14", &["--yes"]);
    let (code, error) = ran.failed();
    assert_eq!(code, 1);
    assert!(error.contains("cannot join: the member is Kubernetes v1.21.14"), "{error}");
    assert!(error.contains("a member must have Kubernetes 1.22 or later"), "{error}");
    assert!(error.contains("hint: upgrade the member"), "{error}");
    assert_eq!(writes, Vec::<String>::new());
}

/// Joins a member of this version. Also returns the heads of the requests that change something; none of them
/// is accepted.
fn join(version: &'static str, flags: &[&str]) -> (Ran, Vec<String>) {
    let bed = Bed::serving(move |path| answer(path, version));
    let ran = join_on(&bed, flags);
    let changes = |head: &String| !head.starts_with("GET ") && !head.contains("accessreviews");
    (ran, bed.requests().into_iter().filter(changes).collect())
}

/// Joins a member that this bed serves below `/member`, to the host below `/host`.
pub(crate) fn join_on(bed: &Bed, flags: &[&str]) -> Ran {
    let server = bed.server();
    let names = ["host", "member"];
    let clusters = names.map(|name| json!({"name": name, "cluster": {"server": format!("{server}/{name}")}}));
    let contexts = names.map(|name| json!({"name": name, "context": {"cluster": name, "user": "u"}}));
    let kubeconfig = json!({
        "current-context": "host", "clusters": clusters, "contexts": contexts,
        "users": [{"name": "u", "user": {"token": "secret"}}],
    });
    fs::write(bed.path("kubeconfig"), kubeconfig.to_string()).unwrap();
    let join = ["join", "m1", "--member-context=member", "--server=https://m1.invalid"];
    bed.run(&[&join[..], flags].concat())
}

/// The answer of the host or the member. Before Kubernetes 1.30 there is no ValidatingAdmissionPolicy.
pub(crate) fn answer(path: &str, version: &str) -> Answer {
    let path = path.split('?').next().unwrap_or_default();
    let (cluster, path) = path.trim_start_matches("/pre/").split_once('/').unwrap_or_default();
    let resources = |names: &[&str]| {
        let resources: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
        json!({"kind": "APIResourceList", "resources": resources})
    };
    let (code, body) = match path {
        "version" => (200, json!({"gitVersion": version})),
        "api/v1" => (200, resources(&["serviceaccounts/token"])),
        "apis/admissionregistration.k8s.io/v1" if version.starts_with("v1.2") => (200, resources(&[])),
        "apis/admissionregistration.k8s.io/v1" => (200, resources(&["validatingadmissionpolicies"])),
        "api/v1/namespaces/kube-system" => (200, json!({"metadata": {"uid": format!("uid-of-{cluster}")}})),
        _ if path.ends_with("accessreviews") => (201, json!({"status": {"allowed": true}})),
        _ if path.ends_with("memberclusters") || path.ends_with("clusters") => (200, json!({"items": []})),
        _ => (404, json!({"kind": "Status", "status": "Failure", "code": 404, "message": "not found"})),
    };
    Answer::from((code, "application/json", body.to_string()))
}
