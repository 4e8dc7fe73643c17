//! `kubectl mc tail` prints the logs of all matching pods, including pods that start later.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Gate, Request, Step, reply};
use harness::scene::{EVERY_VERB, Scene};
use harness::tool::{Running, Tool};
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};

use crate::plugin;

#[test]
fn tail_shows_every_container_of_matching_pods() -> Result<()> {
    let place = Place::new("tail-all")?;
    let container = |name: &str| {
        json!({
            "name": name, "image": "testbed.local/busybox:1", "imagePullPolicy": "Never",
            "command": ["sh", "-c", format!("echo {name} began; echo {name} done")],
        })
    };
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "job-1"},
        "spec": {
            "initContainers": [container("prepare")], "containers": [container("first"), container("second")],
            "restartPolicy": "Never", "automountServiceAccountToken": false,
        },
    });
    place.scene.api.apply(&place.path("job-1"), &pod)?;
    place.scene.pod("other", "echo silent")?;
    eventually("the pod has ended", SOON, || {
        let pod: Value = place.scene.api.get(&place.path("job-1"))?;
        ensure!(pod["status"]["phase"] == "Succeeded", "{}", pod["status"]);
        Ok(Some(()))
    })?;
    let tool = place.plugin()?;
    let shown = |more: &[&str]| -> Result<Vec<String>> {
        let mut lines: Vec<_> =
            tool.ok(&[&["tail", "^job-"], more].concat())?.lines().map(str::to_owned).collect();
        lines.sort();
        Ok(lines)
    };
    assert_eq!(
        shown(&["-C", "m1", "-e", "began"])?,
        ["job-1 first | first done", "job-1 prepare | prepare done", "job-1 second | second done"]
    );
    assert_eq!(shown(&["-C", "m[1]", "-c", "f", "--tail=1"])?, ["m1 job-1 first | first done"]);
    let lines = shown(&["-C", "m1,m2", "-c", "first", "-i", "began", "-o", "json"])?;
    let line: Value = serde_json::from_str(lines.first().context("no line")?)?;
    let field = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
    assert_eq!(
        [field("cluster"), field("namespace"), field("pod"), field("container"), field("message")],
        ["m1", &place.scene.name, "job-1", "first", "first began"].map(str::to_owned)
    );
    assert!(field("time").starts_with("20") && !field("node").is_empty(), "{line}");
    Ok(())
}

#[test]
fn followed_tail_includes_new_pods_and_new_runs() -> Result<()> {
    let place = Place::new("tail-new")?;
    place.scene.pod("web-1", "echo old; sleep 1000000")?;
    let template = "--template={cluster} {pod} {container}: {message}";
    let mut tail = place.plugin()?.start(&["tail", "^web-", "-f", "-C", "m1", template])?;
    tail.wait_for("m1 web-1 main: old\n", SOON)?;
    place.scene.pod("web-2", "echo new; sleep 1000000")?;
    tail.wait_for("m1 web-2 main: new\n", SOON)?;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-3"},
        "spec": {
            "containers": [{
                "name": "main", "image": "testbed.local/busybox:1", "imagePullPolicy": "Never",
                "command": ["sh", "-c", "echo begins $(date +%s); sleep 1; echo ends $(date +%s)"],
            }],
            "restartPolicy": "Always", "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 0,
        },
    });
    place.scene.api.apply(&place.path("web-3"), &pod)?;
    // The second run starts at once, the third one some seconds later.
    tail.wait_until("three runs", Duration::from_secs(120), |said, _| {
        String::from_utf8_lossy(said).matches("web-3 main: ends").count() >= 3
    })?;
    let said = tail.stdout();
    let lines: Vec<_> = said.lines().filter(|line| line.contains("web-3")).collect();
    assert_eq!(lines.iter().collect::<HashSet<_>>().len(), lines.len(), "a line came twice: {lines:#?}");
    for (at, line) in lines.iter().enumerate() {
        assert!(line.contains(["begins", "ends"][at % 2]), "a line is missing: {lines:#?}");
    }
    Ok(())
}

#[test]
fn pod_that_floods_does_not_silence_other_clusters() -> Result<()> {
    let place = Place::new("tail-flood")?;
    // The pod has to end by itself, because other tests need the processor. `timeout` ends it only as a child
    // process, not as the first process of a container.
    place.scene.pod("flood", "timeout 30 sh -c 'while :; do echo the same again and again; done'; true")?;
    let fake = FakeMember::start("tail-flood", |request| {
        Pods(&["quiet"])
            .answer(request, |_| vec![line(1, "one"), Step::Pause(SHORT), line(2, "two"), Step::Hang])
    })?;
    let mut tail = place.plugin()?.start(&["tail", ".", "-f", "-C", "m1,tail-flood", "--color=never"])?;
    tail.wait_for("tail-flood quiet main | two\n", SOON)?;
    ensure!(tail.stdout().contains("m1         flood main | the same again and again\n"), "no flood");
    drop(fake);
    Ok(())
}

#[test]
fn member_outage_during_a_tail_loses_no_line() -> Result<()> {
    let place = Place::new("tail-dies")?;
    let fake = FakeMember::start("tail-dies", |request| {
        Pods(&["talker"]).answer(request, |target| match target.contains("sinceTime") {
            // Kubernetes returns lines with the same time again.
            true => vec![line(2, "two"), line(3, "three"), Step::Hang],
            false => vec![line(1, "one"), line(2, "two"), Step::Close],
        })
    })?;
    place.scene.pod("talker", "while :; do date +%s; sleep 1; done")?;
    let mut tail = place.plugin()?.start(&["tail", "talker", "-f", "-C", "m1,tail-dies"])?;
    tail.wait_for("tail-dies talker main | two\n", SOON)?;
    fake.shut(true);
    tail.wait_until("the loss is told", SOON, |_, told| {
        String::from_utf8_lossy(told).contains("tail-dies | - talker/main: lost: ")
    })?;
    // The other cluster continues in the meantime.
    let of_m1 = |said: &[u8]| String::from_utf8_lossy(said).matches("m1        talker").count();
    let before = of_m1(tail.stdout().as_bytes());
    tail.wait_until("lines of m1", SOON, |said, _| of_m1(said) > before + 1)?;
    fake.shut(false);
    tail.wait_for("tail-dies talker main | three\n", Duration::from_secs(120))?;
    assert_eq!(of_fake(&tail), ["one", "two", "three"]);
    Ok(())
}

fn of_fake(tail: &Running) -> Vec<String> {
    let said = tail.stdout();
    said.lines().filter_map(|line| line.strip_prefix("tail-dies talker main | ")).map(str::to_owned).collect()
}

#[test]
fn followed_tail_includes_a_cluster_that_joins() -> Result<()> {
    let place = Place::new("tail-joins")?;
    let answer = |request: &Request| Pods(&["web"]).answer(request, |_| vec![line(1, "here"), Step::Hang]);
    let _first = FakeMember::start("tail-joins-1", answer)?;
    let mut tail = place.plugin()?.start(&["tail", "web", "-f", "-C", "tail-joins-*"])?;
    tail.wait_for("tail-joins-1 web main | here\n", SOON)?;
    let _second = FakeMember::start("tail-joins-2", answer)?;
    tail.wait_for("tail-joins-2 web main | here\n", SOON)?;
    tail.wait_until("it is told", SOON, |_, told| {
        String::from_utf8_lossy(told).contains("tail-joins-2 | ready, followed from now on\n")
    })
}

const SHORT: Duration = Duration::from_millis(300);

/// A chunk of an answer with one line of a log.
fn line(second: u32, text: &str) -> Step {
    let line = format!("2026-01-01T00:00:0{second}.5Z {text}\n");
    Step::Send(format!("{:x}\r\n{line}\r\n", line.len()).into_bytes())
}

/// The pods of a fake member.
struct Pods(&'static [&'static str]);

impl Pods {
    fn answer(&self, request: &Request, log: impl Fn(&str) -> Vec<Step>) -> Vec<Step> {
        let target = request.target();
        let head = || Step::Send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec());
        if target.contains("/log?") {
            return [vec![head()], log(target)].concat();
        }
        if target.contains("watch=true") {
            return vec![head(), Step::Wait(Gate::closed())];
        }
        let pod = |name: &&str| {
            json!({
                "metadata": {"name": name, "namespace": "any", "uid": name},
                "spec": {"containers": [{"name": "main"}]},
                "status": {"containerStatuses": [
                    {"name": "main", "containerID": "x://1", "state": {"running": {}}}]},
            })
        };
        let pods: Vec<_> = self.0.iter().map(pod).collect();
        let list = match target.split_once("/pods/").is_some() {
            true => pods.first().cloned().unwrap_or_default(),
            false => json!({"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": pods}),
        };
        reply("200 OK", "Content-Type: application/json\r\n", &list.to_string())
    }
}

/// A namespace of m1, and a caller with all rights in it who may enter every cluster.
struct Place {
    scene: Scene,
    caller: Caller,
}

impl Place {
    fn new(name: &str) -> Result<Self> {
        let (scene, second) = (Scene::on("m1", name)?, Scene::on("m2", name)?);
        let caller = Caller::certificate(&format!("e2e-{name}-user"), &[])?;
        scene.let_in(&caller, &[], EVERY_VERB)?;
        scene.let_list(&caller)?;
        scene.allow(&caller)?;
        second.allow(&caller)?;
        Ok(Self { scene, caller })
    }

    fn plugin(&self) -> Result<Tool> {
        Ok(plugin(&self.caller)?.with(&["--namespace", &self.scene.name]))
    }

    fn path(&self, pod: &str) -> String {
        format!("/api/v1/namespaces/{}/pods/{pod}", self.scene.name)
    }
}
