//! Tests `kubectl mc clusters`.

use crate::bed::{Bed, Ran, status};

const TABLE: &str = r#"{"kind": "Table", "apiVersion": "meta.k8s.io/v1",
  "columnDefinitions": [
    {"name": "Name"}, {"name": "Ready"}, {"name": "Version"}, {"name": "Age"}, {"name": "Server", "priority": 1}],
  "rows": [
    {"cells": ["eu-prod-1", "True", "v1.36.3", "5d", "https://a"], "object": {"metadata": {"name": "eu-prod-1"}}},
    {"cells": ["m1", "False", "", "3m", "https://b"], "object": {"metadata": {"name": "m1"}}}]}"#;
const LIST: &str = r#"{"kind": "ClusterList", "apiVersion": "proxy.kubectl-mc.dev/v1alpha1", "metadata": {"resourceVersion": "7"},
  "items": [{"metadata": {"name": "m1"}}]}"#;

fn answering(body: &str) -> Bed {
    Bed::answering((200, "application/json", body.to_owned()))
}

#[cfg(target_os = "linux")]
#[test]
fn unwritable_output_is_a_failure() {
    let full = std::fs::File::create("/dev/full").unwrap();
    let ran = answering(TABLE).command(&["clusters"]).stdout(full).output().unwrap();
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    let error = String::from_utf8_lossy(&ran.stderr);
    assert!(error.starts_with("error: cannot write the output: No space left on device"), "{error}");
}

#[test]
fn server_table_is_formatted_as_by_kubectl() {
    let bed = answering(TABLE);
    let ran = bed.run(&["clusters"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert_eq!(
        ran.out,
        "NAME        READY   VERSION   AGE\n\
         eu-prod-1   True    v1.36.3   5d\n\
         m1          False             3m\n"
    );
    let request = bed.requests().pop().unwrap();
    assert!(
        request.starts_with("GET /pre/apis/proxy.kubectl-mc.dev/v1alpha1/clusters HTTP/1.1\r\n"),
        "{request}"
    );
    assert!(
        request.contains("\r\naccept: application/json;as=Table;v=v1;g=meta.k8s.io,application/json\r\n")
    );

    let wide = bed.run(&["clusters", "-o", "wide", "--no-headers"]).out;
    assert_eq!(wide.lines().next(), Some("eu-prod-1   True    v1.36.3   5d    https://a"));
    let names = bed.run(&["clusters", "-oname"]).out;
    assert_eq!(names, "cluster.proxy.kubectl-mc.dev/eu-prod-1\ncluster.proxy.kubectl-mc.dev/m1\n");
}

/// A table that includes the object of each row.
const TABLE_WITH_OBJECTS: &str = r#"{"kind": "Table", "apiVersion": "meta.k8s.io/v1",
  "columnDefinitions": [{"name": "Name"}, {"name": "Ready"}, {"name": "Version"}],
  "rows": [
    {"cells": ["m1", "True", "v1.36.3"], "object": {"metadata": {"name": "m1"},
     "status": {"version": "v1.36.3", "conditions": [{"type": "Ready", "status": "True"}]}}},
    {"cells": ["m2", "Unknown", ""], "object": {"metadata": {"name": "m2"}}}]}"#;

#[test]
fn list_is_filtered_by_fields() {
    let bed = answering(TABLE_WITH_OBJECTS);
    let ran = bed.run(&["clusters", "--where=status.version>=1.36"]);
    assert_eq!(ran, Ran::new(0, "NAME   READY   VERSION\nm1     True    v1.36.3\n", ""));
    assert!(
        bed.requests()[0]
            .starts_with("GET /pre/apis/proxy.kubectl-mc.dev/v1alpha1/clusters?includeObject=Object ")
    );
    let ran = bed.run(&["clusters", "-o", "name", "-l", "env", "--where", "ready!=True"]);
    assert_eq!(ran.out, "cluster.proxy.kubectl-mc.dev/m2\n");
    assert!(bed.requests()[0].contains("/clusters?labelSelector=env&includeObject=Object "));
    assert_eq!(bed.run(&["clusters", "--where=ready=False"]), Ran::new(0, "", "No resources found\n"));
    let json = answering(LIST).run(&["clusters", "-o", "json", "--where=ready=True"]).out;
    assert!(json.contains("\"items\": []"), "{json}");
}

#[test]
fn filter_refuses_output_that_kubectl_prints() {
    let bed = answering(TABLE_WITH_OBJECTS);
    for (words, said) in [
        (&["m1"][..], "names of clusters"),
        (&["--watch"], "--watch"),
        (&["--show-labels"], "--show-labels"),
        (&["--sort-by=.metadata.name"], "--sort-by"),
        (&["-o", "jsonpath={.items}"], "a template"),
    ] {
        let ran = bed.run(&[&["clusters", "--where=ready=True"], words].concat());
        let said = format!(
            "error: --where cannot be combined with {said}\nhint: --where takes the table, -o wide, json, yaml or name, and -l\n"
        );
        assert_eq!(ran.failed(), (2, said.as_str()));
    }
    assert!(bed.requests().is_empty());
}

#[test]
fn json_and_yaml_equal_kubectls_list() {
    let bed = answering(LIST);
    let json = bed.run(&["clusters", "-o", "json"]).out;
    assert_eq!(
        json,
        r#"{
    "apiVersion": "v1",
    "items": [
        {
            "apiVersion": "proxy.kubectl-mc.dev/v1alpha1",
            "kind": "Cluster",
            "metadata": {
                "name": "m1"
            }
        }
    ],
    "kind": "List",
    "metadata": {
        "resourceVersion": ""
    }
}
"#
    );
    let yaml = bed.run(&["clusters", "-o", "yaml"]).out;
    assert!(yaml.starts_with("apiVersion: v1\nitems:\n"), "{yaml}");
    assert!(bed.requests()[0].contains("\r\naccept: application/json\r\n"));
}

#[test]
fn kubectl_runs_when_a_table_is_not_enough() {
    let bed = Bed::unreachable();
    let get = ["get", "clusters.proxy.kubectl-mc.dev"];
    for (words, expected) in [
        (&["m1", "m2"][..], &["m1", "m2", "--context=host"][..]),
        (&["-w", "-l", "env=prod"], &["--context=host", "--selector=env=prod", "--watch"]),
        (
            &["--sort-by=.status.lastSeen", "-o", "wide"],
            &["--context=host", "--output=wide", "--sort-by=.status.lastSeen"],
        ),
        (&["--show-labels", "--no-headers"], &["--context=host", "--no-headers", "--show-labels"]),
        (
            &["-o", "jsonpath={.items[*].metadata.name}"],
            &["--context=host", "--output=jsonpath={.items[*].metadata.name}"],
        ),
        (
            &["-ocustom-columns=A:.metadata.name"],
            &["--context=host", "--output=custom-columns=A:.metadata.name"],
        ),
    ] {
        let ran = bed.run(&[&["clusters"], words].concat());
        assert_eq!((ran.code, ran.arguments()), (Some(42), [&get, expected].concat()), "{words:?}");
        assert_eq!(ran.kubeconfig().0, bed.path("kubeconfig").to_str().unwrap());
    }
    assert_eq!(bed.run(&["clusters", "-o", "wide=x"]).failed().0, 2);
    assert_eq!(bed.run(&["clusters", "-o", "xml"]).failed().0, 2);
}

#[test]
fn label_selector_is_passed_on() {
    let bed = answering(TABLE);
    bed.run(&["clusters", "-l", "env in (prod,dev),a!=b"]);
    let request = bed.requests().pop().unwrap();
    assert!(
        request.contains("clusters?labelSelector=env%20in%20%28prod%2Cdev%29%2Ca%21%3Db HTTP/1.1"),
        "{request}"
    );
}

#[test]
fn empty_list_message_goes_to_stderr() {
    let bed = answering(r#"{"kind": "Table", "columnDefinitions": [{"name": "Name"}], "rows": []}"#);
    let ran = bed.run(&["clusters"]);
    // A caller without rights also gets an empty list.
    let said = format!(
        "No clusters found: {} has none (add one: kubectl mc --context=host join NAME --member-context=CONTEXT), or none \
         that you may use (an admin grants access: kubectl mc --context=host access grant view --user=NAME -C CLUSTER)\n",
        bed.host()
    );
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(0), "", said.as_str()));
    let filtered = bed.run(&["clusters", "-l", "a=b"]);
    assert_eq!((filtered.code, filtered.err.as_str()), (Some(0), "No resources found\n"));
}

#[test]
fn refusing_hop_is_named() {
    for (code, body, said) in [
        (404, "404 page not found\n", "sidecar not installed: 404 page not found"),
        (503, "service unavailable\n", "sidecar not available: service unavailable"),
        (401, r#"{"kind": "Status", "message": "Unauthorized"}"#, "host authentication: Unauthorized"),
        (
            403,
            r#"{"kind": "Status", "message": "clusters.proxy.kubectl-mc.dev is forbidden"}"#,
            "host authorization: clusters.proxy.kubectl-mc.dev is forbidden",
        ),
        (500, r#"{"kind": "Status", "message": "odd"}"#, "500 Internal Server Error: odd"),
    ] {
        let bed = Bed::answering((code, "application/json", body.to_owned()));
        let ran = bed.run(&["clusters"]);
        let first = format!("error: cannot list clusters through {}: {said}", bed.host());
        assert_eq!(ran.failed().0, 1);
        assert_eq!(ran.err.lines().next(), Some(first.as_str()));
    }
    let bed = Bed::unreachable();
    let ran = bed.run(&["clusters"]);
    assert!(ran.failed().1.contains("host unreachable: "), "{}", ran.err);
}

#[test]
fn bad_label_selector_is_a_usage_error() {
    let bed = Bed::answering(status(400, "request", "unable to parse requirement"));
    let ran = bed.run(&["clusters", "-l", "env=("]);
    assert_eq!(ran.failed().0, 2, "{ran:?}");
    assert!(ran.err.contains("request: unable to parse requirement\nhint: check the command"), "{ran:?}");
}

#[test]
fn clusters_refuses_a_choice_but_ignores_the_default() {
    let bed = answering(TABLE);
    assert_eq!(bed.run(&["clusters", "--cluster=m1"]).failed().0, 2);
    assert_eq!(bed.run_with("KUBECTL_MC_CLUSTER", "m1", &["clusters"]).code, Some(0));
}

#[test]
fn closed_output_pipe_is_no_error() {
    let bed = answering(TABLE);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = bed.command(&["clusters"]).stdout(writer).output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}
