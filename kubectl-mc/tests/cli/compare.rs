//! Tests `kubectl mc compare` on several clusters.

use serde_json::{Value, json};

use crate::bed::{Bed, Ran};

/// A host with three members; `m2` has another value.
fn bed() -> Bed {
    Bed::serving(|path| {
        let cluster =
            ["m1", "m2", "m3"].into_iter().find(|name| path.contains(&format!("/{name}/"))).unwrap();
        let map = |name: &str, value: &str| json!({"metadata": {"name": name, "uid": cluster, "resourceVersion": cluster}, "data": {"k": value}});
        let value = if cluster == "m2" { "one\ntwo\n" } else { "one\n2\n" };
        let items: Vec<Value> = vec![map("kube-root-ca.crt", cluster), map("same", "x"), map("x", value)];
        let list = json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {}, "items": items});
        (200, "application/json", list.to_string())
    })
    .of_known_hub()
}

#[test]
fn compare_marks_the_odd_one_out() {
    let note =
        "not compared, because each cluster makes its own: ConfigMap kube-root-ca.crt; see --all-fields\n";
    let diff = "ConfigMap x\n@@ .data.k @@\n--- m1, m3\n+++ m2 (odd one out)\n| one\n- 2\n+ two\n";
    assert_eq!(bed().run(&["compare", "configmaps", "-C", "m1,m2,m3"]), Ran::new(1, diff, note));
    assert_eq!(bed().run(&["compare", "configmaps", "-C", "m1,m3"]), Ran::new(0, "", note));
    let all = bed().run(&["compare", "configmaps", "--all-fields", "-C", "m1,m3"]);
    assert_eq!((all.code, all.err.as_str()), (Some(1), ""), "{all:?}");
    let root = "ConfigMap kube-root-ca.crt\n@@ .data.k @@\n--- m1\n+++ m3\n- m1\n+ m3\n@@ .metadata.resourceVersion @@\n";
    assert!(all.out.starts_with(root), "{all:?}");
}

#[test]
fn help_of_compare_names_arguments_and_examples() {
    let help = bed().run(&["compare", "--help"]).out;
    for part in [
        "TYPE[/NAME]",
        "--namespace <NAME>",
        "--all-fields",
        "--cluster <CLUSTERS>",
        "Examples:\n  # One object",
    ] {
        assert!(help.contains(part), "{part}: {help}");
    }
}
