//! Requests through the host's Service while the leader's pod is deleted, deleted without a grace period, or
//! killed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use harness::api::Api;
use harness::bed::{SYSTEM, spare};
use harness::caller::Caller;
use harness::http1::{Endpoint, member_path};
use harness::leftovers::Clean;
use harness::tool::Tool;
use harness::wait::{SOON, eventually};
use rustix::process::{Pid, Signal, kill_process};

use crate::faults::quiet::leadership::{Followed, Term};
use crate::install::pods::in_pods::{Scene, program};
use crate::scale::serial::soak::say;

/// Duration of the controllers' Lease in this test.
const LEASE: Duration = Duration::from_secs(6);

#[test]
fn leader_deletion_loses_no_request() -> Result<()> {
    let hub = Hub::with_two_replicas()?;
    let (followed, seen) = hub.under_load(|leader| hub.delete(leader, ""))?;
    seen.tell("deleted", &followed);
    ensure!(seen.failed.is_empty() && seen.answered > 0, "{:?}", seen.failed);

    let (followed, seen) = hub.under_load(|leader| hub.delete(leader, "?gracePeriodSeconds=0"))?;
    seen.tell("deleted with no time to end", &followed);
    seen.is_over_soon()?;

    let (followed, seen) = hub.under_load(kill)?;
    seen.tell("killed", &followed);
    followed.is_just_over(LEASE)?;
    seen.is_over_soon()
}

/// A host with two sidecars in pods, and a member.
struct Hub {
    // This is dropped before the scene, whose lock on the host covers both.
    _member: Clean,
    _scene: Scene,
    api: Api,
    endpoint: Endpoint,
    plugin: Tool,
}

/// Results of clients that send requests without a pause.
struct Seen {
    answered: usize,
    /// Each failed answer, and the time between the leader's end and the start of its request.
    failed: Vec<(Duration, String)>,
}

impl Hub {
    fn with_two_replicas() -> Result<Self> {
        let scene = Scene::take()?;
        let member = Clean::take(spare("s2")?)?;
        let flags = [
            "--sidecar-flag=--leader-elect-lease-duration=6s",
            "--sidecar-flag=--leader-elect-renew-deadline=4s",
            "--sidecar-flag=--leader-elect-retry-period=500ms",
        ];
        scene.install(&flags)?.success()?;
        let plugin = Tool::plugin_at(program(), &[scene.host.cluster, member.cluster])?;
        plugin.ok(&["join", MEMBER, "--member-context=s2"])?;
        let admin = Caller::certificate_at(scene.host.cluster, "e2e-killed", &["system:masters"])?;
        let endpoint = Endpoint::cluster(scene.host.cluster, admin.certificate.as_deref())?;
        Ok(Self { _member: member, api: scene.api()?, _scene: scene, endpoint, plugin })
    }

    /// Ends the leader's pod while clients send requests, until another replica leads.
    fn under_load(&self, end: impl FnOnce(&str) -> Result<()> + Send) -> Result<(Followed, Seen)> {
        eventually("both replicas are ready", SOON, || {
            let path = format!("/apis/apps/v1/namespaces/{SYSTEM}/deployments/mc-sidecar");
            ensure!(self.api.get(&path)?["status"]["readyReplicas"] == 2, "they are not");
            Ok(Some(()))
        })?;
        // A caller's first request waits until the leader has granted its impersonation at the member.
        eventually("the callers are let in", SOON, || {
            let answer = self.endpoint.exchange(request().as_bytes())?;
            ensure!(answer.status() == 200, "{}: {}", answer.status(), answer.text());
            self.plugin.ok(&GET).map(Some)
        })?;
        let before = Term::now(&self.api, SYSTEM)?;
        let holder = before.holder.clone();
        let (pod, _) = holder.rsplit_once('_').context("no pod's name")?;
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let asking = (0..CLIENTS).map(|_| scope.spawn(|| self.ask(&stop))).collect::<Vec<_>>();
            let kubectl = scope.spawn(|| self.get(&stop));
            let began = Instant::now();
            let ending = scope.spawn(|| end(pod));
            let followed = Followed::after(before, &self.api, SYSTEM, || Ok(()));
            let ended = ending.join();
            // Late failures count as well.
            thread::park_timeout(AFTERWARDS);
            stop.store(true, Ordering::Relaxed);
            let mut seen = Seen { answered: 0, failed: Vec::new() };
            for asked in asking.into_iter().chain([kubectl]) {
                let (answered, failed) = asked.join().map_err(|_| anyhow!("it panicked"))??;
                seen.answered += answered;
                let failed = failed.into_iter();
                seen.failed.extend(failed.map(|(at, what)| (at.saturating_duration_since(began), what)));
            }
            ended.map_err(|_| anyhow!("it panicked"))??;
            Ok((followed?, seen))
        })
    }

    /// Requests one object repeatedly, each time on a new connection to the host.
    fn ask(&self, stop: &AtomicBool) -> Result<(usize, Vec<(Instant, String)>)> {
        let request = request();
        let (mut answered, mut failed) = (0, Vec::new());
        while !stop.load(Ordering::Relaxed) {
            let at = Instant::now();
            match self.endpoint.exchange(request.as_bytes()) {
                Ok(answer) if answer.status() == 200 => answered += 1,
                Ok(answer) => failed.push((at, format!("{}: {}", answer.status(), answer.text().trim()))),
                Err(error) => failed.push((at, format!("{error:#}"))),
            }
        }
        Ok((answered, failed))
    }

    /// The same with kubectl.
    fn get(&self, stop: &AtomicBool) -> Result<(usize, Vec<(Instant, String)>)> {
        let (mut answered, mut failed) = (0, Vec::new());
        while !stop.load(Ordering::Relaxed) {
            let at = Instant::now();
            let output = self.plugin.run(&GET)?;
            match output.code {
                0 => answered += 1,
                _ => failed.push((at, format!("kubectl: {}", output.stderr.trim()))),
            }
        }
        Ok((answered, failed))
    }

    fn delete(&self, pod: &str, how: &str) -> Result<()> {
        let path = format!("/api/v1/namespaces/{SYSTEM}/pods/{pod}");
        self.api.delete(&format!("{path}{how}"))?;
        eventually("the pod is gone", 2 * SOON, || {
            Ok((self.api.request("GET", &path, "", "")?.status() == 404).then_some(()))
        })
    }
}

impl Seen {
    /// Checks that each failure is the host's answer for the pod that ended, and that failures stop soon.
    fn is_over_soon(&self) -> Result<()> {
        let by_the_host = |what: &str| WORDS.iter().any(|words| what.starts_with(words));
        for (after, what) in &self.failed {
            ensure!(*after < OVER && by_the_host(what), "after {after:?}: {what}");
        }
        ensure!(self.answered > 0, "nobody was answered");
        Ok(())
    }

    fn tell(&self, how: &str, followed: &Followed) {
        let last = self.failed.iter().map(|(after, _)| *after).max().unwrap_or_default();
        let mut kinds = BTreeMap::<&str, usize>::new();
        for (_, what) in &self.failed {
            *kinds.entry(what).or_default() += 1;
        }
        say(&format!(
            "{how}: another led after {:?}, {:#} after the last renewal; {} answered, {} failed, the last after {last:?}: {kinds:#?}",
            followed.took,
            followed.since_renewal,
            self.answered,
            self.failed.len()
        ));
    }
}

fn request() -> String {
    let path = member_path(MEMBER, "/api/v1/namespaces/default/configmaps/kube-root-ca.crt");
    format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
}

/// Kills the process in a pod by SIGKILL.
fn kill(pod: &str) -> Result<()> {
    let mut all = std::fs::read_dir("/proc")?.filter_map(|entry| Some(entry.ok()?.path()));
    let process = all.find(|process| is_in(pod, process)).context("no such process")?;
    let pid = process.file_name().and_then(|name| name.to_str()?.parse().ok()).and_then(Pid::from_raw);
    Ok(kill_process(pid.context("no pid")?, Signal::KILL)?)
}

fn is_in(pod: &str, process: &Path) -> bool {
    let words = |file: &str| std::fs::read(process.join(file)).unwrap_or_default();
    let has =
        |file: &str, word: String| words(file).split(|byte| *byte == 0).any(|one| one == word.as_bytes());
    has("environ", format!("HOSTNAME={pod}")) && has("cmdline", "serve".to_owned())
}

const MEMBER: &str = "east";
const GET: [&str; 8] = ["--cluster", MEMBER, "get", "configmaps", "-n", "default", "-o", "name"];
const CLIENTS: usize = 4;
const AFTERWARDS: Duration = Duration::from_secs(5);
/// Time until the host knows that the pod is gone: a second on an idle machine.
const OVER: Duration = Duration::from_secs(8);
/// Beginnings of the accepted failures: the texts of the host's kube-apiserver, and any failure of kubectl.
/// The host regards the whole APIService as unavailable if all five of its probes reach the pod
/// that is gone. With two pods that is one check in 32 (kube-aggregator:
/// `remote_available_controller`).
const WORDS: [&str; 3] = ["503: error trying to reach service: ", "503: service unavailable", "kubectl: "];
