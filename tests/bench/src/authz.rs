//! Measures Cluster Authorization: the cost of the webhook for the requests of agents and of users at a
//! kube-apiserver that calls it, and the effect of its failure on users.
//!
//! Each request is for another object, which does not exist, so no decision comes from the kube-apiserver's
//! cache.

use std::path::Path;
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
    judge(
        "the condition of the webhook in percent of the CPU of a user's request",
        Goal::AtMost(1.0),
        |turn| turn.condition / turn.before.cpu * 100.0,
    );
    judge(
        "p99 of a user's request when the webhook has failed, of before, an agent asking meanwhile",
        Goal::AtMost(1.05),
        |turn| turn.dead.p99 / turn.alive.p99,
    );
    Ok([figures, judged])
}

/// One start of the kube-apiserver without the webhook and one with it.
struct Turn {
    /// A user's requests before the kube-apiserver knew the webhook.
    before: Round,
    user: Round,
    /// µs of the kube-apiserver for the condition by which it leaves the webhook out, in each of these.
    condition: f64,
    agent: Round,
    /// A user's requests beside those of an agent, while the webhook runs.
    alive: Round,
    /// The same after its end.
    dead: Round,
}

/// Requests one after the other on one connection.
struct Round {
    /// ms
    p50: f64,
    /// ms
    p99: f64,
    /// µs for each request, of the kube-apiserver
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
        let conditions = [condition(&host)?, {
            round(&host, &user, count)?;
            condition(&host)?
        }];
        let [seconds, evaluations] = [0, 1].map(|at| conditions[1][at] - conditions[0][at]);
        let condition = seconds / evaluations * 1e6;
        let (user_round, agent_round) = (round(&host, &user, count)?, round(&host, &agent, count)?);
        let alive = beside(&agent, &[NOT_FOUND], || round(&host, &user, count))?;
        host.webhook.take().context("no webhook")?.kill()?;
        let dead = beside(&agent, &DENIED, || round(&host, &user, count))?;
        Ok(Self { before, user: user_round, condition, agent: agent_round, alive, dead })
    }
}

/// The seconds in which the kube-apiserver has evaluated conditions of authorizers, and how often it has.
fn condition(host: &KarmadaHost) -> Result<[f64; 2]> {
    let metrics = host.api.request("GET", "/metrics", "", "")?.text();
    let sum = |name: &str| {
        let begin = format!("apiserver_authorization_match_condition_evaluation_seconds_{name}{{");
        let values = metrics.lines().filter(|line| line.starts_with(&begin));
        values.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>()
    };
    Ok(["sum", "count"].map(sum))
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
    let mut connection = caller.connect()?;
    let mut times = Vec::with_capacity(count);
    let before = Cpu::of(&pids)?;
    for _ in 0..count {
        let request = request();
        let begun = Instant::now();
        connection.send(request.as_bytes())?;
        let status = connection.response()?.status();
        times.push(begun.elapsed().as_secs_f64() * 1e3);
        ensure!(status == NOT_FOUND, "answered {status}");
    }
    let used = (Cpu::of(&pids)? - before).total;
    times.sort_by(f64::total_cmp);
    let at = |part: f64| times[((count - 1) as f64 * part) as usize];
    Ok(Round { p50: at(0.5), p99: at(0.99), cpu: used * 1e6 / count as f64 })
}

/// Measures while an agent sends requests, which must be answered by one of these codes.
fn beside<T>(agent: &Endpoint, codes: &[u16], measure: impl FnOnce() -> Result<T>) -> Result<T> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| -> Result<()> {
            let mut connection = agent.connect()?;
            while !over.load(Ordering::Relaxed) {
                connection.send(request().as_bytes())?;
                let answered = connection.response()?.status();
                ensure!(codes.contains(&answered), "an agent was answered {answered}, not {codes:?}");
                std::thread::park_timeout(PAUSE);
            }
            Ok(())
        });
        let measured = measure();
        over.store(true, Ordering::Relaxed);
        asking.join().map_err(|_| anyhow::anyhow!("the agent panicked"))??;
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
/// For a webhook that does not answer, kube-apiservers return an error of their own.
const DENIED: [u16; 2] = [403, 500];
const TURNS: usize = 5;
const REQUESTS: usize = 2_000;
/// The pause between two requests of the agent in the background.
const PAUSE: Duration = Duration::from_millis(5);
