//! Tests `--hub`: the plugin with fakes of other projects' hubs, which serve the hubs' paths and lists.

use std::fs;

use serde_json::{Value, json};

use crate::bed::{Answer, Bed, Ran};

/// A fake of a hub.
#[derive(Clone)]
pub(crate) struct Fake {
    pub(crate) word: &'static str,
    pub(crate) title: &'static str,
    pub(crate) group: &'static str,
    /// The path of the list below the server's URL.
    pub(crate) list: &'static str,
    /// The parts of a member's path before and after its id.
    pub(crate) around: (&'static str, &'static str),
    /// The ids of m1 and m2 in paths.
    pub(crate) ids: [&'static str; 2],
    pub(crate) items: Value,
}

fn conditions(status: &str) -> Value {
    json!([{"type": "Ready", "status": status, "reason": "Why", "message": "said"}])
}

pub(crate) fn every() -> [Fake; 5] {
    let ready = conditions("True");
    let labelled = |name: &str, env: &str| json!({"name": name, "labels": {"env": env}});
    [
        Fake {
            word: "karmada",
            title: "Karmada",
            group: "cluster.karmada.io",
            list: "/apis/cluster.karmada.io/v1alpha1/clusters",
            around: ("/apis/cluster.karmada.io/v1alpha1/clusters/", "/proxy"),
            ids: ["m1", "m2"],
            items: json!([
                {"metadata": labelled("m1", "prod"), "spec": {"apiEndpoint": "https://m1"},
                 "status": {"kubernetesVersion": "v1.34.1", "conditions": ready}},
                {"metadata": labelled("m2", "dev"), "spec": {"apiEndpoint": "https://m2"},
                 "status": {"kubernetesVersion": "v1.34.1", "conditions": ready}},
            ]),
        },
        Fake {
            word: "kubeadmiral",
            title: "KubeAdmiral",
            group: "core.kubeadmiral.io",
            list: "/apis/core.kubeadmiral.io/v1alpha1/federatedclusters",
            around: ("/apis/aggregated.kubeadmiral.io/v1alpha1/aggregations/", "/proxy"),
            ids: ["m1", "m2"],
            items: json!([
                {"metadata": labelled("m1", "prod"), "spec": {"apiEndpoint": "m1"}, "status": {"conditions": ready}},
                {"metadata": labelled("m2", "dev"), "spec": {"apiEndpoint": "m2"}, "status": {"conditions": ready}},
            ]),
        },
        Fake {
            word: "clusternet",
            title: "Clusternet",
            group: "clusters.clusternet.io",
            list: "/apis/clusters.clusternet.io/v1beta1/managedclusters",
            around: ("/apis/proxies.clusternet.io/v1alpha1/sockets/", "/proxy/direct"),
            ids: ["dc91021d-2361-4f6d-a404-7c33b9e01118", "9bb775e3-b177-4e77-8685-1aadcb03b0a8"],
            items: json!([
                {"metadata": labelled("m1", "prod"), "spec": {"clusterId": "dc91021d-2361-4f6d-a404-7c33b9e01118"},
                 "status": {"k8sVersion": "v1.34.1", "apiserverURL": "https://m1", "conditions": ready}},
                {"metadata": labelled("m2", "dev"), "spec": {"clusterId": "9bb775e3-b177-4e77-8685-1aadcb03b0a8"},
                 "status": {"k8sVersion": "v1.34.1", "apiserverURL": "https://m2", "conditions": ready}},
            ]),
        },
        Fake {
            word: "cluster-gateway",
            title: "cluster-gateway",
            group: "cluster.core.oam.dev",
            list: "/apis/cluster.core.oam.dev/v1alpha1/clustergateways",
            around: ("/apis/cluster.core.oam.dev/v1alpha1/clustergateways/", "/proxy"),
            ids: ["m1", "m2"],
            items: json!([
                {"metadata": {"name": "m1"}, "spec": {"access": {"credential": {"serviceAccountToken": "of-m1"}}},
                 "status": {"healthy": true}},
                {"metadata": {"name": "m2"}, "spec": {"access": {"credential": {"serviceAccountToken": "of-m2"}}},
                 "status": {"healthy": true}},
            ]),
        },
        Fake {
            word: "rancher",
            title: "Rancher",
            group: "management.cattle.io",
            list: "/k8s/clusters/local/apis/management.cattle.io/v3/clusters",
            around: ("/k8s/clusters/", ""),
            ids: ["c-m-1", "c-m-2"],
            items: json!([
                {"metadata": labelled("c-m-1", "prod"), "spec": {"displayName": "m1"},
                 "status": {"version": {"gitVersion": "v1.34.1"}, "apiEndpoint": "https://m1", "conditions": ready}},
                {"metadata": labelled("c-m-2", "dev"), "spec": {"displayName": "m2"},
                 "status": {"version": {"gitVersion": "v1.34.1"}, "apiEndpoint": "https://m2", "conditions": ready}},
            ]),
        },
    ]
}

pub(crate) fn karmada() -> Fake {
    every()[0].clone()
}

impl Fake {
    /// A bed with this hub at `/pre`, and a kubeconfig for it. The hub knows only its two clusters.
    pub(crate) fn bed(self) -> Bed {
        self.serving(|_| None)
    }

    /// The same with other answers to some paths.
    pub(crate) fn serving(self, other: impl Fn(&str) -> Option<Answer> + Send + 'static) -> Bed {
        let is_rancher = self.word == "rancher";
        let bed = Bed::serving(move |path| other(path).unwrap_or_else(|| self.answer(path)));
        if is_rancher {
            let server = format!("{}/k8s/clusters/local", bed.server());
            let kubeconfig = bed.read("kubeconfig").replace(bed.server(), &server);
            fs::write(bed.path("kubeconfig"), kubeconfig).unwrap();
        }
        bed
    }

    fn answer(&self, path: &str) -> Answer {
        let json = |code: u16, body: Value| Answer::from((code, "application/json", body.to_string()));
        let path = path.strip_prefix("/pre").unwrap();
        let local = if self.word == "rancher" { "/k8s/clusters/local" } else { "" };
        if path == format!("{local}/apis") {
            return json(
                200,
                json!({"kind": "APIGroupList", "groups": [{"name": "apps"}, {"name": self.group}]}),
            );
        }
        if path.split('?').next() == Some(self.list) {
            // Like a real hub, the fake returns the items that the label selector matches.
            let env = path.split_once("labelSelector=env%3D").map(|(_, env)| env);
            let items = self.items.as_array().unwrap().iter();
            let items = items.filter(|item| env.is_none_or(|env| item["metadata"]["labels"]["env"] == env));
            return json(200, json!({"items": items.collect::<Vec<_>>()}));
        }
        for (name, id) in ["m1", "m2"].iter().zip(self.ids) {
            let (before, after) = self.around;
            let Some(rest) = path.strip_prefix(&format!("{before}{id}{after}")) else { continue };
            if rest.split('?').next() == Some("/api/v1/namespaces/ns/pods") {
                return json(200, table(name));
            }
            if rest.ends_with("/forbidden") {
                return json(
                    403,
                    json!({"kind": "Status", "reason": "Forbidden", "message": "pods is forbidden"}),
                );
            }
            return json(200, json!({"gitVersion": "v1.34.1"}));
        }
        let unknown = path.strip_prefix(self.around.0).filter(|_| self.word == "karmada");
        if let Some(name) = unknown.and_then(|rest| rest.split('/').next()) {
            return json(
                404,
                json!({
                    "kind": "Status", "reason": "NotFound", "message": format!("clusters.cluster.karmada.io {name:?} not found"),
                    "details": {"name": name, "group": self.group, "kind": "clusters"},
                }),
            );
        }
        Answer::from((404, "text/plain", "404 page not found\n".to_owned()))
    }

    /// The path of m1 as the host's server sees it.
    fn root(&self) -> String {
        format!("/pre{}{}{}", self.around.0, self.ids[0], self.around.1)
    }
}

fn table(cluster: &str) -> Value {
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": [{"name": "Name", "type": "string"}],
        "rows": [{"cells": [format!("web-of-{cluster}")], "object": {"metadata": {"name": "x"}}}],
    })
}

pub(crate) fn paths(bed: &Bed) -> Vec<String> {
    let path = |head: &String| head.split(' ').nth(1).unwrap().split('?').next().unwrap().to_owned();
    bed.requests().iter().map(path).collect()
}

pub(crate) const MERGED: &str = "CLUSTER   NAME\nm1        web-of-m1\nm2        web-of-m2\n";

#[test]
fn members_of_each_hub_are_reached_by_name() {
    for fake in every() {
        for words in [&["-C", "m1,m2"][..], &["--all-clusters"], &["-C", "/^m/"], &["--where=ready=True"]] {
            let bed = fake.clone().bed();
            let ran = bed.run(&[words, &["get", "pods"]].concat());
            assert_eq!(ran, Ran::new(0, MERGED, ""), "{} {words:?}", fake.word);
        }
        let bed = fake.clone().bed();
        assert_eq!(
            bed.run(&["-C", "m1", "get", "pods"]),
            Ran::new(0, "NAME\nweb-of-m1\n", ""),
            "{}",
            fake.word
        );
        let last = paths(&bed).pop().unwrap();
        assert_eq!(last, format!("{}/api/v1/namespaces/ns/pods", fake.root()));
    }
}

#[test]
fn kubectl_gets_the_path_of_each_hub() {
    for fake in every() {
        let bed = fake.clone().bed().by_kubectl();
        let ran = bed.run(&["-C", "m1", "get", "pods"]);
        assert_eq!((ran.code, ran.err.as_str()), (Some(42), ""), "{}", fake.word);
        let overlay: Value = serde_json::from_slice(&fs::read(ran.kubeconfig().0).unwrap()).unwrap();
        let server = format!("{}{}", bed.server().strip_suffix("/pre").unwrap(), fake.root());
        assert_eq!(overlay["clusters"][0]["cluster"]["server"], server, "{}", fake.word);
        assert_eq!(overlay["contexts"][0]["context"]["user"], "u");
        for words in [
            &["kubeconfig", "m1"][..],
            &["env", "--shell=sh", "m1"],
            &["shell", "m1", "--", "sh", "-c", "true"],
        ] {
            let ran = bed.run(words);
            assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{} {words:?}", fake.word);
            assert!(words[0] != "kubeconfig" || ran.out.contains(&server), "{}", ran.out);
        }
    }
}

/// kubectl also reads from the server for it.
#[test]
fn client_side_dry_run_gets_the_path_of_each_hub() {
    for fake in every() {
        let bed = fake.clone().bed().by_kubectl();
        let ran = bed.run(&["-C", "m1", "apply", "-f", "x", "--dry-run=client"]);
        assert_eq!((ran.code, ran.err.as_str()), (Some(42), ""), "{}", fake.word);
        let overlay: Value = serde_json::from_slice(&fs::read(ran.kubeconfig().0).unwrap()).unwrap();
        let server = format!("{}{}", bed.server().strip_suffix("/pre").unwrap(), fake.root());
        assert_eq!(overlay["clusters"][0]["cluster"]["server"], server, "{}", fake.word);
    }
}

#[test]
fn label_selector_needs_a_hub_with_labels() {
    for fake in every() {
        let bed = fake.clone().bed();
        let ran = bed.run(&["--cluster-selector=env=prod", "get", "pods", "--no-headers"]);
        if fake.word == "cluster-gateway" {
            // Its list ignores a selector, so all clusters would be chosen.
            let (code, err) = ran.failed();
            assert_eq!(code, 2);
            assert!(err.starts_with("error: cluster-gateway of host \"host\""), "{err}");
            assert!(err.contains("has no labels of clusters"), "{err}");
        } else {
            assert_eq!(
                (ran.code, ran.out.trim_end()),
                (Some(0), "m1    web-of-m1"),
                "{} {}",
                fake.word,
                ran.err
            );
        }
    }
}

#[test]
fn clusters_of_each_hub_are_one_table() {
    for fake in every() {
        let bed = fake.clone().bed();
        let version =
            if ["kubeadmiral", "cluster-gateway"].contains(&fake.word) { "       " } else { "v1.34.1" };
        let table = format!(
            "NAME   READY   VERSION   AGE\nm1     True    {version}   <unknown>\nm2     True    {version}   <unknown>\n"
        );
        let table = if version.trim().is_empty() { table.replace(version, "       ") } else { table };
        let named = format!("hub: {}\n", fake.title);
        assert_eq!(bed.run(&["clusters"]), Ran::new(0, &table, &named), "{}", fake.word);
        let one = bed.run(&["clusters", "m1", "-o", "json"]);
        let json: Value = serde_json::from_str(&one.out).unwrap();
        assert_eq!(json["items"].as_array().unwrap().len(), 1, "{}", fake.word);
        assert_eq!(json["items"][0]["metadata"]["name"], "m1");
        assert!(!one.out.contains("of-m1"), "a credential: {}", one.out);
        assert_eq!(bed.run(&["clusters", "m9"]).code, Some(3), "{}", fake.word);
        let watch = bed.run(&["clusters", "--watch"]);
        assert!(watch.failed().1.contains(&format!("listed by {} of host", fake.title)), "{watch:?}");
    }
}
