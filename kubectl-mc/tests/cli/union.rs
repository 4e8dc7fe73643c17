//! Tests `--sort-by` and templates on several clusters with the real kubectl, which sees the
//! objects of all clusters as one list. Also tests `-o ndjson`.

use serde_json::{Value, json};

use crate::bed::{Answer, Bed, Ran, status};

/// The pods of a member: name, CPU and time of creation.
type Pods = &'static [(&'static str, &'static str, &'static str)];

const M1: Pods = &[("web", "500m", "2026-01-02T00:00:00Z"), ("db", "2", "2026-01-01T00:00:00Z")];
const M2: Pods = &[("web", "1", "2026-01-03T00:00:00Z"), ("cache", "100m", "")];

fn pod((name, cpu, created): (&str, &str, &str)) -> Value {
    let mut pod = json!({"metadata": {"name": name, "namespace": "ns", "managedFields": [{"manager": "x"}]},
        "spec": {"cpu": cpu}});
    if !created.is_empty() {
        pod["metadata"]["creationTimestamp"] = created.into();
    }
    pod
}

/// A list of pods, or a table if `includeObject` is set; m3 is unreachable, and m4 sends an object without a type.
fn answer(path: &str) -> Answer {
    let ok = |body: Value| Answer::from((200, "application/json", body.to_string())).of("member");
    let pods = match path {
        path if path.contains("/m1/") => M1,
        path if path.contains("/m2/") => M2,
        path if path.contains("/m4/") => {
            let odd = json!({"apiVersion": "a/b/c", "kind": "Pod", "metadata": {"name": "odd"}});
            return ok(json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [odd]}));
        }
        _ => return status(502, "member unreachable", "connection refused"),
    };
    let pods: Vec<_> = pods.iter().copied().map(pod).collect();
    if path.contains("includeObject=Object") {
        let row =
            |pod: &Value| json!({"cells": [pod["metadata"]["name"], pod["spec"]["cpu"]], "object": pod});
        let column = |name: &str| json!({"name": name, "type": "string"});
        return ok(json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1",
            "columnDefinitions": [column("Name"), column("CPU")], "rows": pods.iter().map(row).collect::<Vec<_>>()}));
    }
    ok(json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods}))
}

/// A host with members, and the real kubectl.
fn bed() -> Bed {
    let bed = Bed::serving(answer);
    let kubectl = testbed::programs::build_kubectl().unwrap();
    bed.script("bin/kubectl", &format!("#!/bin/sh\necho ran >>ran\nexec '{}' \"$@\"\n", kubectl.display()));
    bed
}

fn get(bed: &Bed, clusters: &str, words: &[&str]) -> Ran {
    bed.run(&[&["-C", clusters, "get", "pods"], words].concat())
}

#[test]
fn rows_of_all_clusters_are_sorted_together() {
    let bed = bed();
    let by_cpu = "CLUSTER   NAME    CPU\nm2        cache   100m\nm1        web     500m\nm2        web     1\nm1        db      2\n";
    assert_eq!(get(&bed, "m1,m2", &["--sort-by=.spec.cpu"]), Ran::new(0, by_cpu, ""));
    // One kubectl for all clusters.
    assert_eq!(bed.read("ran").lines().count(), 1);
    let created = get(&bed, "m1,m2", &["--sort-by={.metadata.creationTimestamp}", "--no-headers"]);
    assert_eq!(
        created,
        Ran::new(0, "m2    cache   100m\nm1    db      2\nm1    web     500m\nm2    web     1\n", "")
    );
    let names = get(&bed, "m1,m2", &["--sort-by=.spec.cpu", "-o", "name"]);
    assert_eq!(names, Ran::new(0, "m2 | pod/cache\nm1 | pod/web\nm2 | pod/web\nm1 | pod/db\n", ""));
    assert_eq!(bed.left(), [""; 0]);
}

#[test]
fn sorted_list_has_the_cluster_errors() {
    let ran = get(&bed(), "m1,m3,m2", &["--sort-by=.spec.cpu", "-o", "json"]);
    let list: Value = serde_json::from_str(&ran.out).unwrap();
    let of = |item: &Value| {
        let cluster = &item["metadata"]["annotations"]["fleet.kubectl-mc.dev/cluster"];
        format!("{}/{}", cluster.as_str().unwrap(), item["metadata"]["name"].as_str().unwrap())
    };
    let names: Vec<_> = list["items"].as_array().unwrap().iter().map(of).collect();
    assert_eq!(names, ["m2/cache", "m1/web", "m2/web", "m1/db"]);
    assert_eq!(list["metadata"]["clusterErrors"][0]["cluster"], "m3");
    assert!(!ran.out.contains("managedFields") && !ran.out.contains("kubectlMcPosition"), "{ran:?}");
    assert_eq!(ran.code, Some(4));
}

#[test]
fn templates_see_one_list_of_all_clusters() {
    let bed = bed();
    for (output, expected) in [
        (
            r#"jsonpath={.kind} {range .items[*]}{.metadata.annotations.fleet\.kubectl-mc\.dev/cluster}/{.metadata.name} {end}"#,
            "List m1/web m1/db m2/web m2/cache ",
        ),
        (
            "jsonpath-as-json={.items[*].metadata.name}",
            "[\n    \"web\",\n    \"db\",\n    \"web\",\n    \"cache\"\n]\n",
        ),
        ("go-template={{len .items}}", "4"),
        (
            "custom-columns=NAME:.metadata.name,NS:.metadata.namespace",
            "CLUSTER   NAME    NS\nm1        web     ns\nm1        db      ns\nm2        web     ns\nm2        cache   ns\n",
        ),
    ] {
        assert_eq!(get(&bed, "m1,m2", &["-o", output]), Ran::new(0, expected, ""), "{output}");
    }
    std::fs::write(bed.path("columns"), "NAME CPU\n.metadata.name .spec.cpu\n").unwrap();
    let rows = "m2        cache   100m\nm1        web     500m\nm2        web     1\nm1        db      2\n";
    let ran = get(&bed, "m1,m2", &["-o", "custom-columns-file=columns", "--sort-by=.spec.cpu"]);
    assert_eq!(ran, Ran::new(0, &format!("CLUSTER   NAME    CPU\n{rows}"), ""));
    let ran = get(&bed, "m2", &["-C", "m1", "-o", "custom-columns=N:.metadata.name", "--no-headers"]);
    assert_eq!(ran, Ran::new(0, "m2    web\nm2    cache\nm1    web\nm1    db\n", ""));
    assert_eq!(get(&bed, "m1,m2", &["--template={{len .items}}"]), Ran::new(0, "4", ""));
    assert_eq!(bed.left(), [""; 0]);
}

#[test]
fn template_of_one_object_is_told_about_the_list() {
    let ran = get(&bed(), "m1,m2", &["-o", "jsonpath={.metadata.name}"]);
    let said = "the template printed nothing: on several clusters it sees one List, as .items[*]\n";
    assert_eq!(ran, Ran::new(0, "", said));
}

#[test]
fn failed_cluster_is_told_beside_the_printed_list() {
    for (clusters, cause) in [
        (
            "m1,m3",
            "m3 | error: member unreachable: connection refused\n1 of 2 clusters failed: 1 unreachable (m3)\n",
        ),
        (
            "m1,m4",
            "m4 | error: cannot read the answer: an object of the list has no valid type\n1 of 2 clusters failed: 1 failed (m4)\n",
        ),
    ] {
        let ran = get(&bed(), clusters, &["-o", "jsonpath={.items[*].metadata.name}"]);
        assert_eq!(ran, Ran::new(4, "web db", cause));
    }
}

#[test]
fn kubectl_error_of_a_template_or_a_field_is_the_error() {
    let bed = bed();
    for (words, error) in [
        (
            &["--sort-by=.nope"][..],
            "error: couldn't find any field with path \"{.nope}\" in the list of objects\n",
        ),
        (&["-o", "jsonpath={.x"], "error: error parsing jsonpath {.x, unclosed action\n"),
    ] {
        assert_eq!(get(&bed, "m1,m2", words), Ran::new(1, "", error));
        let ran = get(&bed, "m1,m3", words);
        assert_eq!(
            ran,
            Ran::new(1, "", &format!("m3 | error: member unreachable: connection refused\n{error}"))
        );
    }
}

#[test]
fn kubectl_for_each_cluster_is_told() {
    let bed = Bed::with_kubectl("echo $cluster");
    let note =
        "- kubectl runs once for each cluster: --sort-by and templates see the objects of one cluster each\n";
    for words in [
        &["get", "pods", "-w", "-o", "jsonpath={.metadata.name}"][..],
        &["top", "pods", "--sort-by=cpu"],
        &["get", "pods", "--subresource=status", "-o", "go-template={{.kind}}"],
    ] {
        let ran = bed.run(&[&["-C", "m1,m2"], words].concat());
        assert!(ran.code == Some(0) && ran.err == note, "{words:?} {ran:?}");
    }
    assert_eq!(bed.run(&["-C", "m1,m2", "describe", "pods"]).err, "");
}

#[test]
fn warning_appears_once_for_each_cluster() {
    let discovery = |path: &str| {
        let types = |group: &str, plural: &str, kind: &str| {
            let resource = json!({"resource": plural, "responseKind": {"kind": kind}, "scope": "Namespaced",
                "singularResource": "", "verbs": ["list"], "shortNames": ["po"]});
            json!({"metadata": {"name": group}, "versions": [{"version": "v1", "resources": [resource]}]})
        };
        let group = match path.ends_with("/api") {
            true => types("", "pods", "Pod"),
            false => types("x.example", "podracers", "PodRacer"),
        };
        json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": [group]})
    };
    let bed = Bed::serving(move |path| match path.ends_with("/api") || path.ends_with("/apis") {
        true => Answer::from((200, "application/json", discovery(path).to_string())).of("member"),
        false if path.contains("continue") || !path.contains("/pods") => answer(path),
        // Two requests to each cluster, each of which has the warning.
        false => answer(path).with("Warning", "299 - \"old\""),
    });
    let short = "Warning: short name \"po\" could also match lower priority resource podracers.x.example\n";
    let ran = bed.run(&["-C", "m1,m2", "get", "po/web", "pods/db", "-o", "name"]);
    let warnings: Vec<_> = ran.err.lines().filter(|line| line.contains("Warning: ")).collect();
    let short_line = short.trim_end();
    for cluster in ["m1", "m2"] {
        for text in [short_line, "Warning: old"] {
            let line = format!("{cluster} | {text}");
            assert_eq!(warnings.iter().filter(|warning| **warning == line).count(), 1, "{line} {ran:?}");
        }
    }
    assert_eq!(warnings.len(), 4, "{ran:?}");
    // For one cluster there is no prefix, as in kubectl.
    let ran = bed.run(&["-C", "m1", "get", "po", "-o", "name"]);
    assert!(ran.err.contains(short) && !ran.err.contains("m1 | "), "{ran:?}");
}

#[test]
fn ndjson_is_one_object_a_line_with_its_cluster() {
    let bed = bed();
    let line = |cluster: &str, pod: (&str, &str, &str)| {
        let mut pod = self::pod(pod);
        pod["apiVersion"] = "v1".into();
        pod["kind"] = "Pod".into();
        pod["metadata"].as_object_mut().unwrap().remove("managedFields");
        pod["metadata"]["annotations"] = json!({"fleet.kubectl-mc.dev/cluster": cluster});
        format!("{pod}\n")
    };
    let lines = |cluster: &str, pods: Pods| pods.iter().map(|pod| line(cluster, *pod)).collect::<String>();
    let error =
        "m3 | error: member unreachable: connection refused\n1 of 3 clusters failed: 1 unreachable (m3)\n";
    let all = lines("m1", M1) + &lines("m2", M2);
    assert_eq!(get(&bed, "m1,m2,m3", &["-o", "ndjson"]), Ran::new(4, &all, error));
    // This also works on one cluster, and if kubectl should run every command.
    assert_eq!(get(&bed, "m1", &["-o", "ndjson"]), Ran::new(0, &lines("m1", M1), ""));
    let by_kubectl = bed.run_with("KUBECTL_MC_DIRECT", "0", &["-C", "m2", "get", "pods", "-ondjson"]);
    assert_eq!(by_kubectl, Ran::new(0, &lines("m2", M2), ""));
    let ran = get(&bed, "m3", &["-o", "ndjson"]);
    let (code, said) = ran.failed();
    assert!(code == 1 && said.contains("member unreachable: connection refused"), "{said}");
    assert!(!bed.path("ran").exists(), "kubectl ran");
    let sorted = get(&bed, "m1", &["-o", "ndjson", "--sort-by=.spec.cpu"]);
    assert_eq!(sorted, Ran::new(0, &lines("m1", M1), ""));
    for words in [&["-w"][..], &["--subresource=status"]] {
        let ran = get(&bed, "m1,m2", &[&["-o", "ndjson"], words].concat());
        let (code, said) = ran.failed();
        assert!(code == 2 && said.starts_with("error: -o ndjson works for `get`"), "{said}");
    }
}
