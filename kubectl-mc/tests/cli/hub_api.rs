//! Tests `hub-api`, whose result depends on the host's APIServices.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

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

/// A host with these two APIServices, if given.
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
    for (hop, code, out, error) in [
        ("karmada-aggregated-apiserver", 0, "v1alpha1.cluster.karmada.io leads to the sidecar already\n", ""),
        ("host-aggregation", 1, "", "leads to the sidecar already, which does not serve it: "),
    ] {
        let found = own.clone();
        let bed = Bed::serving(move |_| json(200, &found).of(hop));
        let ran = bed.run(&[&APPLY[..], &["--timeout=0s"]].concat());
        assert_eq!((ran.code, ran.out.as_str()), (Some(code), out), "{ran:?}");
        assert!(ran.err.contains(error), "{ran:?}");
        assert!(bed.requests().iter().all(|head| head.starts_with("GET ")), "something was written");
    }
}

#[test]
fn interrupted_hub_api_apply_puts_the_group_back() {
    let written = Arc::new(AtomicBool::new(false));
    let is_written = written.clone();
    let bed = Bed::serving(move |path| {
        let is_written = is_written.load(SeqCst);
        if is_written && path.contains("/clusterrole") {
            return json(404, r#"{"kind": "Status", "code": 404, "reason": "NotFound"}"#);
        }
        let is_own = path.contains("v1alpha1.proxy.kubectl-mc.dev");
        let record =
            r#""fleet.kubectl-mc.dev/replaced": "{\"service\":{\"namespace\":\"a\",\"name\":\"b\"}}""#;
        let (namespace, annotations) = match is_own || is_written {
            true => ("kubectl-mc-system", record),
            false => ("karmada-system", ""),
        };
        json(200, &api_service(namespace, annotations))
    });
    let is_patch = |head: &String| head.starts_with("PATCH ") && head.contains("v1alpha1.cluster.karmada.io");
    let mut child = bed.command(&APPLY).stderr(Stdio::piped()).spawn().unwrap();
    while !bed.requests().iter().any(is_patch) {
        std::thread::yield_now();
    }
    written.store(true, SeqCst);
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{text}");
    assert!(text.contains("interrupted: v1alpha1.cluster.karmada.io leads where it did before"), "{text}");
    assert!(bed.requests().iter().any(is_patch), "{text}");
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
