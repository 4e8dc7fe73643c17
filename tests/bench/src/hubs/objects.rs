//! Measures requests for Karmada's objects, through the sidecar in front of Karmada's own server
//! and without the sidecar: at the servers' own ports with a token, and through the host's
//! APIService, which every client uses.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use harness::bed::bed;
use harness::caller::Caller;
use harness::karmada::InPlace;
use harness::own_service;
use harness::scene::grant;
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};

use super::{JOINED, KARMADA, ROUNDS};
use crate::against::turns;
use crate::requests::{CONNECTIONS, Round, round};
use crate::table::{Goal, Spread, Table, median};
use crate::way::Way;
use crate::wrk::{self, Load};

/// One table for the servers' own ports, and one for the route through the host.
pub(crate) fn measure(quick: bool) -> Result<[Table; 2]> {
    let server = bed()?.host.karmada.as_ref();
    let server = server.context("no server of Karmada: start the bed with `--karmada host`")?;
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sidecar/deploy");
    let karmada = InPlace::without_relay("bench-hub-objects", &deploy)?;
    let caller = Caller::token("theo")?;
    karmada.join(JOINED, "m1")?;
    let rule = json!({"apiGroups": [KARMADA], "resources": ["clusters"], "resourceNames": [JOINED], "verbs": ["get"]});
    let asked = json!({"group": KARMADA, "resource": "clusters", "name": JOINED, "verb": "get"});
    grant(&karmada.host, "bench-hub-objects", &caller, &rule, &asked)?;
    let (own, token) = (&karmada.sidecar.sidecar, caller.token.as_deref().context("no token")?);
    let path = format!("/apis/{KARMADA}/v1alpha1/clusters/{JOINED}");
    let pids = [vec![own.pid, server.pid()?], vec![server.pid()?]];
    let [through, straight] = pids.clone();
    let at_ports = [
        Way::at(NAMES[0], own.url.clone(), &own.ca_certificate, token, through),
        Way::at(NAMES[1], server.url.clone(), &server.ca_certificate, token, straight),
    ]
    .map(|way| way.asking(path.clone()));
    at_ports.iter().try_for_each(|way| way.warm_up())?;
    let at_ports = table(quick, |connections, at| round(&at_ports[at], connections))?;

    let host = &bed()?.host;
    let by_host = [0, 1].map(|at| {
        Way::at(NAMES[at], host.server.clone(), &host.ca_certificate, token, pids[at].clone())
            .asking(path.clone())
    });
    let route = Route::new(&karmada)?;
    let by_host = table(quick, |connections, at| {
        route.lead(at == 0, &by_host[at])?;
        let before = route.requests()?;
        let round = round(&by_host[at], connections)?;
        let (seen, sent) = (route.requests()? - before, round.load.requests);
        let expected = if at == 0 { seen > 0.9 * sent } else { seen < 0.1 * sent };
        ensure!(expected, "{}: the sidecar had {seen} of {sent} requests", NAMES[at]);
        Ok(round)
    })?;
    Ok([at_ports, by_host])
}

fn table(quick: bool, mut round: impl FnMut(usize, usize) -> Result<Round>) -> Result<Table> {
    let mut table = Table::new(&[
        "connections",
        "way",
        "requests/s",
        "p50 ms",
        "CPU µs/request of sidecar and Karmada",
        "requests/s of Karmada's",
    ]);
    for (connections, rounds) in CONNECTIONS {
        let rounds = if quick { 1 } else { rounds.min(ROUNDS) };
        let pairs = turns(rounds, |at| round(connections, at))?;
        for (at, name) in NAMES.into_iter().enumerate() {
            let middle = |of: fn(&Round) -> f64| median(pairs.iter().map(|pair| of(&pair[at])));
            let rate = Spread::of(pairs.iter().map(|[own, other]| own.load.rate / other.load.rate));
            let judged = format!("{rate} ({})", Goal::AtLeast(0.9).verdict(rate.median));
            table.row([
                connections.to_string(),
                name.to_owned(),
                format!("{:.0}", middle(|round| round.load.rate)),
                format!("{:.2}", middle(|round| round.load.p50)),
                format!("{:.0}", middle(|round| round.cpu.total)),
                if at == 0 { judged } else { String::new() },
            ]);
        }
    }
    Ok(table)
}

/// Where the host's APIService for Karmada's group points.
struct Route<'a> {
    karmada: &'a InPlace,
    /// The spec that points it to the sidecar, and the one that points it to Karmada's server.
    specs: [Value; 2],
}

impl<'a> Route<'a> {
    fn new(karmada: &'a InPlace) -> Result<Self> {
        let theirs = karmada.host.get(API_SERVICE)?["spec"].clone();
        let sidecar = &karmada.sidecar;
        let service = own_service::reference(&karmada.host, &karmada.fleet.namespace, sidecar)?;
        let authority = STANDARD.encode(std::fs::read(&sidecar.sidecar.ca_certificate)?);
        let own = json!({"service": service, "caBundle": authority});
        let theirs = json!({"service": theirs["service"], "caBundle": theirs["caBundle"]});
        Ok(Self { karmada, specs: [own, theirs] })
    }

    /// Points the group to the sidecar or past it, and waits until the requests of `way` follow.
    fn lead(&self, through: bool, way: &Way) -> Result<()> {
        let spec = &self.specs[usize::from(!through)];
        self.karmada.host.merge(API_SERVICE, &json!({"spec": spec}))?;
        own_service::available(&self.karmada.host, API_SERVICE)?;
        eventually("the host has the new route", SOON, || {
            let before = self.requests()?;
            let load = wrk::attempt(&way.url(), &way.headers(), 1, Duration::from_secs(1))?;
            let seen = self.requests()? - before;
            let follows =
                |load: Load| if through { seen >= load.requests } else { seen < 0.1 * load.requests };
            Ok(load.is_some_and(follows).then_some(()))
        })
    }

    /// The number of requests that the sidecar has answered.
    fn requests(&self) -> Result<f64> {
        self.karmada.sidecar.metric("apiserver_request_duration_seconds_count")
    }
}

const NAMES: [&str; 2] = ["through the sidecar", "Karmada"];
const API_SERVICE: &str = "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.cluster.karmada.io";
