//! Registers one member three times at one sidecar: for direct connections, through its agent, and
//! through konnectivity.

use anyhow::Result;
use harness::bed::{SYSTEM, member, sidecar};
use harness::http1::SIDECAR_NAME;
use harness::konnectivity::Konnectivity;
use harness::own_agent::{self, Difference, OwnAgent};
use harness::own_sidecar::OwnSidecar;
use harness::registration::register;
use serde_json::Value;

use crate::site::Site;
use crate::way::Way;

/// The three routes to a member.
pub(super) struct Carriers {
    pub(super) ways: [Carrier; 3],
    pub(super) agent: OwnAgent,
}

/// One route, with the processes that carry its connections.
pub(super) struct Carrier {
    pub(super) way: Way,
    /// The registered cluster.
    pub(super) cluster: String,
    /// The processes other than the sidecar.
    pub(super) pids: Vec<u32>,
}

impl Carriers {
    /// `data` has the keys for the Secret of the registered member `name`.
    pub(super) fn new(
        sidecar: &OwnSidecar,
        konnectivity: &Konnectivity,
        name: &str,
        server: &str,
        data: &Value,
        site: &Site,
    ) -> Result<Self> {
        let clusters = [name.to_owned(), format!("{name}-{TUNNEL}"), format!("{name}-{KONNECTIVITY}")];
        own_agent::register(&clusters[1], SYSTEM, data)?;
        let mut proxied = data.clone();
        if let (Value::Object(proxied), Value::Object(keys)) = (&mut proxied, konnectivity.secret_keys()) {
            proxied.extend(keys);
        }
        register(&clusters[2], &proxied)?;
        let agent = agent(&clusters[1], server, &sidecar.sidecar.url)?;
        let pids = [Vec::new(), vec![agent.pid()?], konnectivity.pids()];
        let way = site.probe.sidecar.by(&sidecar.sidecar);
        let mut pids = pids.into_iter();
        let ways = [(DIRECT, 0), (TUNNEL, 1), (KONNECTIVITY, 2)].map(|(name, at)| Carrier {
            way: way.to_cluster(name, &clusters[at]),
            cluster: clusters[at].clone(),
            pids: pids.next().unwrap_or_default(),
        });
        ways.iter().try_for_each(|carrier| carrier.way.warm_up())?;
        Ok(Self { ways, agent })
    }
}

/// The agent of a cluster, which dials this sidecar and connects to this server.
pub(super) fn agent(cluster: &str, server: &str, url: &str) -> Result<OwnAgent> {
    let mut target = member("m1")?.clone();
    target.server = server.to_owned();
    let difference = Difference {
        server: Some(url.to_owned()),
        ca: Some(std::fs::read_to_string(&sidecar()?.ca_certificate)?),
        keys: &[("tls-server-name", SIDECAR_NAME)],
        flags: &["--tunnels=1"],
        ..Difference::default()
    };
    let agent = OwnAgent::start(cluster, &target, &difference)?;
    agent.until_logged("connected")?;
    Ok(agent)
}

pub(super) const DIRECT: &str = "direct";
pub(super) const TUNNEL: &str = "tunnel";
pub(super) const KONNECTIVITY: &str = "konnectivity";
