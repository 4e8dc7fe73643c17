use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::ClusterName;

fn every() -> Vec<Dialect> {
    let templates = ["/clusters/{cluster}", "/a/c-{cluster}-x/proxy", "https://host:8443/k8s/{cluster}/api"];
    let templates = templates.map(|template| Dialect::Template(template.parse().unwrap()));
    let profiles = Dialect::ClusterProfile(Some("fleet".parse().unwrap()));
    [Dialect::Own, profiles].into_iter().chain(Dialect::HUBS).chain(Dialect::NAMED).chain(templates).collect()
}

#[test]
fn each_hub_has_its_paths() {
    let cluster: Segment = "m1".parse().unwrap();
    for (dialect, list, root) in [
        ("own", crate::path::CLUSTERS_PATH, "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy"),
        (
            "karmada",
            "/apis/cluster.karmada.io/v1alpha1/clusters",
            "/apis/cluster.karmada.io/v1alpha1/clusters/m1/proxy",
        ),
        (
            "kubeadmiral",
            "/apis/core.kubeadmiral.io/v1alpha1/federatedclusters",
            "/apis/aggregated.kubeadmiral.io/v1alpha1/aggregations/m1/proxy",
        ),
        (
            "clusternet",
            "/apis/clusters.clusternet.io/v1beta1/managedclusters",
            "/apis/proxies.clusternet.io/v1alpha1/sockets/m1/proxy/direct",
        ),
        (
            "cluster-gateway",
            "/apis/cluster.core.oam.dev/v1alpha1/clustergateways",
            "/apis/cluster.core.oam.dev/v1alpha1/clustergateways/m1/proxy",
        ),
        ("rancher", "/k8s/clusters/local/apis/management.cattle.io/v3/clusters", "/k8s/clusters/m1"),
        (
            "clusterprofile",
            "/apis/multicluster.x-k8s.io/v1alpha1/clusterprofiles",
            "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy",
        ),
        (
            "clusterprofile=fleet",
            "/apis/multicluster.x-k8s.io/v1alpha1/namespaces/fleet/clusterprofiles",
            "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy",
        ),
    ] {
        let dialect: Dialect = dialect.parse().unwrap();
        assert_eq!(dialect.list_path().as_deref(), Some(list));
        assert_eq!(dialect.root(&cluster), root);
    }
    assert_eq!((Dialect::Ocm.list_path(), Dialect::Ocm.root(&cluster)), (None, "/m1".to_owned()));
    for namespace in ["", "a/b", "..", "a?b"] {
        assert!(format!("clusterprofile={namespace}").parse::<Dialect>().is_err(), "{namespace}");
    }
    let own: ClusterName = "m1".parse().unwrap();
    assert_eq!(Dialect::Own.root(&(&own).into()), crate::path::member_root(&own));
}

#[test]
fn hub_is_recognized_by_its_api_groups() {
    let template = |text: &str| Dialect::Template(text.parse().unwrap());
    for (dialect, name, group) in [
        (Dialect::Karmada, "clusters", "cluster.karmada.io"),
        (Dialect::KubeAdmiral, "aggregations", "aggregated.kubeadmiral.io"),
        (Dialect::Clusternet, "sockets", "proxies.clusternet.io"),
        (template("/apis/g.example/v1/things/{cluster}/x"), "things", "g.example"),
    ] {
        assert_eq!(dialect.proxied(), Some((name, group)));
        assert!(dialect.has_group(group) && !dialect.has_group("apps") && !dialect.has_group(""));
    }
    assert!(Dialect::Clusternet.has_group("clusters.clusternet.io"));
    assert_eq!(Dialect::Rancher.proxied(), None);
    assert_eq!(template("/apis/g.example/{cluster}").proxied(), None);
}

#[test]
fn dialect_round_trips_through_its_flag_value() {
    for dialect in every() {
        assert_eq!(dialect.to_string().parse(), Ok(dialect));
    }
    assert_eq!("karmda".parse::<Dialect>(), Err(InvalidDialect::Unknown("karmda".to_owned())));
    assert!("template".parse::<Dialect>().is_err());
}

#[test]
fn template_with_an_unsafe_path_is_refused() {
    for text in [
        "",
        "clusters/{cluster}",
        "/clusters",
        "/{cluster}/{cluster}",
        "/a/../{cluster}",
        "/a/./{cluster}",
        "//other/{cluster}",
        "/a//{cluster}",
        "/{cluster}/..",
        "/a%2f{cluster}",
        "/{cluster}?x=1",
        "/{cluster}#x",
        "/a\\{cluster}",
        "/a b/{cluster}",
        "/{cluster}\n",
        "ftp://host/{cluster}",
        "https://user:pass@host/{cluster}",
        "https://{cluster}.host/x",
        "https://host",
        "https:///{cluster}",
        "https://host:port/{cluster}",
        "https://host:99999/{cluster}",
        "https://[x]/{cluster}",
    ] {
        assert!(text.parse::<Template>().is_err(), "{text}");
    }
    assert_eq!("/a/{cluster}/".parse::<Template>().unwrap().to_string(), "/a/{cluster}");
}

#[test]
fn template_of_another_server_is_refused() {
    let base = |template: &str, server: &'static str| {
        Dialect::Template(template.parse().unwrap()).base(server).map_err(|error| error.to_string())
    };
    assert_eq!(base("/a/{cluster}", "https://host/pre"), Ok("https://host/pre"));
    assert_eq!(base("https://HOST:443/a/{cluster}", "https://host/pre"), Ok("https://host"));
    assert_eq!(base("http://[::1]:80/{cluster}", "http://[0:0::1]/pre"), Ok("http://[0:0::1]"));
    for (template, server) in [
        ("https://host/{cluster}", "http://host"),
        ("https://host/{cluster}", "https://host:6443"),
        ("https://other/{cluster}", "https://host"),
        ("https://host.evil/{cluster}", "https://host"),
        ("https://host/{cluster}", "https://host@other"),
        ("https://host/{cluster}", "https://other?https://host/"),
    ] {
        let error = base(template, server).unwrap_err();
        assert!(error.contains("its own server only"), "{template} {server}: {error}");
    }
}

#[test]
fn rancher_paths_are_below_its_own_server() {
    for (server, base) in [
        ("https://rancher/k8s/clusters/local", "https://rancher"),
        ("https://rancher/pre/k8s/clusters/c-m-1", "https://rancher/pre"),
        ("https://rancher", "https://rancher"),
        ("https://rancher/k8s/clusters/..", "https://rancher/k8s/clusters/.."),
    ] {
        assert_eq!(Dialect::Rancher.base(server), Ok(base));
    }
}

#[test]
fn discovery_finds_the_first_hub() {
    let server = "https://host";
    let found = |groups: &[&str]| Dialect::found_in(groups.iter().copied(), server);
    assert_eq!(found(&["apps", "clusters.clusternet.io", "cluster.karmada.io"]), Some(Dialect::Karmada));
    assert_eq!(found(&["core.kubeadmiral.io"]), Some(Dialect::KubeAdmiral));
    assert_eq!(found(&["cluster.core.oam.dev"]), Some(Dialect::ClusterGateway));
    assert_eq!(found(&["apps"]), None);
    // Any host may have ClusterProfiles, so they do not identify a hub.
    assert_eq!(found(&["multicluster.x-k8s.io"]), None);
    assert_eq!(found(&["cluster.karmada.io", "proxy.kubectl-mc.dev"]), Some(Dialect::Own));
    // A member of a Rancher has some of its CRDs.
    assert_eq!(found(&["management.cattle.io"]), None);
    let rancher = Dialect::found_in(["management.cattle.io"], "https://rancher/k8s/clusters/local");
    assert_eq!(rancher, Some(Dialect::Rancher));
}

fn names(view: &View) -> Vec<&str> {
    view.clusters.iter().filter_map(|cluster| cluster["metadata"]["name"].as_str()).collect()
}

#[test]
fn clusters_of_each_hub_are_parsed() {
    let ready =
        json!([{"type": "Ready", "status": "True", "reason": "r", "message": "m", "lastProbeTime": "t"}]);
    let labels = json!({"env": "prod"});
    let shown = |dialect: Dialect, item: serde_json::Value| {
        let view = dialect.view(&json!({"items": [item]}));
        assert_eq!(view.unusable, []);
        view.clusters[0].clone()
    };
    let expected = |status: serde_json::Value| {
        json!({
            "apiVersion": "proxy.kubectl-mc.dev/v1alpha1", "kind": "Cluster",
            "metadata": {"name": "m1", "labels": {"env": "prod"}}, "status": status,
        })
    };
    let conditions = json!([{"type": "Ready", "status": "True", "reason": "r", "message": "m"}]);
    let karmada = json!({
        "metadata": {"name": "m1", "labels": labels}, "spec": {"apiEndpoint": "https://m1", "secretRef": {"name": "s"}},
        "status": {"kubernetesVersion": "v1.34.1", "conditions": ready},
    });
    assert_eq!(
        shown(Dialect::Karmada, karmada),
        expected(json!({"version": "v1.34.1", "server": "https://m1", "conditions": conditions}))
    );
    let admiral = json!({
        "metadata": {"name": "m1", "labels": labels}, "spec": {"apiEndpoint": "m1:6443"}, "status": {"conditions": ready},
    });
    assert_eq!(
        shown(Dialect::KubeAdmiral, admiral),
        expected(json!({"server": "m1:6443", "conditions": conditions}))
    );
    let clusternet = json!({
        "metadata": {"name": "m1", "namespace": "n", "labels": labels}, "spec": {"clusterId": "dc91021d-2361"},
        "status": {"k8sVersion": "v1.34.1", "apiserverURL": "https://m1", "conditions": ready},
    });
    assert_eq!(
        shown(Dialect::Clusternet, clusternet),
        expected(json!({
            "version": "v1.34.1", "server": "https://m1", "conditions": conditions, "id": "dc91021d-2361",
        }))
    );
    let rancher = json!({
        "metadata": {"name": "c-m-1", "labels": labels}, "spec": {"displayName": "m1"},
        "status": {"version": {"gitVersion": "v1.34.1"}, "apiEndpoint": "https://m1", "conditions": ready},
    });
    assert_eq!(
        shown(Dialect::Rancher, rancher),
        expected(
            json!({"version": "v1.34.1", "server": "https://m1", "conditions": conditions, "id": "c-m-1"})
        )
    );
}

#[test]
fn credentials_in_a_list_are_dropped() {
    let gateway = |status: serde_json::Value| {
        json!({"items": [{
            "metadata": {"name": "m1", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"access": {
                "endpoint": {"type": "Const", "const": {"address": "https://m1"}},
                "credential": {"type": "ServiceAccountToken", "serviceAccountToken": "secret"},
            }},
            "status": status,
        }]})
    };
    let conditions = |status| {
        let view = Dialect::ClusterGateway.view(&gateway(status));
        assert!(!view.clusters[0].to_string().contains("secret"));
        assert_eq!(view.clusters[0]["status"]["server"], "https://m1");
        view.clusters[0]["status"]["conditions"].clone()
    };
    assert_eq!(conditions(json!({"healthy": true})), json!([{"type": "Ready", "status": "True"}]));
    assert_eq!(conditions(json!({"healthy": false})), json!([]));
    assert_eq!(
        conditions(json!({"healthy": false, "healthyReason": "ConnectionTimeout"}))[0]["status"],
        "False"
    );
}

#[test]
fn ambiguous_name_is_replaced_by_the_id() {
    let cluster = |id: &str, name: &str| json!({"metadata": {"name": id}, "spec": {"displayName": name}});
    let list = json!({"items": [
        cluster("c-1", "prod"), cluster("c-2", "prod"), cluster("c-3", "My Cluster"), cluster("c-4", "c-1"),
        cluster("local", "local"), cluster("c-5", "dev"),
    ]});
    let view = Dialect::Rancher.view(&list);
    assert_eq!(names(&view), ["c-1", "c-2", "c-3", "c-4", "local", "dev"]);
    let dev: ClusterName = "dev".parse().unwrap();
    assert_eq!(view.ids, [(dev, "c-5".parse().unwrap())].into());
}

#[test]
fn names_that_are_no_plain_segment_are_refused() {
    let bad = ["..", ".", "a/b", "a%2fb", "a?b", "a#b", "a\\b", "", "a b", "ü", "a\0", "A_B", "a.b"];
    let items: Vec<_> = bad.iter().map(|name| json!({"metadata": {"name": name}})).collect();
    for hub in [Dialect::Karmada, Dialect::KubeAdmiral, Dialect::ClusterGateway] {
        let view = hub.view(&json!({"items": items}));
        assert_eq!((view.clusters.len(), view.unusable.len()), (0, bad.len()), "{hub}");
        assert!(items.iter().all(|item| hub.cluster_of(item).is_none()));
    }
    // A valid name does not make up for an invalid id.
    let ids = ["../x", "a/b", "", "%2e%2e"];
    let items: Vec<_> =
        ids.map(|id| json!({"metadata": {"name": "m1"}, "spec": {"clusterId": id}})).into_iter().collect();
    let view = Dialect::Clusternet.view(&json!({"items": items}));
    assert_eq!((view.clusters.len(), view.ids.len(), view.unusable.len()), (0, 0, ids.len()));
    assert_eq!(Dialect::Karmada.view(&json!({"items": "x"})), View::default());
}

proptest! {
    #[test]
    fn path_splits_into_its_cluster_and_rest(cluster in "[A-Za-z0-9_-][A-Za-z0-9._-]{0,60}", rest in "(/[ -~]{0,20}){0,3}") {
        let cluster: Segment = cluster.parse().unwrap();
        for dialect in every() {
            let path = format!("{}{rest}", dialect.root(&cluster));
            prop_assert_eq!(dialect.split(&path), Some((cluster.clone(), rest.as_str())), "{}", dialect);
        }
    }

    #[test]
    fn split_parts_rebuild_the_path(path in "[ -~]{0,40}", at in 0_usize..10) {
        let dialect = &every()[at % every().len()];
        let whole = format!("{}{path}", dialect.around().0);
        for path in [&path, &whole] {
            if let Some((cluster, rest)) = dialect.split(path) {
                prop_assert_eq!(&format!("{}{rest}", dialect.root(&cluster)), path);
            }
        }
    }

    #[test]
    fn only_plain_segments_are_parsed(text in "\\PC{0,8}|[./%a-z]{0,4}") {
        let is_plain = !text.is_empty() && !text.starts_with('.')
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
        prop_assert_eq!(text.parse::<Segment>().is_ok(), is_plain);
    }
}
