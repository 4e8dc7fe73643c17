//! Tests how a command finds the hub of a host: by one request, by its cache, or by what the user names.

use std::fs;

use serde_json::json;

use crate::bed::{Answer, Bed, Ran};
use crate::hubs::{MERGED, every, karmada, paths};

#[test]
fn each_hub_is_discovered_by_one_request() {
    for fake in every() {
        let bed = fake.clone().bed();
        let ran = bed.run(&["clusters", "-o", "name"]);
        let names = "cluster.proxy.kubectl-mc.dev/m1\ncluster.proxy.kubectl-mc.dev/m2\n";
        assert_eq!(ran, Ran::new(0, names, ""), "{}", fake.word);
        let local = if fake.word == "rancher" { "/pre/k8s/clusters/local" } else { "/pre" };
        let asked = [format!("{local}/apis"), format!("/pre{}", fake.list)];
        assert_eq!(paths(&bed), asked, "{}", fake.word);
        // The discovered hub is cached.
        bed.run(&["clusters"]);
        assert_eq!(paths(&bed), [format!("/pre{}", fake.list)], "{}", fake.word);
    }
}

/// A host with kubectl-mc's own sidecar, which answers a list of one cluster with this code.
fn own(code: u16) -> Bed {
    Bed::serving(move |path| match path {
        "/pre/apis" => {
            (200, "application/json", r#"{"groups": [{"name": "proxy.kubectl-mc.dev"}]}"#.to_owned())
        }
        _ if code == 200 => {
            (200, "application/json", r#"{"items": [{"metadata": {"name": "m1"}}]}"#.to_owned())
        }
        _ => (code, "application/json", r#"{"kind": "Status", "message": "no"}"#.to_owned()),
    })
}

const OWN_LIST: &str = "/pre/apis/proxy.kubectl-mc.dev/v1alpha1/clusters";

#[test]
fn own_sidecar_is_discovered_by_one_request() {
    let bed = own(200);
    for words in [&["-C", "m1", "--dry-run=clusters", "get", "pods"][..], &["use"], &["get", "-h"]] {
        bed.run(words);
        assert_eq!(paths(&bed), [""; 0], "{words:?} needs no hub");
    }
    assert_eq!(bed.run(&["clusters", "-o", "json"]).code, Some(0));
    assert_eq!(paths(&bed), ["/pre/apis", OWN_LIST]);
    assert_eq!(bed.run(&["clusters", "-o", "json"]).code, Some(0));
    assert_eq!(paths(&bed), [OWN_LIST], "the hub is cached");
    // An expired login or an outage does not lead to another hub.
    for code in [401, 503] {
        let bed = own(code);
        assert_eq!(bed.run(&["clusters"]).code, Some(1));
        bed.requests();
        assert_eq!(bed.run(&["clusters"]).code, Some(1));
        assert_eq!(paths(&bed), [OWN_LIST], "{code}");
    }
}

#[test]
fn outdated_hub_in_the_cache_is_replaced_by_the_next_command() {
    for words in [&["clusters"][..], &["-C", "m1", "get", "pods"], &["-C", "m1,m2", "get", "pods"]] {
        for by_kubectl in [false, true] {
            let bed = karmada().bed();
            let bed = if by_kubectl { bed.by_kubectl() } else { bed };
            bed.cache_hub("own");
            let ran = bed.run(words);
            assert!(ran.err.contains("sidecar not installed: 404 page not found"), "{words:?} {ran:?}");
            assert!(!paths(&bed).contains(&"/pre/apis".to_owned()), "{words:?}");
            let ran = bed.run(words);
            assert!(!ran.err.contains("error: "), "{words:?} {ran:?}");
            assert_eq!(paths(&bed)[0], "/pre/apis", "{words:?}");
        }
    }
    // A hub that was removed, and replaced by kubectl-mc's own sidecar.
    let bed = Bed::serving(|path| match path {
        "/pre/apis" => {
            (200, "application/json", r#"{"groups": [{"name": "proxy.kubectl-mc.dev"}]}"#.to_owned())
        }
        OWN_LIST => (200, "application/json", r#"{"items": [{"metadata": {"name": "m1"}}]}"#.to_owned()),
        _ => (404, "text/plain", "404 page not found\n".to_owned()),
    });
    bed.cache_hub("karmada");
    assert!(bed.run(&["clusters"]).failed().1.contains("hub: 404 page not found"));
    assert_eq!(bed.run(&["clusters", "-o", "json"]).code, Some(0));
    assert_eq!(paths(&bed)[1..], ["/pre/apis", OWN_LIST]);
}

/// A host authorizes a request before it checks whether it serves the API.
#[test]
fn forbidden_own_api_leads_to_the_other_hub() {
    let forbidden = |path: &str| {
        let body =
            json!({"kind": "Status", "message": "clusters.proxy.kubectl-mc.dev is forbidden"}).to_string();
        path.starts_with("/pre/apis/proxy.kubectl-mc.dev")
            .then(|| Answer::from((403, "application/json", body)))
    };
    for words in [&["-C", "m1,m2"][..], &["--all-clusters"]] {
        let bed = karmada().serving(forbidden);
        assert_eq!(bed.run(&[words, &["get", "pods"]].concat()), Ran::new(0, MERGED, ""), "{words:?}");
        let one = karmada().serving(forbidden).by_kubectl().run(&["-C", "m1", "get", "pods"]);
        assert_eq!(one.code, Some(42), "{one:?}");
    }
    // If the host serves the sidecar's API, the refusal is reported.
    let bed = karmada().serving(move |path| {
        let groups = json!({"groups": [{"name": "cluster.karmada.io"}, {"name": "proxy.kubectl-mc.dev"}]});
        let is_discovery = path == "/pre/apis";
        forbidden(path).or_else(|| is_discovery.then(|| (200, "application/json", groups.to_string()).into()))
    });
    let ran = bed.run(&["clusters"]);
    assert!(
        ran.failed().1.contains("host authorization: clusters.proxy.kubectl-mc.dev is forbidden"),
        "{ran:?}"
    );
}

#[test]
fn named_hub_needs_no_discovery() {
    let fake = karmada();
    for (name, value, words) in [
        ("X", "", &["--hub=karmada", "clusters"][..]),
        ("KUBECTL_MC_HUB", "karmada", &["clusters"]),
        ("KUBECTL_MC_HUB", "own", &["clusters", "--hub", "karmada"]),
    ] {
        let bed = fake.clone().bed();
        assert_eq!(bed.run_with(name, value, words).code, Some(0), "{words:?}");
        assert_eq!(paths(&bed), [format!("/pre{}", fake.list)], "{words:?}");
    }
    let bed = fake.clone().bed();
    fs::create_dir_all(bed.path("home/.config/kubectl-mc")).unwrap();
    fs::write(bed.path("home/.config/kubectl-mc/config.yaml"), "hub: karmada\n").unwrap();
    assert_eq!(bed.run(&["get", "pods", "-C", "m1", "--hub=karmada"]).out, "NAME\nweb-of-m1\n");
    bed.requests();
    assert_eq!(bed.run(&["clusters"]).code, Some(0));
    assert_eq!(paths(&bed), [format!("/pre{}", fake.list)]);
    // The flag requires kubectl-mc's own sidecar, which is missing; no other hub is tried.
    let bed = fake.bed();
    let ran = bed.run(&["--hub=own", "clusters"]);
    assert!(ran.failed().1.contains("sidecar not installed: 404 page not found"), "{ran:?}");
    assert_eq!(paths(&bed), ["/pre/apis/proxy.kubectl-mc.dev/v1alpha1/clusters"]);
    for words in [&["--hub=karmda", "clusters"][..], &["--hub=template=x", "clusters"]] {
        assert_eq!(bed.run(words).code, Some(2), "{words:?}");
    }
    assert_eq!(bed.run_with("KUBECTL_MC_HUB", "x", &["clusters"]).failed().0, 2);
}
