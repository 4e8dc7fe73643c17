//! Tests `doctor --contexts`, which checks contexts of the kubeconfig instead of a host and its
//! members.

use std::fs;

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::{healthy, install};
use crate::bed::{Answer, Bed};

/// A cluster below each path: `a` is healthy, `b` refuses the credential.
fn bed() -> Bed {
    let bed = Bed::serving(|path: &str| -> Answer {
        if path.starts_with("/pre/b/") {
            let body = json!({"kind": "Status", "message": "Unauthorized", "reason": "Unauthorized"});
            return (401, "application/json", body.to_string()).into();
        }
        healthy(&path.replacen("/pre/a", "/pre", 1))
    });
    bed.secure();
    install(&bed, "v1.36.1");
    bed
}

/// A kubeconfig with one context, whose cluster and user have the names of every other file.
fn kubeconfig(bed: &Bed, file: &str, context: &str, cluster: &str) {
    let text = json!({
        "clusters": [{"name": "kubernetes", "cluster": bed.cluster_below(cluster)}],
        "users": [{"name": "admin", "user": {"token": format!("token-of-{file}")}}],
        "contexts": [{"name": context, "context": {"cluster": "kubernetes", "user": "admin"}}],
    });
    fs::write(bed.path(file), text.to_string()).unwrap();
}

/// The findings of a run with `-o json`: scope, name, check, result and message.
fn findings(bed: &Bed, words: &[&str]) -> String {
    let ran = bed.run(&[&["doctor", "--contexts", "-o", "json"], words].concat());
    let data: Value = serde_json::from_str(&ran.out).unwrap();
    let checks = data["checks"].as_array().unwrap().iter();
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    let lines = checks.filter(|finding| finding["scope"] != "machine").map(|finding| {
        let parts = ["scope", "name", "result", "check", "message", "fix"].map(|key| text(finding, key));
        parts.join(" | ").trim_end_matches([' ', '|']).to_owned() + "\n"
    });
    let folder = bed.path("").display().to_string();
    let shown = lines.collect::<String>().replace(bed.server(), "SERVER").replace(&folder, "BED/");
    let shown = shown.replace("BED//", "BED/");
    format!("exit code {}\n{}", ran.code.unwrap(), shown.lines().map(without_time).collect::<String>())
}

/// The line without the milliseconds at its end, which differ.
fn without_time(line: &str) -> String {
    let shown = line.strip_suffix(" ms").and_then(|line| line.rsplit_once(" in "));
    shown.map_or_else(|| format!("{line}\n"), |(before, _)| format!("{before} in ms\n"))
}

#[test]
fn each_context_is_checked_as_a_member() {
    let bed = bed();
    kubeconfig(&bed, "kubeconfig", "good", "a");
    fs::create_dir(bed.path("k")).unwrap();
    kubeconfig(&bed, "k/eu", "admin", "a");
    kubeconfig(&bed, "k/us", "admin", "b");
    fs::write(bed.path("k/cut"), "clusters: [").unwrap();
    fs::write(bed.path("k/README"), "Text").unwrap();
    assert_snapshot!(findings(&bed, &[]), @r"
    exit code 0
    kubeconfig |  | ok | files | 1 context
    cluster | good | ok | request | Kubernetes v1.36.3 in ms
    cluster | good | ok | login | jane (dev, ops)
    cluster | good | skipped | streams | streams not tried: no pod that you may list runs there
    ");
    assert_snapshot!(findings(&bed, &["--kubeconfig-dir=k"]), @r"
    exit code 1
    kubeconfig |  | ok | files | 2 contexts
    kubeconfig |  | skipped | files | k/README is skipped: it is no kubeconfig: the file is a text and not a map
    cluster | cut | problem | kubeconfig | cannot parse kubeconfig k/cut: line 1 column 11: unclosed bracket '[' | mend the file, or leave it out: --exclude=NAME, or a glob for --kubeconfig-dir
    cluster | eu/admin | ok | request | Kubernetes v1.36.3 in ms
    cluster | eu/admin | ok | login | jane (dev, ops)
    cluster | eu/admin | skipped | streams | streams not tried: no pod that you may list runs there
    cluster | us/admin | problem | request | GET /version: 401: Unauthorized | compare with: kubectl --context=admin --kubeconfig=k/us get --raw /version
    ");
    assert_snapshot!(findings(&bed, &["--kubeconfig-dir=k", "eu/*", "--exclude=cut", "--no-streams"]), @r"
    exit code 0
    kubeconfig |  | ok | files | 2 contexts
    kubeconfig |  | skipped | files | k/README is skipped: it is no kubeconfig: the file is a text and not a map
    cluster | eu/admin | ok | request | Kubernetes v1.36.3 in ms
    cluster | eu/admin | ok | login | jane (dev, ops)
    ");
    assert_snapshot!(findings(&bed, &["other"]), @r"
    exit code 1
    kubeconfig |  | ok | files | 1 context
    kubeconfig |  | problem | contexts | context unknown: other | there are good
    ");
}

#[test]
fn entries_that_another_file_hides_are_named() {
    let bed = bed();
    kubeconfig(&bed, "a", "one", "a");
    kubeconfig(&bed, "b", "two", "b");
    // The same entry again is not a collision.
    fs::copy(bed.path("a"), bed.path("c")).unwrap();
    let list = std::env::join_paths(["a", "b", "c"].map(|file| bed.path(file))).unwrap();
    let ran = bed.run_with("KUBECONFIG", &list, &["clusters", "--contexts", "-o", "name"]);
    let err = ran.err.replace(&bed.path("").display().to_string(), "BED/").replace("BED//", "BED/");
    assert_eq!(ran.out, "one\ntwo\n");
    assert_snapshot!(err, @r#"
    warning: cluster "kubernetes" of BED/b is hidden by the one of BED/a, which context "two" uses
    warning: user "admin" of BED/b is hidden by the one of BED/a, which context "two" uses
    hint: read each file alone: kubectl mc --kubeconfig-dir=BED/a --kubeconfig-dir=BED/b clusters --contexts
    "#);
    let ran = bed.run_with("KUBECONFIG", &list, &["doctor", "--contexts", "one"]);
    let hidden = ran.out.lines().filter(|line| line.contains("is hidden by the one of")).count();
    assert_eq!(hidden, 2, "{ran:?}");
}
