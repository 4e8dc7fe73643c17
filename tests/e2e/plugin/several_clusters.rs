//! One command runs on several clusters of a real Kubernetes, in a terminal and in scripts.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use harness::black_hole::BlackHole;
use harness::caller::Caller;
use harness::pty::Terminal;
use harness::registration::register;
use harness::scene::{EVERY_VERB, Scene};
use harness::tool::Tool;
use harness::wait::SOON;
use serde_json::{Value, json};

use crate::plugin;

/// A namespace of the same name on two members, and a user with all rights in both.
struct Pair {
    one: Scene,
    two: Scene,
    caller: Caller,
}

impl Pair {
    fn new(name: &str) -> Result<Self> {
        let caller = Caller::certificate(&format!("e2e-{name}-user"), &[])?;
        Self::of(name, caller)
    }

    fn of(name: &str, caller: Caller) -> Result<Self> {
        let (one, two) = (Scene::on("m1", name)?, Scene::on("m2", name)?);
        one.let_in(&caller, &["m1", "m2"], EVERY_VERB)?;
        one.allow(&caller)?;
        two.allow(&caller)?;
        Ok(Self { one, two, caller })
    }

    /// The plugin in the namespace, without a chosen cluster.
    fn plugin(&self) -> Result<Tool> {
        Ok(plugin(&self.caller)?.with(&["--namespace", &self.one.name]))
    }

    fn config_map(&self, name: &str) -> String {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": self.one.name}})
            .to_string()
    }

    /// Whether each member has the ConfigMap.
    fn have(&self, name: &str) -> [bool; 2] {
        let path = format!("/api/v1/namespaces/{}/configmaps/{name}", self.one.name);
        [&self.one, &self.two].map(|scene| scene.api.get(&path).is_ok())
    }
}

#[test]
fn change_reaches_every_cluster_and_is_read_as_one_list() -> Result<()> {
    let pair = Pair::new("several-apply")?;
    let plugin = pair.plugin()?;
    let words = ["--yes", "-C", "m1,m2", "apply", "-f", "-"];
    let applied = plugin.run_with_input(&words, pair.config_map("both").as_bytes())?.success()?;
    assert_eq!(applied, "m1 | configmap/both created\nm2 | configmap/both created\n");
    for format in ["json", "yaml"] {
        let text = plugin.ok(&["-C", "m1,m2", "get", "configmap", "both", "-o", format])?;
        let list: Value = if format == "json" { serde_json::from_str(&text)? } else { yaml(&text)? };
        ensure!(list["kind"] == "List" && list["apiVersion"] == "v1", "{text}");
        let clusters: Vec<_> = list["items"].as_array().context("no items")?.iter().map(cluster).collect();
        assert_eq!(clusters, ["m1", "m2"], "{text}");
    }
    Ok(())
}

/// kubectl reads YAML 1.1, in which more texts are numbers and booleans, and refuses a block that begins with a tab.
#[test]
fn yaml_of_several_clusters_is_read_by_kubectl_unchanged() -> Result<()> {
    let pair = Pair::new("several-yaml")?;
    let plugin = pair.plugin()?;
    #[rustfmt::skip]
    let texts = [
        "", "on", "y", "~", "0x1f", "1_000", "1e3", "12:30", "2026-11-21", "<<", "- x", "a: b", "a #b", "a\nb", "a\n\n",
        " a\nb\n", "\ta\nb\n", "\n\ta\n", "a\r\n", "\u{feff}a", "\u{2028}\n", "😀\n", "---\na\n",
    ];
    let texts = texts.iter().enumerate().map(|(at, text)| (format!("text-{at}"), (*text).to_owned()));
    let keys = ["on", "y", "null", "1e3", "0x1f", "1_000"].map(|key| (key.to_owned(), "a key".to_owned()));
    let data: BTreeMap<String, String> = texts.chain(keys).collect();
    let mut odd: Value = serde_json::from_str(&pair.config_map("odd"))?;
    odd["data"] = json!(data);
    plugin
        .run_with_input(&["--yes", "-C", "m1,m2", "apply", "-f", "-"], odd.to_string().as_bytes())?
        .success()?;
    let yaml = plugin.ok(&["-C", "m1,m2", "get", "configmap", "odd", "-o", "yaml"])?;
    let words = ["-C", "m1", "annotate", "--local", "-f", "-", "read=yes", "-o", "json"];
    let read = plugin.run_with_input(&words, yaml.as_bytes())?.success()?;
    let read: Vec<Value> = serde_json::Deserializer::from_str(&read).into_iter().collect::<Result<_, _>>()?;
    // kubectl prints the objects of a list one after another.
    let objects: Vec<_> = read.iter().map(|object| (cluster(object), &object["data"])).collect();
    assert_eq!(objects, [("m1", &json!(data)), ("m2", &json!(data))], "{yaml}");
    Ok(())
}

#[test]
fn custom_columns_of_several_clusters_are_one_table() -> Result<()> {
    let pair = Pair::new("several-table")?;
    for (scene, name) in [(&pair.one, "short"), (&pair.two, "with-a-longer-name")] {
        let path = format!("/api/v1/namespaces/{}/configmaps/{name}", scene.name);
        scene.api.apply(&path, &serde_json::from_str(&pair.config_map(name))?)?;
    }
    let words = ["-C", "m1,m2", "get", "configmaps", "-o", "custom-columns=NAME:.metadata.name,KIND:.kind"];
    let table = pair.plugin()?.ok(&words)?;
    let lines: Vec<_> = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
    assert_eq!(lines[0], ["CLUSTER", "NAME", "KIND"], "{table}");
    ensure!(lines.contains(&vec!["m1", "short", "ConfigMap"]), "{table}");
    ensure!(lines.contains(&vec!["m2", "with-a-longer-name", "ConfigMap"]), "{table}");
    let column = table.lines().next().and_then(|line| line.find("KIND")).context("no header")?;
    ensure!(
        table.lines().skip(1).all(|line| line[column..].starts_with("ConfigMap")),
        "not aligned: {table}"
    );
    Ok(())
}

#[test]
fn refusals_are_shown_and_counted_by_cluster() -> Result<()> {
    let pair = Pair::new("several-refused")?;
    // The caller may not enter m3. They may enter m2, but have rights only in this namespace.
    let words = ["-C", "m1,m2,m3", "describe", "configmap", "kube-root-ca.crt"];
    let attempt = pair.plugin()?.run(&words)?;
    assert_eq!(attempt.code, 4, "{attempt:?}");
    ensure!(attempt.text().contains("m2 | Name:"), "{attempt:?}");
    ensure!(attempt.stderr.contains("m3 | error: host authorization: "), "{attempt:?}");
    ensure!(
        attempt.stderr.ends_with("1 of 3 clusters failed: 1 forbidden by the host (m3)\n"),
        "{attempt:?}"
    );
    let attempt = pair.plugin()?.run(&["-C", "m1,m2", "describe", "node"])?;
    assert_eq!(attempt.code, 5, "{attempt:?}");
    let summary = "2 of 2 clusters failed: 2 forbidden (m1, m2)\n";
    ensure!(attempt.stderr.ends_with(summary), "{attempt:?}");
    Ok(())
}

#[test]
fn black_holed_member_costs_one_line_and_its_timeout() -> Result<()> {
    let pair = Pair::new("several-hole")?;
    let hole = BlackHole::start()?;
    register("e2e-several-hole", &json!({"server": format!("https://{}", hole.address), "token": "x"}))?;
    pair.one.let_in(&pair.caller, &["m1", "m2", "e2e-several-hole"], EVERY_VERB)?;
    let begin = Instant::now();
    let words = [
        "--cluster-timeout=15s",
        "-C",
        "m1,e2e-several-hole,m2",
        "describe",
        "configmap",
        "kube-root-ca.crt",
    ];
    let attempt = pair.plugin()?.run(&words)?;
    ensure!(begin.elapsed() < SOON + SOON / 2, "{:?}", begin.elapsed());
    assert_eq!(attempt.code, 4, "{attempt:?}");
    for member in ["m1", "m2"] {
        ensure!(attempt.text().contains(&format!("{member:16} | Name: ")), "{attempt:?}");
    }
    ensure!(attempt.stderr.contains("1 of 3 clusters failed: 1 "), "{attempt:?}");
    ensure!(attempt.stderr.contains("(e2e-several-hole)"), "{attempt:?}");
    Ok(())
}

#[test]
fn credential_plugin_logs_in_once_for_all_clusters() -> Result<()> {
    let name = "several-login";
    let robot = Caller::service_account(&format!("e2e-{name}"), "robot")?;
    let token = robot.token.clone().context("no token")?;
    let program = robot.folder().join("login");
    let answer = json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": token}});
    harness::script::write(&program, &format!("#!/bin/sh\necho run >> \"$RUNS\"\necho '{answer}'\n"))?;
    let robot = robot.edit(|config| {
        config["users"][0]["user"] = json!({"exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": "./login", "interactiveMode": "Never",
        }});
    })?;
    let pair = Pair::of(name, robot)?;
    let plugin = pair.plugin()?;
    let runs = plugin.home().join("runs");
    let plugin = plugin.env("RUNS", &runs);
    let said = plugin.ok(&["-C", "m1,m2", "describe", "configmap", "kube-root-ca.crt"])?;
    ensure!(said.contains("m1 | Name:") && said.contains("m2 | Name:"), "{said}");
    assert_eq!(std::fs::read_to_string(&runs)?, "run\n");
    Ok(())
}

#[test]
fn change_of_several_clusters_needs_confirmation() -> Result<()> {
    let pair = Pair::new("several-asked")?;
    let plugin = pair.plugin()?;
    let words = ["--yes", "-C", "m1,m2", "apply", "-f", "-"];
    plugin.run_with_input(&words, pair.config_map("asked").as_bytes())?.success()?;
    for (answer, code, left) in [("n\r", 1, [true; 2]), ("y\r", 0, [false; 2])] {
        let words = ["-C", "m1,m2", "delete", "configmap", "asked"];
        let mut terminal = Terminal::start(&plugin, &words, 24, 120)?;
        terminal.wait_for("This changes 2 clusters of host \"host\"", SOON)?;
        terminal.wait_for("kubectl --namespace e2e-several-asked delete configmap asked", SOON)?;
        terminal.wait_for("Do you want to continue? (y/N): ", SOON)?;
        assert_eq!(pair.have("asked"), [true; 2]);
        terminal.type_in(answer)?;
        assert_eq!(terminal.finish(SOON)?, code);
        assert_eq!(pair.have("asked"), left);
    }
    Ok(())
}

#[test]
fn command_without_a_cluster_prompts_for_clusters() -> Result<()> {
    let pair = Pair::new("several-picked")?;
    pair.one.let_list(&pair.caller)?;
    let words = ["describe", "configmap", "kube-root-ca.crt"];
    let mut terminal = Terminal::start(&pair.plugin()?, &words, 60, 120)?;
    terminal.wait_for("Clusters: ", SOON)?;
    terminal.type_in("m1 ")?;
    terminal.wait_for("1 marked", SOON)?;
    // Ctrl-U clears the text.
    terminal.type_in("\u{15}m2 ")?;
    terminal.wait_for("2 marked", SOON)?;
    terminal.type_in("\r")?;
    for line in ["m1\u{1b}[0m | Name:", "m2\u{1b}[0m | Name:"] {
        terminal.wait_for(line, SOON)?;
    }
    assert_eq!(terminal.finish(SOON)?, 0);
    Ok(())
}

#[test]
fn terminal_shows_the_pending_clusters() -> Result<()> {
    let pair = Pair::new("several-progress")?;
    let hole = BlackHole::start()?;
    register("e2e-several-wait", &json!({"server": format!("https://{}", hole.address), "token": "x"}))?;
    pair.one.let_in(&pair.caller, &["m1", "e2e-several-wait"], EVERY_VERB)?;
    let words = ["-C", "e2e-several-wait,m1", "describe", "configmap", "kube-root-ca.crt"];
    let mut terminal = Terminal::start(&pair.plugin()?, &words, 24, 120)?;
    terminal.wait_for("of 2 clusters, waiting for e2e-several-wait", SOON)?;
    assert_eq!(terminal.finish(SOON)?, 4);
    Ok(())
}

#[test]
fn labels_and_patterns_select_clusters() -> Result<()> {
    let caller = Caller::certificate("e2e-several-choose-user", &[])?;
    let scene = Scene::on("m2", "several-choose")?;
    scene.let_list(&caller)?;
    for (name, tier) in [("e2e-choose-a", "one"), ("e2e-choose-b", "two"), ("e2e-choose-c", "two")] {
        let path = format!("/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters/{name}");
        scene.host.apply(
            &path,
            &json!({
                "apiVersion": "fleet.kubectl-mc.dev/v1alpha1", "kind": "MemberCluster",
                "metadata": {"name": name, "labels": {"e2e-choose": tier}}, "spec": {},
            }),
        )?;
    }
    let plugin = plugin(&caller)?;
    harness::wait::eventually("all are listed", SOON, || {
        let names = plugin.ok(&["clusters", "-o", "name", "-l", "e2e-choose"])?;
        Ok((names.lines().count() == 3).then_some(()))
    })?;
    for (choice, expected) in [
        (&["--cluster-selector=e2e-choose in (two)"][..], "e2e-choose-b e2e-choose-c"),
        (&["--cluster=e2e-choose-*", "--exclude=*-b"], "e2e-choose-a e2e-choose-c"),
        (&["--cluster=/^e2e-choose-[ab]$/", "--cluster-selector=e2e-choose!=one"], "e2e-choose-b"),
    ] {
        let table = plugin.ok(&[choice, &["--dry-run=clusters", "get", "pods"]].concat())?;
        let names: Vec<_> = table.lines().skip(1).filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(names.join(" "), expected, "{table}");
    }
    let attempt = plugin.run(&["--cluster-selector=e2e-choose=(", "get", "pods"])?;
    assert_eq!(attempt.code, 2, "{attempt:?}");
    attempt.failure(&["cannot list clusters", "unable to parse requirement"])?;
    Ok(())
}

fn cluster(item: &Value) -> &str {
    item["metadata"]["annotations"]["fleet.kubectl-mc.dev/cluster"].as_str().unwrap_or_default()
}

fn yaml(text: &str) -> Result<Value> {
    Ok(serde_saphyr::from_str(text)?)
}
