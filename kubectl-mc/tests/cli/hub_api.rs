//! Tests `hub-api`, whose result depends on the host's APIServices.

use crate::bed::{Answer, Bed};

const APPLY: [&str; 4] = ["hub-api", "apply", "--for", "karmada"];
const REMOVE: [&str; 4] = ["hub-api", "remove", "--for", "karmada"];

fn json(code: u16, body: &str) -> Answer {
    (code, "application/json", body.to_owned()).into()
}

fn api_service(namespace: &str, annotations: &str) -> String {
    format!(
        r#"{{"metadata": {{"name": "a", "resourceVersion": "1", "annotations": {{{annotations}}}}},
            "spec": {{"service": {{"namespace": "{namespace}", "name": "s", "port": 443}}, "caBundle": "Y2E="}}}}"#
    )
}

/// A host with these two APIServices, if they are there.
fn host(own: Option<String>, karmada: Option<String>) -> Bed {
    Bed::serving(move |path| {
        let found = if path.contains("v1alpha1.proxy.kubectl-mc.dev") { &own } else { &karmada };
        match found {
            Some(found) => json(200, found),
            None => json(404, r#"{"kind": "Status", "code": 404, "reason": "NotFound"}"#),
        }
    })
}

#[test]
fn hub_api_apply_needs_both_apiservices() {
    let (own, karmada) = (api_service("kubectl-mc-system", ""), api_service("karmada-system", ""));
    for (bed, error, hint) in [
        (host(None, Some(karmada)), "the sidecar is not installed on the host", "kubectl mc install"),
        (
            host(Some(own.clone()), None),
            "the host has no APIService v1alpha1.cluster.karmada.io",
            "--context",
        ),
        (
            host(Some(own), Some(r#"{"metadata": {"name": "a"}, "spec": {"group": "g"}}"#.to_owned())),
            "names no Service",
            "",
        ),
    ] {
        let ran = bed.run(&APPLY);
        let (code, text) = ran.failed();
        assert!(code == 1 && text.contains(error) && text.contains(hint), "{text}");
        assert!(bed.requests().iter().all(|head| head.starts_with("GET ")), "something was written");
    }
}

#[test]
fn hub_api_apply_twice_changes_nothing() {
    let own = api_service("kubectl-mc-system", "");
    let bed = host(Some(own.clone()), Some(own));
    let ran = bed.run(&APPLY);
    assert_eq!(ran.out, "v1alpha1.cluster.karmada.io leads to the sidecar already\n", "{ran:?}");
    assert!(bed.requests().iter().all(|head| head.starts_with("GET ")), "something was written");
}

#[test]
fn hub_api_remove_leaves_others_apiservices_alone() {
    let bed = host(None, Some(api_service("karmada-system", "")));
    let ran = bed.run(&REMOVE);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.err.contains("nothing to put back: v1alpha1.cluster.karmada.io"), "{}", ran.err);
    let unreadable = r#""fleet.kubectl-mc.dev/replaced": "nonsense""#;
    let bed = host(None, Some(api_service("kubectl-mc-system", unreadable)));
    let ran = bed.run(&REMOVE);
    let (code, text) = ran.failed();
    assert!(code == 1 && text.contains("is not what hub-api apply wrote"), "{text}");
    assert!(bed.requests().iter().all(|head| head.starts_with("GET ")), "something was written");
}

#[test]
fn hub_api_refuses_a_service_without_a_namespace() {
    let ran = Bed::unreachable().run(&[&APPLY[..], &["--service=mc-sidecar"]].concat());
    let (code, text) = ran.failed();
    assert!(code == 2 && text.contains("\"mc-sidecar\" is not NAMESPACE/NAME"), "{text}");
    let ran = Bed::unreachable().run(&["hub-api", "apply"]);
    assert!(ran.failed().1.contains("--for <HUB>"), "{ran:?}");
}
