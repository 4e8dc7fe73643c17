//! Tests `--hub=clusterprofile` and `--hub=ocm`: members that ClusterProfiles list, and members behind a user
//! server. A list must not decide where the caller's credential is sent.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use crate::bed::{Answer, Bed, Ran};
use crate::hubs::paths;

const LIST: &str = "/pre/apis/multicluster.x-k8s.io/v1alpha1/clusterprofiles";

/// A host with ClusterProfiles of m1 and m2, and of m3 and m4, which point elsewhere.
fn bed() -> Bed {
    let server = Arc::new(OnceLock::<String>::new());
    let of_host = server.clone();
    let bed = Bed::serving(move |path| {
        let json = |body: Value| Answer::from((200, "application/json", body.to_string()));
        let server = of_host.get().map(String::as_str).unwrap_or_default();
        let root = |name: &str| format!("/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/{name}/proxy");
        let profile = |name: &str, env: &str, server: String| {
            json!({
                "metadata": {"name": name, "namespace": "fleet", "labels": {"env": env}},
                "status": {
                    "version": {"kubernetes": "v1.36.3"},
                    "conditions": [{"type": "ControlPlaneHealthy", "status": "True"}],
                    "accessProviders": [{"name": "kubectl-mc", "cluster": {"server": server}}],
                },
            })
        };
        let (is_list, namespaced) = match path.split('?').next() {
            Some(LIST) => (true, false),
            Some(path) => (path.ends_with("/namespaces/fleet/clusterprofiles"), true),
            None => (false, false),
        };
        if is_list {
            let mut items = vec![
                profile("m1", "prod", format!("{server}{}", root("m1"))),
                profile("m2", "dev", format!("{server}{}", root("m2"))),
                profile("m3", "prod", format!("https://attacker.example{}", root("m3"))),
                profile("m4", "prod", format!("{server}{}", root("m1"))),
            ];
            items.truncate(if namespaced { 2 } else { 4 });
            let env = path.split_once("labelSelector=env%3D").map(|(_, env)| env.to_owned());
            items.retain(|item| env.as_ref().is_none_or(|env| item["metadata"]["labels"]["env"] == **env));
            return json(json!({"items": items}));
        }
        for name in ["m1", "m2"] {
            if path.starts_with(&format!("/pre{}/api/v1/namespaces/ns/pods", root(name))) {
                return json(table(name));
            }
        }
        Answer::from((404, "text/plain", "404 page not found\n".to_owned()))
    });
    server.get_or_init(|| bed.server().to_owned());
    bed
}

fn table(cluster: &str) -> Value {
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": [{"name": "Name", "type": "string"}],
        "rows": [{"cells": [format!("web-of-{cluster}")], "object": {"metadata": {"name": "x"}}}],
    })
}

#[test]
fn profiles_are_members_with_labels() {
    let bed = bed();
    let ran = bed.run(&["--hub=clusterprofile", "clusters"]);
    let table = "NAME   READY   VERSION   AGE\nm1     True    v1.36.3   <unknown>\nm2     True    v1.36.3   <unknown>\n";
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), table), "{ran:?}");
    assert!(ran.err.ends_with("hub: ClusterProfiles\n"), "{ran:?}");
    for why in [
        "\"m3\": its ClusterProfile has server https://attacker.example/",
        "which is not the host",
        "\"m4\": ",
    ] {
        assert!(ran.err.contains(why), "{why}: {ran:?}");
    }
    for words in [&["-C", "m1,m2"][..], &["--all-clusters"], &["-C", "/^m/"]] {
        let ran = bed.run(&[&["--hub=clusterprofile"], words, &["get", "pods"]].concat());
        assert_eq!(ran, Ran::new(0, "CLUSTER   NAME\nm1        web-of-m1\nm2        web-of-m2\n", ""));
    }
    let ran =
        bed.run(&["--hub=clusterprofile", "--cluster-selector=env=prod", "get", "pods", "--no-headers"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "m1    web-of-m1\n"), "{ran:?}");
    bed.requests();
    let ran = bed.run(&["--hub=clusterprofile=fleet", "clusters", "-o", "name"]);
    assert_eq!(ran.out.lines().count(), 2, "{ran:?}");
    assert_eq!(paths(&bed), ["/pre/apis/multicluster.x-k8s.io/v1alpha1/namespaces/fleet/clusterprofiles"]);
}

#[test]
fn profile_of_another_server_is_refused_by_name() {
    for (name, why) in [
        ("m3", "which is not the host"),
        ("m4", "and the path must be /pre/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m4/proxy"),
    ] {
        for bed in [bed(), bed().by_kubectl()] {
            let ran = bed.run(&["--hub=clusterprofile", "-C", name, "get", "pods"]);
            let (code, err) = ran.failed();
            assert_eq!(code, 2, "{err}");
            assert!(
                err.starts_with(&format!("error: cannot reach {name}: its ClusterProfile has server ")),
                "{err}"
            );
            assert!(err.contains(why) && err.contains("\nhint: choose the context of that server"), "{err}");
            // The list is the only request.
            assert_eq!(paths(&bed), [LIST]);
        }
    }
    let ran = bed().run(&["--hub=clusterprofile", "-C", "m9", "get", "pods"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
}

#[test]
fn ocm_user_server_is_the_server_of_the_context() {
    let bed = Bed::serving(|path| match path.split('?').next() {
        Some("/pre/m1/api/v1/namespaces/ns/pods") => {
            Answer::from((200, "application/json", table("m1").to_string()))
        }
        _ => Answer::from((404, "text/plain", "404 page not found\n".to_owned())),
    });
    let ran = bed.run(&["--hub=ocm", "-C", "m1", "get", "pods"]);
    assert_eq!(ran, Ran::new(0, "NAME\nweb-of-m1\n", ""));
    let ran = bed.run(&["--hub=ocm", "clusters"]);
    let (code, err) = ran.failed();
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("has no list of clusters\nhint: name the clusters: -C NAME,NAME"), "{err}");
}
