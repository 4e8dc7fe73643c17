//! Completion through kubectl and the shells offers first the clusters that the caller may enter,
//! and then the member's objects.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::bed::bed;
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Step};
use harness::hostile::shells::Shell;
use harness::pty::Terminal;
use harness::scene::{EVERY_VERB, Scene, grant};
use harness::tool::Tool;
use harness::wait::{SOON, eventually};
use serde_json::json;

#[test]
fn kubectl_completes_clusters_then_the_members_objects() -> Result<()> {
    let place = Place::new("complete-objects", &["m1"])?;
    let namespace = &*place.scene.name;
    for (words, expected) in [
        (&["-C", ""][..], "m1 :4"),
        (&["use", ""], "m1 :4"),
        (&["-C", "m1", "-n", "e2e-complete-obj"], "e2e-complete-objects :4"),
        (&["-C", "m1", "get", "pods", "-n", namespace, ""], "completed :4"),
        (&["-C", "m1", "exec", "-n", namespace, "completed", "-c", ""], "first second :4"),
        (&["-C", "m1", "logs", "-n", namespace, "completed", ""], "first second :4"),
        (&["tail", "-C", "m*", "-n", namespace, "comp"], "completed :4"),
        (&["-C", "m1", "get", "configm"], "configmaps :4"),
    ] {
        place.answers(words, expected)?;
    }
    Ok(())
}

#[test]
fn silent_member_ends_the_completion_in_time() -> Result<()> {
    let place = Place::new("completion-hangs", &["m1", "completion-hangs"])?;
    let fake = FakeMember::start("completion-hangs", |_| vec![Step::Hang])?;
    let kubectl = place.kubectl()?.without("KUBECTL_MC_COMPLETION_TIMEOUT");
    let begun = Instant::now();
    let answer = kubectl.ok(&["__complete", "mc", "-C", "completion-hangs", "get", "pods", ""])?;
    let took = begun.elapsed();
    ensure!(answer == ":4\n" && took < Duration::from_secs(20), "{answer:?} after {took:?}");
    drop(fake);
    Ok(())
}

#[test]
fn bash_zsh_and_fish_complete_the_plugin() -> Result<()> {
    let place = Place::new("completion-shells", &["m1"])?;
    let namespace = &place.scene.name;
    let line = format!("kubectl mc -C m1 get pods -n {namespace} ");
    // This caches the names and the types, so that a shell does not wait for them.
    place.answers(&["-C", ""], "m1 :4")?;
    place.answers(&["-C", "m1", "get", "pods", "-n", namespace, ""], "completed :4")?;

    for shell in [Shell::Bash, Shell::Zsh] {
        place.types(shell, &line)?;
    }

    let fish = |line: &str| {
        let script = format!("kubectl completion fish | source; complete -C '{line}'");
        place.tool("fish")?.ok(&["--no-config", "-c", &script])
    };
    let clusters = fish("kubectl mc -C ")?;
    ensure!(clusters.lines().count() == 1 && clusters.starts_with("m1\t"), "{clusters}");
    assert_eq!(fish(&line)?.trim(), "completed");
    Ok(())
}

/// A member with a pod, a caller who may enter these clusters, and the plugin in `PATH`.
struct Place {
    scene: Scene,
    caller: Caller,
    tools: tempfile::TempDir,
}

impl Place {
    fn new(name: &str, clusters: &[&str]) -> Result<Self> {
        let scene = Scene::new(name)?;
        let caller = Caller::certificate(&format!("e2e-{name}"), &[])?;
        scene.let_in(&caller, clusters, EVERY_VERB)?;
        scene.allow(&caller)?;
        let rule = json!({"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list"]});
        let attributes = json!({"resource": "namespaces", "verb": "list"});
        grant(&scene.api, &format!("{}-namespaces", scene.name), &caller, &rule, &attributes)?;
        let container = |name| json!({"name": name, "image": "none"});
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "completed"},
            "spec": {"containers": [container("first"), container("second")], "schedulingGates": [{"name": "e2e/never"}]},
        });
        // The pod needs the service account of the namespace.
        let path = format!("/api/v1/namespaces/{}/pods/completed", scene.name);
        eventually("the pod is there", SOON, || Ok(scene.api.apply(&path, &pod).ok()))?;
        let tools = tempfile::tempdir()?;
        for name in ["kubectl-mc", "kubectl_complete-mc"] {
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kubectl-mc"), tools.path().join(name))?;
        }
        Ok(Self { scene, caller, tools })
    }

    /// A program with the plugin and kubectl in its `PATH`, and a timeout for a busy machine.
    fn tool(&self, program: &str) -> Result<Tool> {
        let path = [self.tools.path(), &bed()?.bin, Path::new("/usr/bin"), Path::new("/bin")];
        let tool = Tool::client(program.into(), &self.caller)?;
        Ok(tool
            .env("PATH", std::env::join_paths(path)?)
            .env("ZDOTDIR", self.tools.path())
            .env("XDG_CACHE_HOME", self.tools.path().join("cache"))
            .env("KUBECACHEDIR", self.tools.path().join("kube"))
            .env("KUBECTL_MC_COMPLETION_TIMEOUT", "30s"))
    }

    fn kubectl(&self) -> Result<Tool> {
        self.tool(bed()?.bin.join("kubectl").to_str().context("no text")?)
    }

    /// Waits until kubectl completes the words to `expected`.
    fn answers(&self, words: &[&str], expected: &str) -> Result<()> {
        let kubectl = self.kubectl()?;
        let words = [&["__complete", "mc"], words].concat();
        let mut last = String::new();
        let answered = eventually("completed", SOON, || {
            let said = kubectl.ok(&words)?;
            last = said.lines().filter_map(|line| line.split('\t').next()).collect::<Vec<_>>().join(" ");
            Ok((last == expected).then_some(()))
        });
        answered.with_context(|| format!("{words:?}: {last}"))
    }

    /// Types the cluster and then the pod into a shell.
    fn types(&self, shell: Shell, line: &str) -> Result<()> {
        let arguments = shell.interactive(self.tools.path())?;
        let mut terminal = Terminal::start(&self.tool(shell.program())?, &arguments, 40, 120)?;
        let shows = |terminal: &mut Terminal, text: &str| {
            terminal.wait_until(text, SOON, |terminal| terminal.screen().contains(text))
        };
        shows(&mut terminal, "ready\n$")?;
        terminal.type_in("kubectl mc -C \t")?;
        shows(&mut terminal, "kubectl mc -C m1")?;
        terminal.type_in(&format!("\x15{line}com\t"))?;
        shows(&mut terminal, &format!("{line}completed"))
    }
}
