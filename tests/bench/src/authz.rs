//! Measures Cluster Authorization: the cost of the webhook for the requests of agents and of users at a
//! kube-apiserver that calls it, and the effect of its failure on users.
//!
//! Each request is for a different object that does not exist, so no decision comes from the
//! kube-apiserver's cache.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::http1::Endpoint;
use harness::karmada_host::KarmadaHost;
use serde_json::json;

use crate::table::{Goal, Spread, Table, median};
use crate::usage::Cpu;

/// The figures of each caller, and their comparison with the goals.
pub(crate) fn measure(plugin: &Path, quick: bool) -> Result<[Table; 2]> {
    let turns = if quick { 1 } else { TURNS };
    let turns = (0..turns).map(|_| Turn::measure(plugin, quick)).collect::<Result<Vec<_>>>()?;
    let mut figures = Table::new(&["caller", "p50 ms", "p99 ms", "CPU µs/request of the kube-apiserver"]);
    let mut show = |name: &str, round: fn(&Turn) -> &Round| {
        let middle = |of: fn(&Round) -> f64| median(turns.iter().map(|turn| of(round(turn))));
        figures.row([
            name.to_owned(),
            format!("{:.2}", middle(|round| round.p50)),
            format!("{:.2}", middle(|round| round.p99)),
            format!("{:.0}", middle(|round| round.cpu)),
        ]);
    };
    show("a user, without the webhook", |turn| &turn.before);
    show("a user, with the webhook", |turn| &turn.user);
    show("an agent", |turn| &turn.agent);
    let mut judged = Table::new(&["figure", "median [quartiles]", "goal"]);
    let mut judge = |name: &str, goal: Goal, of: fn(&Turn) -> f64| {
        let spread = Spread::of(turns.iter().map(of));
        judged.row([name.to_owned(), spread.to_string(), goal.verdict(spread.median)]);
    };
    judge("what an agent's request takes longer than a user's: p50 in ms", Goal::AtMost(1.0), |turn| {
        turn.agent.p50 - turn.user.p50
    });
    judge("CPU of a user's request with the webhook, of the same without it", Goal::AtMost(1.01), |turn| {
        turn.user.cpu / turn.before.cpu
    });
    judge("the webhook in percent of the kube-apiserver's CPU, for users alone", Goal::AtMost(1.0), |turn| {
        turn.share
    });
    let beside = "of a user's request when the webhook has failed, of before, an agent asking meanwhile";
    for (name, part) in [("p50", 0.5), ("p99", 0.99)] {
        let ratios = turns.iter().map(|turn| {
            let [alive, dead] = &turn.failures;
            at(dead, part) / at(alive, part)
        });
        let spread = Spread::of(ratios);
        let verdict = Goal::AtMost(1.05).verdict(spread.median);
        judged.row([format!("{name} {beside}"), spread.to_string(), verdict]);
    }
    Ok([figures, judged])
}

/// One start of the kube-apiserver without the webhook and one with it.
struct Turn {
    /// A user's requests before the kube-apiserver knew the webhook.
    before: Round,
    user: Round,
    /// The share of the webhook's authorizer in the CPU time of the kube-apiserver while a user sends requests,
    /// in percent.
    share: f64,
    agent: Round,
    /// The times of a user's requests next to those of an agent, while the webhook runs and after
    /// it has ended, in ms and sorted. The two are measured alternately, because a p99 needs many
    /// requests and the load of the machine changes in the meantime.
    failures: [Vec<f64>; 2],
}

/// Requests one after the other on one connection.
struct Round {
    /// ms
    p50: f64,
    /// ms
    p99: f64,
    /// µs of the kube-apiserver per request.
    cpu: f64,
}

impl Turn {
    fn measure(plugin: &Path, quick: bool) -> Result<Self> {
        let count = if quick { 50 } else { REQUESTS };
        let host = KarmadaHost::take("k1", plugin)?;
        host.apply_generated(&["a", "b"])?;
        let user = reader(&host)?;
        // A warm-up, because a kube-apiserver that has just started has other work too.
        round(&host, &user, count)?;
        let before = round(&host, &user, count)?;
        let mut host = host.with_webhook()?;
        let certificate =
            host.cluster.client_certificate("system:karmada:agent:a", &["system:karmada:agents"])?;
        let agent = Endpoint::cluster(host.cluster, Some(&certificate))?;
        round(&host, &user, count)?;
        round(&host, &agent, count)?;
        let (user_round, agent_round) = (round(&host, &user, count)?, round(&host, &agent, count)?);
        let share = share(&host, &user)?;
        let (pairs, count) = if quick { (1, count) } else { (PAIRS, REQUESTS_OF_A_PAIR) };
        let mut failures = [Vec::new(), Vec::new()];
        for _ in 0..pairs {
            failures[0].extend(beside(&agent, &[NOT_FOUND], PAUSE, || times(&user, count))?);
            host.webhook.take().context("no webhook")?.kill()?;
            failures[1].extend(beside(&agent, &DENIED, PAUSE, || times(&user, count))?);
            host.start_webhook(&[])?;
        }
        failures.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
        Ok(Self { before, user: user_round, share, agent: agent_round, failures })
    }
}

/// The share of the webhook's authorizer in a CPU profile of the kube-apiserver, in percent.
fn share(host: &KarmadaHost, user: &Endpoint) -> Result<f64> {
    let path = format!("/debug/pprof/profile?seconds={PROFILE_SECONDS}");
    let profile = beside(user, &[NOT_FOUND], Duration::ZERO, || host.api.request("GET", &path, "", ""))?;
    ensure!(profile.status() == 200, "the profile was answered {}", profile.status());
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(&profile.body)?;
    let output = Command::new("go")
        .args(["tool", "pprof", "-top", "-cum", "-nodefraction=0", "-nodecount=100000"])
        .arg(file.path())
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let line = text.lines().find(|line| line.ends_with(AUTHORIZER));
    let percent = line.and_then(|line| line.split_whitespace().nth(4));
    let percent = percent.with_context(|| format!("the profile does not have {AUTHORIZER}:\n{text}"))?;
    Ok(percent.trim_end_matches('%').parse()?)
}

/// A user who may read the Works of cluster a, as its agent may.
fn reader(host: &KarmadaHost) -> Result<Endpoint> {
    let (group, name) = ("rbac.authorization.k8s.io", "bench-authz");
    let labels = json!({"app.kubernetes.io/managed-by": "kubectl-mc"});
    let place = format!("/apis/{group}/v1/namespaces/karmada-es-a");
    host.api.apply(
        &format!("{place}/roles/{name}"),
        &json!({
            "apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": {"name": name, "labels": labels},
            "rules": [{"apiGroups": ["work.karmada.io"], "resources": ["works"], "verbs": ["get"]}],
        }),
    )?;
    host.api.apply(
        &format!("{place}/rolebindings/{name}"),
        &json!({
            "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": {"name": name, "labels": labels},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
            "subjects": [{"apiGroup": group, "kind": "User", "name": name}],
        }),
    )?;
    let certificate = host.cluster.client_certificate(name, &[])?;
    Endpoint::cluster(host.cluster, Some(&certificate))
}

fn round(host: &KarmadaHost, caller: &Endpoint, count: usize) -> Result<Round> {
    let pids = [host.cluster.apiserver_pid()?];
    let before = Cpu::of(&pids)?;
    let mut times = times(caller, count)?;
    let used = (Cpu::of(&pids)? - before).total;
    times.sort_by(f64::total_cmp);
    Ok(Round { p50: at(&times, 0.5), p99: at(&times, 0.99), cpu: used * 1e6 / count as f64 })
}

/// The times of requests one after the other, in ms.
fn times(caller: &Endpoint, count: usize) -> Result<Vec<f64>> {
    let mut connection = caller.connect()?;
    let exchange = |_| {
        let request = request();
        let begun = Instant::now();
        connection.send(request.as_bytes())?;
        let status = connection.response()?.status();
        ensure!(status == NOT_FOUND, "answered {status}");
        Ok(begun.elapsed().as_secs_f64() * 1e3)
    };
    (0..count).map(exchange).collect()
}

/// The time that this fraction of the sorted times does not exceed.
fn at(times: &[f64], part: f64) -> f64 {
    times[((times.len() - 1) as f64 * part) as usize]
}

/// Measures while another caller sends requests with this pause in between. Each must be answered
/// with one of these codes.
fn beside<T>(
    other: &Endpoint,
    codes: &[u16],
    pause: Duration,
    measure: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| -> Result<()> {
            let mut connection = other.connect()?;
            while !over.load(Ordering::Relaxed) {
                connection.send(request().as_bytes())?;
                let answered = connection.response()?.status();
                ensure!(codes.contains(&answered), "the other caller was answered {answered}, not {codes:?}");
                std::thread::park_timeout(pause);
            }
            Ok(())
        });
        let measured = measure();
        over.store(true, Ordering::Relaxed);
        asking.join().map_err(|_| anyhow::anyhow!("the other caller panicked"))??;
        measured
    })
}

fn request() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!(
        "GET /apis/work.karmada.io/v1alpha1/namespaces/karmada-es-a/works/w{number} HTTP/1.1\r\nHost: x\r\n\r\n"
    )
}

const NOT_FOUND: u16 = 404;
/// For a webhook that does not answer, kube-apiservers return their own error.
const DENIED: [u16; 2] = [403, 500];
/// The method of a kube-apiserver that evaluates the condition, and calls the webhook where it holds.
const AUTHORIZER: &str = "plugin/pkg/authorizer/webhook.(*WebhookAuthorizer).Authorize";
const TURNS: usize = 5;
const REQUESTS: usize = 5_000;
/// How often the webhook fails in a turn, and the requests before and after each time.
const PAIRS: usize = 10;
const REQUESTS_OF_A_PAIR: usize = 2_000;
/// Shorter than the timeout of one request here.
const PROFILE_SECONDS: u32 = 12;
/// The pause between two requests of the agent in the background.
const PAUSE: Duration = Duration::from_millis(5);
