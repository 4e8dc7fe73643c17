//! `get` and `logs` on many clusters print one output that shows which cluster each part comes
//! from.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Request, Step, reply};
use harness::scene::{EVERY_VERB, Scene};
use harness::tool::Tool;
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};

use crate::plugin;

#[test]
fn table_of_many_clusters_has_one_header_and_cluster_column() -> Result<()> {
    let two = Two::new("many-table")?;
    let stdout =
        two.plugin()?.ok(&["get", "cm", "-l", "app=x", "-L", "app", "--no-headers", "-C", "m2,m1"])?;
    assert_eq!(
        ages_away(&stdout),
        "m2    c             2     AGE   x\nm1    a             1     AGE   x\nm1    a-long-name   1     AGE   x\n"
    );
    let stdout = two.plugin()?.ok(&["get", "configmaps", "-l", "app=x", "-C", "m1,m2"])?;
    assert_eq!(
        ages_away(&stdout),
        "CLUSTER   NAME          DATA   AGE\nm1        a             1      AGE\nm1        a-long-name   1      AGE\n\
         m2        c             2      AGE\n"
    );
    let output = two.plugin()?.run(&["get", "cm", "-l", "app=nobody", "-C", "m1,m2"])?;
    assert_eq!((output.code, output.text().as_str()), (0, ""), "{output:?}");
    assert_eq!(output.stderr, format!("No resources found in {} namespace.\n", two.first.name));
    Ok(())
}

#[test]
fn json_of_many_clusters_is_one_list_with_clusters_and_errors() -> Result<()> {
    let two = Two::new("many-json")?;
    let plugin = two.plugin()?;
    let output = plugin.run(&["get", "cm", "-l", "app=x", "-o", "json", "-C", "m1,nowhere,m2"])?;
    assert_eq!(output.code, 4, "{output:?}");
    assert!(output.stderr.ends_with("1 of 3 clusters failed: 1 unknown (nowhere)\n"), "{output:?}");
    let list: Value = serde_json::from_slice(&output.stdout)?;
    let items = list["items"].as_array().context("no items")?;
    let named: Vec<_> = items
        .iter()
        .map(|item| {
            let cluster = &item["metadata"]["annotations"]["fleet.kubectl-mc.dev/cluster"];
            (cluster.as_str().unwrap_or_default(), item["metadata"]["name"].as_str().unwrap_or_default())
        })
        .collect();
    assert_eq!(named, [("m1", "a"), ("m1", "a-long-name"), ("m2", "c")]);
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("List"), &json!("v1")));
    assert_eq!(list["metadata"]["clusterErrors"][0]["cluster"], "nowhere", "{}", list["metadata"]);

    let names = plugin.ok(&["get", "cm", "-l", "app=x", "-o", "name", "-C", "m1,m2"])?;
    assert_eq!(names, "m1 | configmap/a\nm1 | configmap/a-long-name\nm2 | configmap/c\n");
    let yaml = plugin.ok(&["get", "cm", "c", "-o", "yaml", "-C", "m[2]"])?;
    assert!(
        yaml.starts_with("apiVersion: v1\nitems:\n- apiVersion: v1\n  data:\n    k0: v\n    k1: v\n"),
        "{yaml}"
    );
    assert!(yaml.contains("      fleet.kubectl-mc.dev/cluster: m2\n"), "{yaml}");
    Ok(())
}

#[test]
fn several_types_print_a_table_each() -> Result<()> {
    let two = Two::new("many-types")?;
    let stdout = two.plugin()?.ok(&["get", "cm,services", "-l", "app=x", "-C", "m1,m2"])?;
    let stdout = ages_away(&stdout);
    let blocks: Vec<_> = stdout.split("\n\n").collect();
    ensure!(blocks.len() == 2, "not two blocks: {stdout}");
    assert!(
        blocks[0].starts_with("CLUSTER   NAME                    DATA   AGE\nm1        configmap/a "),
        "{stdout}"
    );
    assert!(blocks[1].starts_with("CLUSTER   NAME "), "{stdout}");
    Ok(())
}

#[test]
fn hanging_cluster_delays_no_other_output() -> Result<()> {
    let two = Two::new("many-hangs")?;
    let fake = FakeMember::start("many-hangs", |_| vec![Step::Hang])?;
    let begin = Instant::now();
    let words = ["get", "cm", "-l", "app=x", "-C", "m1,m2,many-hangs", "--no-headers"];
    let output = two.plugin()?.with(&["--cluster-timeout=15s"]).run(&words)?;
    ensure!(begin.elapsed() < Duration::from_secs(45), "it took {:?}", begin.elapsed());
    assert_eq!((output.code, output.text().lines().count()), (4, 3), "{output:?}");
    assert!(output.stderr.contains("1 of 3 clusters failed: 1 timed out"), "{output:?}");
    drop(fake);
    Ok(())
}

#[test]
fn different_columns_make_a_separate_table() -> Result<()> {
    let two = Two::new("many-columns")?;
    let fake =
        FakeMember::start("many-columns", |_| answer(&table(&["Name", "Other"], &[("odd", "1")], "1")))?;
    let words = ["get", "configmaps", "-l", "app=x", "-C", "m1,many-columns,m2"];
    let stdout = ages_away(&two.plugin()?.ok(&words)?);
    let (first, second) = stdout.split_once("\n\n").with_context(|| stdout.clone())?;
    assert_eq!(first.lines().count(), 4, "{stdout}");
    assert_eq!(second, "CLUSTER        NAME   OTHER\nmany-columns   odd    odd-cell\n");
    drop(fake);
    Ok(())
}

#[test]
fn watch_of_many_clusters_is_one_stream() -> Result<()> {
    let two = Two::new("many-watch")?;
    let words = ["get", "cm", "-l", "app=x", "--watch", "-C", "m1,m2"];
    let mut watch = two.plugin()?.start(&words)?;
    watch.wait_for("m2        c ", SOON)?;
    two.config_map(&two.second, "late", 3)?;
    watch.wait_for("m2        late ", SOON)?;
    two.config_map(&two.first, "later", 3)?;
    watch.wait_for("m1        later ", SOON)?;
    let stdout = watch.stdout();
    assert!(stdout.starts_with("CLUSTER   NAME "), "{stdout}");
    assert_eq!(stdout.lines().filter(|line| line.starts_with("CLUSTER")).count(), 1, "{stdout}");
    Ok(())
}

#[test]
fn watch_resumes_without_lost_or_repeated_events() -> Result<()> {
    let two = Two::new("many-rewatch")?;
    // The first list has a. A watch from 10 sends b and breaks off, and a watch from 11 is too old.
    // The second list has c, too.
    let fake = FakeMember::start("many-rewatch", |request| {
        let target = request.target();
        if !target.contains("watch=true") {
            let later = [("a", "5"), ("b", "11"), ("c", "12")];
            return match LISTED.swap(true, Ordering::SeqCst) {
                true => answer(&table(&["Name"], &later, "20")),
                false => answer(&table(&["Name"], &later[..1], "10")),
            };
        }
        if target.contains("resourceVersion=10") {
            let event =
                format!("{{\"type\":\"ADDED\",\"object\":{}}}\n", table(&["Name"], &[("b", "11")], ""));
            let torn = &event[..event.len() / 2];
            let head =
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
            let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
            return vec![
                Step::Send(format!("{head}{}{}", chunk(&event), chunk(torn)).into_bytes()),
                Step::Close,
            ];
        }
        if target.contains("resourceVersion=11") {
            return answer(
                "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\"}}\n",
            );
        }
        vec![Step::Hang]
    })?;
    let words = ["get", "configmaps", "--watch", "--no-headers", "-C", "many-rewatc*"];
    let mut watch = two.plugin()?.start(&words)?;
    watch.wait_for("  c", SOON)?;
    fake.wait_for("resourceVersion=20", |_| true)?;
    let rows: Vec<_> =
        watch.stdout().lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(rows, ["many-rewatch a", "many-rewatch b", "many-rewatch c"]);
    Ok(())
}

#[test]
fn logs_of_many_clusters_are_whole_lines_with_their_cluster() -> Result<()> {
    let two = Two::new("many-logs")?;
    two.first.pod("talker", "echo one; echo two; sleep 1000000")?;
    let fake = FakeMember::start("many-logs", |request| pod_or(request, || reply("200 OK", "", "x\ny")))?;
    eventually("all have spoken", SOON, || {
        let stdout = two.plugin()?.ok(&["logs", "talker", "-C", "m1,many-logs"])?;
        let expected = "m1        | one\nm1        | two\nmany-logs | x\nmany-logs | y\n";
        ensure!(stdout == expected, "{stdout}");
        Ok(Some(()))
    })?;
    let mut logs = two.plugin()?.start(&["logs", "-f", "-l", "app=talker", "-C", "m1,m2", "--prefix"])?;
    logs.wait_for("m1 | [pod/talker/main] two\n", SOON)?;
    drop(fake);
    Ok(())
}

#[test]
fn followed_logs_resume_without_lost_or_repeated_lines() -> Result<()> {
    let two = Two::new("many-drops")?;
    let fake = FakeMember::start("many-drops", |request| {
        pod_or(request, || {
            let line = |second: u32, text: &str| format!("2026-01-01T00:00:0{second}.5Z {text}\n");
            let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            let (one, two, three) = (line(1, "one"), line(2, "two"), line(3, "three"));
            if request.target().contains("sinceTime") {
                let text = format!("{head}{}", chunk(&format!("{two}{three}")));
                return vec![Step::Send(text.into_bytes()), Step::Hang];
            }
            vec![
                Step::Send(format!("{head}{}", chunk(&format!("{one}{two}{}", &three[..25]))).into_bytes()),
                Step::Close,
            ]
        })
    })?;
    let mut logs = two.plugin()?.start(&["logs", "-f", "talker", "-C", "many-drops,m2"])?;
    logs.wait_for("three", SOON)?;
    assert_eq!(logs.stdout(), "many-drops | one\nmany-drops | two\nmany-drops | three\n");
    let again = fake.wait_for("sinceTime", |_| true)?;
    assert!(again.target().contains("sinceTime=2026-01-01T00%3A00%3A02.5Z"), "{}", again.target());
    logs.wait_until("the drop is told of", SOON, |_, told| {
        String::from_utf8_lossy(told).contains("many-drops | - pod/talker/main: lost: ")
            && String::from_utf8_lossy(told).contains("many-drops | - pod/talker/main: the log continues")
    })
}

#[test]
fn compare_shows_differences_but_no_secret_values() -> Result<()> {
    let two = Two::new("many-compare")?;
    let plugin = two.plugin()?;
    for (scene, colour, password) in
        [(&two.first, "green", "c2VjcmV0LW9uZQ=="), (&two.second, "blue", "c2VjcmV0LXR3bw==")]
    {
        let path = |kind: &str, name: &str| format!("/api/v1/namespaces/{}/{kind}/{name}", scene.name);
        let both = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "both"},
            "data": {"colour": colour, "shape": "round"},
        });
        scene.api.apply(&path("configmaps", "both"), &both)?;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hidden"}, "data": {"password": password, "same": "YQ=="},
        });
        scene.api.apply(&path("secrets", "hidden"), &secret)?;
    }
    let namespace = &two.first.name;
    let differs = plugin.run(&["compare", "get", "cm/both", "secret/hidden", "-C", "m1,m2"])?;
    assert_eq!((differs.code, differs.stderr.as_str()), (1, ""), "{differs:?}");
    assert_eq!(
        differs.text(),
        format!(
            "ConfigMap {namespace}/both\n@@ .data.colour @@\n--- m1\n+++ m2\n- green\n+ blue\n\n\
             Secret {namespace}/hidden\n@@ .data.password @@\n--- m1\n+++ m2\n- (value 1)\n+ (value 2)\n"
        )
    );
    let missing = plugin.run(&["compare", "cm", "a", "-C", "m1,m2"])?;
    assert_eq!(missing.code, 1, "{missing:?}");
    let expected = format!("ConfigMap {namespace}/a\n@@ (object) @@\n--- m1\n+++ m2\n- there\n+ missing\n");
    assert_eq!(missing.text(), expected);
    let same = plugin.run(&["compare", "svc/web", "-C", "m1,m2"])?;
    assert_eq!((same.code, same.text().as_str(), same.stderr.as_str()), (0, "", ""), "{same:?}");
    plugin.run(&["compare", "get", "pods", "-w", "-C", "m1,m2"])?.failure(&["compare"])?;
    Ok(())
}

/// Whether the fake member of the test above was listed before.
static LISTED: AtomicBool = AtomicBool::new(false);

/// A namespace of the same name on two members, and a user with all rights in both.
struct Two {
    first: Scene,
    second: Scene,
    caller: Caller,
}

impl Two {
    fn new(name: &str) -> Result<Self> {
        let (first, second) = (Scene::on("m1", name)?, Scene::on("m2", name)?);
        let caller = Caller::certificate(&format!("e2e-{name}-user"), &[])?;
        first.let_in(&caller, &[], EVERY_VERB)?;
        first.let_list(&caller)?;
        first.allow(&caller)?;
        second.allow(&caller)?;
        let two = Self { first, second, caller };
        two.config_map(&two.first, "a", 1)?;
        two.config_map(&two.first, "a-long-name", 1)?;
        two.config_map(&two.second, "c", 2)?;
        for scene in [&two.first, &two.second] {
            let service = json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "labels": {"app": "x"}},
                "spec": {"ports": [{"port": 80}]},
            });
            scene.api.apply(&format!("/api/v1/namespaces/{}/services/web", scene.name), &service)?;
        }
        Ok(two)
    }

    fn plugin(&self) -> Result<Tool> {
        Ok(plugin(&self.caller)?.with(&["--namespace", &self.first.name]))
    }

    fn config_map(&self, scene: &Scene, name: &str, keys: usize) -> Result<()> {
        let data: serde_json::Map<_, _> = (0..keys).map(|key| (format!("k{key}"), json!("v"))).collect();
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"app": "x"}}, "data": data,
        });
        scene.api.apply(&format!("/api/v1/namespaces/{}/configmaps/{name}", scene.name), &object)?;
        Ok(())
    }
}

/// Replaces the last column that looks like an age, and the spaces around it.
fn ages_away(table: &str) -> String {
    let lines = table.lines().map(|line| {
        let words: Vec<_> = line.split(' ').collect();
        let is_age =
            |word: &&str| word.ends_with(['s', 'm', 'h']) && word.starts_with(|c: char| c.is_ascii_digit());
        let Some(at) = words.iter().rposition(is_age) else { return format!("{line}\n") };
        let before = words[..at].join(" ");
        let after = words[at + 1..].join(" ");
        let after = after.trim_start();
        if after.is_empty() { format!("{before} AGE\n") } else { format!("{before} AGE   {after}\n") }
    });
    lines.collect()
}

fn table(columns: &[&str], rows: &[(&str, &str)], version: &str) -> String {
    let definitions: Vec<_> =
        columns.iter().map(|name| json!({"name": name, "type": "string", "priority": 0})).collect();
    let rows: Vec<_> = rows
        .iter()
        .map(|(name, version)| {
            let cells: Vec<_> = columns
                .iter()
                .map(|column| if *column == "Name" { (*name).to_owned() } else { format!("{name}-cell") })
                .collect();
            json!({"cells": cells, "object": {"metadata": {"name": name, "resourceVersion": version}}})
        })
        .collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": version},
        "columnDefinitions": definitions, "rows": rows,
    })
    .to_string()
}

/// The pod `talker`, or `log` for a request for its log.
fn pod_or(request: &Request, log: impl Fn() -> Vec<Step>) -> Vec<Step> {
    if request.target().contains("/log") {
        return log();
    }
    answer(
        &json!({
            "kind": "Pod", "apiVersion": "v1", "metadata": {"name": "talker"}, "spec": {"containers": [{"name": "main"}]},
            "status": {"containerStatuses": [{"name": "main", "containerID": "x://1", "state": {"running": {}}}]},
        })
        .to_string(),
    )
}

fn answer(body: &str) -> Vec<Step> {
    reply("200 OK", "Content-Type: application/json\r\n", body)
}
