//! Pins the output of one command on several clusters word for word: exit code, standard output and standard
//! error. A fake host and fake members return the answers.

use std::fs;

use harness::snapshot::render;
use insta::assert_snapshot;

use crate::bed::{Answer, Bed, Ran, status};

fn rendered(ran: &Ran) -> String {
    render(ran.code.unwrap_or(-1), &ran.out, &ran.err)
}

/// A host with clusters of several kinds.
fn fleet() -> Bed {
    let bed = Bed::serving(answer);
    bed.kubectl(
        "case $cluster in eu-1|eu-2) echo \"$1 on $cluster\";; *) echo 'Error from server (NotFound): no such thing' >&2; exit 1;; esac",
    );
    bed
}

fn answer(path: &str) -> Answer {
    let member = path.split("/clusters/").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let body = match member {
        "" => LIST.to_owned(),
        "down-1" | "down-2" => {
            return status(502, "member unreachable", "connect to 203.0.113.7:6443: no route to host");
        }
        "closed" => {
            return status(403, "host authorization", "user \"jane\" may not use the proxy of this cluster");
        }
        "nowhere" => return status(403, "cluster unknown", "no cluster of this name"),
        _ if path.contains("/log") => "2 lines\nand no end".to_owned(),
        _ if path.contains("/pods/") => {
            r#"{"kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [{"name": "main"}]}}"#
                .to_owned()
        }
        "eu-1" if path.contains("/configmaps") => {
            table(&["Name", "Data"], &[&["a", "1"], &["with-a-longer-name", "22"]])
        }
        "eu-2" if path.contains("/configmaps") => table(&["Name", "Data"], &[&["b", "3"]]),
        "odd" if path.contains("/configmaps") => table(&["Name", "Shape"], &[&["c", "round"]]),
        _ => "{}".to_owned(),
    };
    (200, "application/json", body).into()
}

fn table(columns: &[&str], rows: &[&[&str]]) -> String {
    let columns: Vec<_> =
        columns.iter().map(|name| serde_json::json!({"name": name, "type": "string"})).collect();
    let rows: Vec<_> = rows
        .iter()
        .map(|cells| serde_json::json!({"cells": cells, "object": {"metadata": {"name": cells[0]}}}))
        .collect();
    serde_json::json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": columns, "rows": rows})
        .to_string()
}

const LIST: &str = r#"{"kind": "ClusterList", "apiVersion": "proxy.kubectl-mc.dev/v1alpha1", "items": [
  {"metadata": {"name": "eu-1", "labels": {"env": "prod"}}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}},
  {"metadata": {"name": "eu-2", "labels": {"env": "prod"}}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}},
  {"metadata": {"name": "us-1"}, "status": {"conditions": [
    {"type": "Ready", "status": "False", "reason": "Unreachable", "message": "no route to host"}]}}]}"#;

#[test]
fn tables_are_merged_and_other_columns_form_another_table() {
    let ran = fleet().run(&["get", "configmaps", "-C", "eu-1,odd,eu-2"]);
    assert_snapshot!(rendered(&ran), @r"
    exit code: 0
    ----- stdout -----
    CLUSTER   NAME                 DATA
    eu-1      a                    1
    eu-1      with-a-longer-name   22
    eu-2      b                    3

    CLUSTER   NAME   SHAPE
    odd       c      round
    ----- stderr -----
    ");
}

#[test]
fn log_lines_are_whole_and_name_their_cluster() {
    assert_snapshot!(rendered(&fleet().run(&["logs", "web", "-C", "eu-1,odd"])), @r"
    exit code: 0
    ----- stdout -----
    eu-1 | 2 lines
    eu-1 | and no end
    odd  | 2 lines
    odd  | and no end
    ----- stderr -----
    ");
}

#[test]
fn failures_are_printed_and_grouped_by_cause() {
    let bed = fleet();
    let ran = bed.run(&["describe", "pod", "web", "-C", "eu-1,down-1,closed,down-2,nowhere,odd,eu-2"]);
    assert_snapshot!(rendered(&ran), @r#"
    exit code: 4
    ----- stdout -----
    eu-1    | describe on eu-1
    eu-2    | describe on eu-2
    ----- stderr -----
    down-1  | error: member unreachable: connect to 203.0.113.7:6443: no route to host
    closed  | error: host authorization: user "jane" may not use the proxy of this cluster
    down-2  | error: member unreachable: connect to 203.0.113.7:6443: no route to host
    nowhere | error: cluster unknown: no cluster of this name
    odd     | Error from server (NotFound): no such thing
    5 of 7 clusters failed: 2 unreachable (down-1, down-2), 1 forbidden by the host (closed), 1 not found (odd), 1 unknown (nowhere)
    "#);
    let ran = bed.run(&["get", "configmaps", "-o", "yaml", "-C", "down-1,closed,down-2"]);
    assert_snapshot!(rendered(&ran), @r#"
    exit code: 5
    ----- stdout -----
    apiVersion: v1
    items: []
    kind: List
    metadata:
      clusterErrors:
      - cause: unreachable
        cluster: down-1
        message: "member unreachable: connect to 203.0.113.7:6443: no route to host"
      - cause: forbidden by the host
        cluster: closed
        message: "host authorization: user \"jane\" may not use the proxy of this cluster"
      - cause: unreachable
        cluster: down-2
        message: "member unreachable: connect to 203.0.113.7:6443: no route to host"
      resourceVersion: ""
    ----- stderr -----
    down-1 | error: member unreachable: connect to 203.0.113.7:6443: no route to host
    closed | error: host authorization: user "jane" may not use the proxy of this cluster
    down-2 | error: member unreachable: connect to 203.0.113.7:6443: no route to host
    3 of 3 clusters failed: 2 unreachable (down-1, down-2), 1 forbidden by the host (closed)
    "#);
}

#[test]
fn cluster_that_is_not_ready_is_reported_without_a_request() {
    let bed = fleet();
    assert_snapshot!(rendered(&bed.run(&["get", "configmaps", "--all-clusters"])), @r"
    exit code: 4
    ----- stdout -----
    CLUSTER   NAME                 DATA
    eu-1      a                    1
    eu-1      with-a-longer-name   22
    eu-2      b                    3
    ----- stderr -----
    us-1 | error: not ready: no route to host
    1 of 3 clusters failed: 1 not ready (us-1)
    ");
    assert_snapshot!(rendered(&bed.run(&["describe", "pod", "web", "-C", "us-*,eu-*"])), @r"
    exit code: 4
    ----- stdout -----
    eu-1 | describe on eu-1
    eu-2 | describe on eu-2
    ----- stderr -----
    us-1 | error: not ready: no route to host
    1 of 3 clusters failed: 1 not ready (us-1)
    ");
}

#[test]
fn change_on_several_clusters_needs_confirmation() {
    let bed = fleet();
    assert_snapshot!(rendered(&bed.run(&["delete", "pod", "web", "-C", "eu-1,eu-2"])), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: refusing to change 2 clusters without confirmation: there is no terminal to ask at
    hint: --yes changes them; --dry-run=clusters shows what would be done
    ");
    assert_snapshot!(rendered(&bed.run(&["--yes", "delete", "pod", "web", "-C", "eu-1,eu-2"])), @r"
    exit code: 0
    ----- stdout -----
    eu-1 | delete on eu-1
    eu-2 | delete on eu-2
    ----- stderr -----
    ");
    assert_snapshot!(rendered(&bed.run_with("KUBECTL_MC_READONLY", "1", &["--yes", "delete", "pod", "web", "-C", "eu-1,eu-2"])), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: refusing `delete`: KUBECTL_MC_READONLY allows only commands that read
    hint: use --dry-run=server, or unset KUBECTL_MC_READONLY
    ");
    assert_snapshot!(rendered(&bed.run_with("KUBECTL_MC_READONLY", "1", &["exec", "web", "-C", "eu-1", "--", "ls"])), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: refusing `exec`: KUBECTL_MC_READONLY allows only commands that read
    hint: unset KUBECTL_MC_READONLY
    ");
}

#[test]
fn local_ports_are_printed_as_a_table() {
    let bed = fleet();
    bed.kubectl(
        "port=${4%%:*}; [ $cluster = eu-1 ] || while [ ! -e first ]; do :; done\n\
         echo \"Forwarding from 127.0.0.1:$port -> 80\"; echo \"Forwarding from [::1]:$port -> 80\"\n\
         echo \"Handling connection for $port\"; : > first",
    );
    let ran = bed.run(&["port-forward", "svc/web", "8080:80", "-C", "eu-1,down-1,eu-2"]);
    assert_snapshot!(rendered(&ran), @r"
    exit code: 4
    ----- stdout -----
    eu-1   | Handling connection for 8080
    eu-2   | Handling connection for 8082
    CLUSTER   LOCAL            REMOTE
    eu-1      127.0.0.1:8080   80
    eu-1      [::1]:8080       80
    eu-2      127.0.0.1:8082   80
    eu-2      [::1]:8082       80
    ----- stderr -----
    down-1 | error: member unreachable: connect to 203.0.113.7:6443: no route to host
    1 of 3 clusters failed: 1 unreachable (down-1)
    ");
}

#[test]
fn dry_run_shows_the_command_of_each_cluster() {
    let ran = fleet().run(&["scale", "deploy/web", "--replicas=3", "--all-clusters", "--dry-run=clusters"]);
    assert_snapshot!(rendered(&ran), @r"
    exit code: 0
    ----- stdout -----
    CLUSTER   READY   COMMAND
    eu-1      True    kubectl mc --context=host --cluster=eu-1 scale deploy/web --replicas=3
    eu-2      True    kubectl mc --context=host --cluster=eu-2 scale deploy/web --replicas=3
    us-1      False   kubectl mc --context=host --cluster=us-1 scale deploy/web --replicas=3
    ----- stderr -----
    ");
}

#[test]
fn no_choice_and_no_match_list_the_clusters() {
    let bed = fleet();
    assert_snapshot!(rendered(&bed.run(&["get", "pods"])), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: no cluster chosen
    hint: choose by --cluster=NAME, --cluster-selector, --where, KUBECTL_MC_CLUSTER or `kubectl mc use NAME`, see `kubectl mc --help`; there are eu-1, eu-2, us-1
    ");
    assert_snapshot!(rendered(&bed.run(&["get", "pods", "-C", "asia-*"])), @r"
    exit code: 3
    ----- stdout -----
    ----- stderr -----
    error: no cluster matches
    hint: there are eu-1, eu-2, us-1
    ");
    assert_snapshot!(rendered(&bed.run(&["get", "pods", "-C", "eu-*,us-2"])), @r"
    exit code: 3
    ----- stdout -----
    ----- stderr -----
    error: cluster unknown: us-2
    hint: did you mean us-1?
    ");
    let ran = bed.run(&["get", "pods", "-C", "@prod"]);
    let said = ran.err.replace(&bed.path("home").display().to_string(), "~");
    assert_snapshot!(render(2, &ran.out, &said), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: no set @prod in ~/.config/kubectl-mc/config.yaml
    hint: the file does not exist; its key `sets` defines sets
    ");
    assert_snapshot!(rendered(&bed.run(&["compare", "deploy/web", "-C", "eu-1"])), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: compare needs at least two clusters, but only eu-1 is chosen
    hint: choose a second cluster: --cluster=eu-1,NAME
    ");
}

#[test]
fn configuration_with_an_unknown_key_is_refused() {
    let bed = fleet();
    let folder = bed.path("home/.config/kubectl-mc");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.yaml"), "host: host\nset: {}\n").unwrap();
    assert_snapshot!(rendered(&bed.run(&["get", "pods", "-C", "eu-1"])), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: cannot use FOLDER/home/.config/kubectl-mc/config.yaml: unknown field `set`, expected one of host, hub, sets, defaults at line 2, column 1
    hint: did you mean `sets`?
    ");
}

#[test]
fn rollout_stops_at_a_failure_and_retry_continues() {
    let bed = fleet();
    let words = [
        "--yes",
        "--batch=1,rest",
        "--pause-on-failure",
        "-C",
        "odd,eu-1,eu-2",
        "rollout",
        "restart",
        "deploy/web",
    ];
    assert_snapshot!(rendered(&bed.run(&words)), @r"
    exit code: 5
    ----- stdout -----
    ----- stderr -----
    odd  | Error from server (NotFound): no such thing
    1 of 3 clusters failed: 1 not found (odd); 2 not begun (eu-1, eu-2)
    continue with: kubectl mc --retry-failed --yes --batch=1,rest --pause-on-failure rollout restart deploy/web
    ");
    assert_snapshot!(rendered(&bed.run(&["--retry-failed", "--dry-run=clusters", "rollout", "restart", "deploy/web"])), @r"
    exit code: 0
    ----- stdout -----
    CLUSTER   READY     COMMAND
    odd       Unknown   kubectl mc --context=host --cluster=odd rollout restart deploy/web
    eu-1      Unknown   kubectl mc --context=host --cluster=eu-1 rollout restart deploy/web
    eu-2      Unknown   kubectl mc --context=host --cluster=eu-2 rollout restart deploy/web
    ----- stderr -----
    ");
    bed.kubectl("echo \"restarted on $cluster\"");
    assert_snapshot!(rendered(&bed.run(&["--yes", "--retry-failed", "rollout", "restart", "deploy/web"])), @r"
    exit code: 0
    ----- stdout -----
    odd  | restarted on odd
    eu-1 | restarted on eu-1
    eu-2 | restarted on eu-2
    ----- stderr -----
    ");
    assert_snapshot!(rendered(&bed.run(&["--yes", "--retry-failed", "rollout", "restart", "deploy/web"])), @r"
    exit code: 3
    ----- stdout -----
    ----- stderr -----
    error: no cluster failed last time
    ");
}
