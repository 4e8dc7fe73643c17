//! Commands use the contexts of a kubeconfig instead of members: real clusters, without the host
//! and its sidecar.

use std::time::Instant;

use anyhow::{Result, ensure};
use harness::bed::member;
use harness::black_hole::BlackHole;
use harness::pty::Terminal;
use harness::scene::Scene;
use harness::tool::Tool;
use harness::wait::SOON;
use serde_json::{Value, json};

/// A namespace of the same name on three clusters, and their administrator.
struct Place {
    scenes: Vec<Scene>,
    plugin: Tool,
}

const CLUSTERS: [&str; 3] = ["m1", "m2", "m3"];

impl Place {
    fn new(name: &str) -> Result<Self> {
        let scenes = CLUSTERS.iter().map(|cluster| Scene::on(cluster, name)).collect::<Result<_>>()?;
        let clusters = CLUSTERS.iter().map(|cluster| member(cluster)).collect::<Result<Vec<_>>>()?;
        let plugin = Tool::plugin_at(env!("CARGO_BIN_EXE_kubectl-mc").as_ref(), &clusters)?;
        Ok(Self { scenes, plugin: plugin.with(&["--contexts", "--namespace", &format!("e2e-{name}")]) })
    }

    fn config_map(&self, data: &str) -> String {
        let namespace = &self.scenes[0].name;
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": namespace},
            "data": {"key": data},
        })
        .to_string()
    }
}

#[test]
fn contexts_are_read_and_changed_like_members() -> Result<()> {
    let place = Place::new("contexts-all")?;
    let plugin = &place.plugin;
    let words = ["--yes", "-C", "*", "--batch=1,rest", "apply", "-f", "-"];
    let applied = plugin.run_with_input(&words, place.config_map("same").as_bytes())?.success()?;
    assert_eq!(applied, "m1 | configmap/c created\nm2 | configmap/c created\nm3 | configmap/c created\n");
    let list: Value =
        serde_json::from_str(&plugin.ok(&["-C", "m?", "get", "configmap", "c", "-o", "json"])?)?;
    let clusters: Vec<_> = list["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|item| item["metadata"]["annotations"]["fleet.kubectl-mc.dev/cluster"].as_str())
        .collect();
    assert_eq!(clusters, CLUSTERS);
    let table = plugin.ok(&["--all-clusters", "get", "configmap", "c"])?;
    let rows: Vec<_> =
        table.lines().map(|line| line.split_whitespace().take(2).collect::<Vec<_>>()).collect();
    assert_eq!(rows, [["CLUSTER", "NAME"], ["m1", "c"], ["m2", "c"], ["m3", "c"]]);

    let other = place.config_map("other");
    plugin.run_with_input(&["--yes", "-C", "m3", "apply", "-f", "-"], other.as_bytes())?.success()?;
    let compared = plugin.run(&["compare", "get", "configmap", "c", "-C", "/^m/"])?;
    ensure!(compared.code == 1 && compared.text().contains("other"), "{compared:?}");
    let server =
        plugin.ok(&["--context-selector", &format!("server={}*", member("m2")?.server), "cluster-info"])?;
    ensure!(server.starts_with("m2 | ") && server.contains(&member("m2")?.server), "{server}");
    Ok(())
}

#[test]
fn streams_of_contexts_run_together() -> Result<()> {
    let place = Place::new("contexts-stream")?;
    let plugin = &place.plugin;
    for scene in &place.scenes[..2] {
        scene.pod("web", "echo began; sleep 1000000")?;
    }
    let mut watch = plugin.start(&["get", "configmaps", "--watch", "-C", "m1,m2,m3"])?;
    watch.wait_until("the lists of all", SOON, |out, _| {
        CLUSTERS
            .iter()
            .all(|name| String::from_utf8_lossy(out).contains(&format!("{name}        kube-root-ca.crt")))
    })?;
    for scene in &place.scenes {
        let path = format!("/api/v1/namespaces/{}/configmaps/c", scene.name);
        scene.api.apply(&path, &serde_json::from_str(&place.config_map("x"))?)?;
    }
    watch.wait_until("the change of all", SOON, |out, _| {
        CLUSTERS.iter().all(|name| String::from_utf8_lossy(out).contains(&format!("{name}        c ")))
    })?;
    let mut tail = plugin.start(&["tail", "^web", "-f", "-C", "m*"])?;
    for line in ["m1 web main | began\n", "m2 web main | began\n"] {
        tail.wait_for(line, SOON)?;
    }
    let logs = plugin.ok(&["logs", "web", "-C", "m1,m2"])?;
    assert_eq!(logs, "m1 | began\nm2 | began\n");
    let said = plugin.ok(&["--yes", "exec", "-C", "m1,m2", "web", "--", "echo", "there"])?;
    assert_eq!(said, "m1 | there\nm2 | there\n");
    let mut terminal = Terminal::start(plugin, &["exec", "-it", "-C", "m2", "web", "--", "sh"], 24, 80)?;
    terminal.type_in("test -t 0 && echo a ter''minal; exit 7\n")?;
    terminal.wait_for("a terminal", SOON)?;
    assert_eq!(terminal.finish(SOON)?, 7);
    Ok(())
}

#[test]
fn silent_contexts_cost_one_line_each_and_the_timeout() -> Result<()> {
    let place = Place::new("contexts-hole")?;
    let hole = BlackHole::start()?;
    let gone: Vec<_> = (0..197).map(|at| format!("gone-{at:03}")).collect();
    let dead = json!({
        "apiVersion": "v1", "kind": "Config",
        "clusters": [{"name": "gone", "cluster": {"server": format!("https://{}", hole.address)}}],
        "contexts": gone.iter().map(|name| json!({"name": name, "context": {"cluster": "gone"}})).collect::<Vec<_>>(),
    });
    let file = place.plugin.home().join("gone");
    std::fs::write(&file, dead.to_string())?;
    let clusters = CLUSTERS.iter().map(|cluster| member(cluster)).collect::<Result<Vec<_>>>()?;
    let files = clusters.iter().map(|cluster| cluster.kubeconfig.clone()).chain([file]);
    let plugin = place.plugin.env("KUBECONFIG", std::env::join_paths(files)?);
    let begin = Instant::now();
    // Long enough for the three contexts that answer, even on a busy machine.
    let timeout = SOON / 2;
    let flag = format!("--cluster-timeout={}s", timeout.as_secs());
    let words = ["--all-clusters", &flag, "--cluster-concurrency=200", "get", "configmaps"];
    let output = plugin.run(&words)?;
    // One after the other, they would take 49 minutes.
    ensure!(begin.elapsed() < timeout + 4 * SOON, "{:?}", begin.elapsed());
    assert_eq!(output.code, 4, "{output:?}");
    for name in CLUSTERS {
        ensure!(output.text().contains(&format!("\n{name}        kube-root-ca.crt ")), "{output:?}");
    }
    ensure!(output.stderr.contains("197 of 200 clusters failed: "), "{output:?}");
    Ok(())
}
