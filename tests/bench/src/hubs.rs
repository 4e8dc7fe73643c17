//! Compares the sidecar with Karmada's inventory to Karmada's own aggregated API server. Both
//! alternately get the same request of the same caller to the same Cluster, without the host in
//! between. The Cluster is first a real one and then a zero-cost one, which shows the servers' own
//! cost. Also measures the start of a sidecar with the same number of members in each inventory.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::bed::{bed, member, sidecar};
use harness::caller::Caller;
use harness::http1::member_path;
use harness::karmada::Karmada;
use harness::own_sidecar::{Difference, OwnSidecar};
use harness::registration;
use harness::scene::{EVERY_VERB, Scene, grant};
use serde_json::json;

use crate::against::by_turns;
use crate::nginx::{self, Nginx};
use crate::requests::{CONNECTIONS, Round};
use crate::site;
use crate::table::{Goal, Spread, Table, median};
use crate::way::{CONFIG_MAP, Way};

mod objects;

pub(crate) use objects::measure as objects;

/// One table for the real Cluster, and one for the zero-cost Cluster.
pub(crate) fn measure(quick: bool) -> Result<[Table; 2]> {
    let karmada = start_karmada("bench-hubs")?;
    let scene = Scene::new("bench")?;
    // Karmada's server refuses service accounts.
    let caller = Caller::token("theo")?;
    scene.allow(&caller)?;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "small"}, "data": {"colour": "green", "shape": "round"}});
    scene.api.apply(CONFIG_MAP, &map)?;
    karmada.join(JOINED, &scene.member)?;
    let _nginx = join_without_cost(&karmada, &serde_json::to_string(&scene.api.get(CONFIG_MAP)?)?)?;
    Karmada::unified_auth(&scene.member, &[&caller.user], &[], &[])?;
    for group in [KARMADA, "proxy.kubectl-mc.dev"] {
        let rule = json!({"apiGroups": [group], "resources": ["clusters/proxy"], "resourceNames": [JOINED, WITHOUT_COST], "verbs": EVERY_VERB});
        let asked = json!({"group": group, "resource": "clusters", "subresource": "proxy", "name": WITHOUT_COST, "verb": "get"});
        grant(&karmada.host, &format!("bench-hubs-{group}"), &caller, &rule, &asked)?;
    }
    karmada.fleet.until(JOINED, "Ready", "True", "Ready")?;

    Ok([beside(&karmada, &caller, JOINED, quick)?, beside(&karmada, &caller, WITHOUT_COST, quick)?])
}

/// A Cluster whose server answers every request with the same text.
fn join_without_cost(karmada: &Karmada, answer: &str) -> Result<Nginx> {
    // The certificate of the sidecar is for its address.
    let address: SocketAddr = sidecar()?.url.trim_start_matches("https://").parse()?;
    let address = SocketAddr::new(address.ip(), PORT);
    let certificates = site::certificates()?;
    let nginx = Nginx::start(&certificates, &nginx::constant(address, answer), address)?;
    let ca = std::fs::read_to_string(&certificates.ca)?;
    let data = json!({"caBundle": encoded(&ca), "token": encoded("x")});
    karmada.secret(WITHOUT_COST, &data)?;
    karmada.secret(&format!("{WITHOUT_COST}-impersonator"), &json!({"token": encoded("x")}))?;
    karmada.cluster(WITHOUT_COST, &format!("https://{address}"), &json!({}))?;
    Ok(nginx)
}

/// Measures both servers on one Cluster.
fn beside(karmada: &Karmada, caller: &Caller, cluster: &str, quick: bool) -> Result<Table> {
    let server = bed()?.host.karmada.as_ref();
    let server = server.context("no server of Karmada: start the bed with `--karmada host`")?;
    let (own, token) = (&karmada.sidecar.sidecar, caller.token.as_deref().context("no token")?);
    let path = format!("/apis/{KARMADA}/v1alpha1/clusters/{cluster}/proxy");
    let ways = [
        Way::at(
            "sidecar",
            format!("{}{}", own.url, member_path(cluster, "")),
            &own.ca_certificate,
            token,
            vec![own.pid],
        ),
        Way::at(
            "Karmada",
            format!("{}{path}", server.url),
            &server.ca_certificate,
            token,
            vec![server.pid()?],
        ),
    ];
    ways.iter().try_for_each(|way| way.warm_up())?;
    let mut table = Table::new(&[
        "connections",
        "server",
        "requests/s",
        "p50 ms",
        "p99 ms",
        "CPU µs/request",
        "requests/s of Karmada's",
        "p50 of Karmada's",
    ]);
    for (connections, rounds) in CONNECTIONS {
        let pairs = by_turns(&ways, connections, if quick { 1 } else { rounds.min(ROUNDS) })?;
        for (at, way) in ways.iter().enumerate() {
            let middle = |of: fn(&Round) -> f64| median(pairs.iter().map(|pair| of(&pair[at])));
            let ratio =
                |of: fn(&Round) -> f64| Spread::of(pairs.iter().map(|[own, other]| of(own) / of(other)));
            let (rate, latency) = (ratio(|round| round.load.rate), ratio(|round| round.load.p50));
            let judged = |spread: &Spread, goal: Goal| match connections == 16 {
                true => format!("{spread} ({})", goal.verdict(spread.median)),
                false => spread.to_string(),
            };
            table.row([
                connections.to_string(),
                way.name.to_owned(),
                format!("{:.0}", middle(|round| round.load.rate)),
                format!("{:.2}", middle(|round| round.load.p50)),
                format!("{:.2}", middle(|round| round.load.p99)),
                format!("{:.0}", middle(|round| round.cpu.total)),
                if at == 0 { judged(&rate, Goal::AtLeast(6.0)) } else { String::new() },
                if at == 0 { judged(&latency, Goal::AtMost(0.3)) } else { String::new() },
            ]);
        }
    }
    Ok(table)
}

/// Measures the time until a replica is ready, which means that it knows all members: with the
/// sidecar's own Secrets, and with Karmada's objects.
pub(crate) fn start(quick: bool) -> Result<Table> {
    let members = if quick { 20 } else { MEMBERS };
    let mut karmada = start_karmada("bench-start")?;
    // Its controllers would probe all of them in the meantime.
    karmada.sidecar.kill()?;
    let server = &member("m1")?.server;
    let ca = std::fs::read_to_string(&member("m1")?.ca_certificate)?;
    for number in 0..members {
        let name = format!("start-{number}");
        registration::register(&name, &json!({"server": server, "ca.crt": ca, "token": "x"}))?;
        let (bundle, token) = (encoded(&ca), encoded("x"));
        karmada.secret(&name, &json!({"caBundle": bundle, "token": token}))?;
        karmada.secret(&format!("{name}-impersonator"), &json!({"token": token}))?;
        karmada.cluster(&name, server, &json!({}))?;
    }
    let [mut own, mut of_karmada] = [Vec::new(), Vec::new()];
    for _ in 0..if quick { 1 } else { STARTS } {
        own.push(ready_after(members, &[])?);
        // It runs in a namespace without the other members' Secrets.
        let namespace = format!("--namespace={}", karmada.fleet.namespace);
        of_karmada.push(ready_after(members, &[&namespace, "--inventory=karmada"])?);
    }
    let (own_median, median) = (median(own.iter().copied()), median(of_karmada.iter().copied()));
    let mut table = Table::new(&["inventory", "members", "ms until ready", "of own"]);
    table.row(["own".to_owned(), members.to_string(), format!("{own_median:.0}"), String::new()]);
    table.row([
        "Karmada's".to_owned(),
        members.to_string(),
        format!("{median:.0}"),
        Goal::AtMost(1.2).ratio(median / own_median),
    ]);
    Ok(table)
}

fn start_karmada(name: &str) -> Result<Karmada> {
    let rights = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sidecar/deploy/karmada.yaml");
    Karmada::start(name, rights.to_str().context("a path")?, &[])
}

/// The time until a sidecar with these flags is ready, in milliseconds.
fn ready_after(members: usize, flags: &[&str]) -> Result<f64> {
    let begun = Instant::now();
    let checked_every = Some(Duration::from_millis(2));
    let sidecar = OwnSidecar::with(&Difference { flags, checked_every, ..Difference::default() })?;
    let time: Duration = begun.elapsed();
    let known = sidecar.metric("mc_sidecar_members")?;
    #[expect(clippy::cast_precision_loss, reason = "the number of members is small")]
    let all = known >= members as f64;
    ensure!(all, "it knows {known} members");
    Ok(time.as_secs_f64() * 1e3)
}

fn encoded(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}

const JOINED: &str = "bench-hub";
const WITHOUT_COST: &str = "bench-hub-without-cost";
/// The port of its server.
const PORT: u16 = 9003;
const KARMADA: &str = "cluster.karmada.io";
const MEMBERS: usize = 1_000;
const STARTS: usize = 7;
/// With many more rounds, Karmada's server takes the same time.
const ROUNDS: usize = 15;
