//! Sets up the measured routes. There are three routes to the same member as the same caller: once
//! to a real member, and once to a zero-cost one, which shows the proxies' own cost.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use harness::audit::{AuditLog, impersonated};
use harness::bed::{SYSTEM, bed, host, member, sidecar};
use harness::caller::Caller;
use harness::registration;
use harness::scene::{EVERY_VERB, Scene};
use serde_json::json;

use crate::nginx::{self, Nginx};
use crate::role::Process;
use crate::way::{CONFIG_MAP, Upstream, User, Way, Ways};

/// The members, the caller and the proxies of the measurements.
pub(crate) struct Site {
    pub(crate) scene: Scene,
    pub(crate) caller: Caller,
    /// The routes to the member m1, which is a real one.
    pub(crate) member: Ways,
    /// The routes to the member `probe`: an nginx that always gives the same answer.
    pub(crate) probe: Ways,
    pub(crate) certificates: nginx::Certificates,
    probed: Upstream,
    _nginx: [Nginx; 2],
}

impl Site {
    pub(crate) fn new() -> Result<Self> {
        let scene = Scene::new("bench")?;
        let caller = Caller::service_account(&scene.name, "caller")?;
        scene.let_in(&caller, &["m1", "probe"], EVERY_VERB)?;
        scene.allow(&caller)?;
        scene.api.apply(
            CONFIG_MAP,
            &json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "small"},
                "data": {"colour": "green", "shape": "round"},
            }),
        )?;
        let user = User::of_token(caller.token.as_deref().context("a service account without a token")?)?;

        let address = bed()?.address;
        let [to_member, to_probe, probe] = PORTS.map(|port| SocketAddr::new(address, port));
        let certificates = certificates()?;
        let answer = serde_json::to_string(&scene.api.get(CONFIG_MAP)?)?;
        let constant = Nginx::start(&certificates, &nginx::constant(probe, &answer), probe)?;
        let probe =
            Upstream { name: "probe", address: probe, ca: certificates.ca.clone(), token: "probe".into() };
        register(probe.name, probe.address, &probe.ca, &probe.token)?;
        let member = m1()?;

        let config = [
            nginx::proxy(to_member, &member, &user.headers(&member.token)),
            nginx::proxy(to_probe, &probe, &user.headers(&probe.token)),
        ];
        let nginx = Nginx::start(&certificates, &config.concat(), to_probe)?;
        let site = Self {
            scene,
            caller,
            member: Ways::new(&member, &user, to_member, nginx.pids()?)?,
            probe: Ways::new(&probe, &user, to_probe, nginx.pids()?)?,
            certificates,
            probed: probe,
            _nginx: [nginx, constant],
        };
        site.check()?;
        Ok(site)
    }

    /// A process of this program as a member that the sidecar knows and the caller may reach.
    pub(crate) fn endless_member(&self, name: &str) -> Result<(Process, SocketAddr)> {
        let (process, address) = Process::member(SocketAddr::new(bed()?.address, 0), &self.certificates)?;
        self.register_at(name, address)?;
        Ok((process, address))
    }

    /// Registers an address as a member, and lets the caller reach it.
    pub(crate) fn register_at(&self, name: &str, address: SocketAddr) -> Result<()> {
        self.scene.let_in(&self.caller, &["m1", "probe", name], EVERY_VERB)?;
        let (ca, token) = (self.certificates.ca.clone(), name.to_owned());
        register(name, address, &ca, &token)
    }

    /// The address of the zero-cost member.
    pub(crate) fn probe_address(&self) -> SocketAddr {
        self.probed.address
    }

    /// Registers the zero-cost member under another name.
    pub(crate) fn register_again(&self, name: &str) -> Result<()> {
        let Upstream { name: _, address, ca, token } = &self.probed;
        register(name, *address, ca, token)
    }

    /// The caller's own token.
    pub(crate) fn token(&self) -> Result<&str> {
        self.caller.token.as_deref().context("a service account without a token")
    }

    /// Checks that every route answers, and that the member sees the same user on all of them.
    fn check(&self) -> Result<()> {
        let mut users = Vec::new();
        for way in self.member.all() {
            let log = AuditLog::from_now(member("m1")?)?;
            way.warm_up()?;
            let requests = log.requests(CONFIG_MAP)?;
            ensure!(!requests.is_empty(), "the member saw nothing by way of {}", way.name);
            users.extend(requests.iter().map(impersonated));
        }
        users.dedup();
        ensure!(users.len() == 1, "not one user: {users:?}");
        self.probe.all().into_iter().try_for_each(Way::warm_up)
    }
}

/// The member m1, and the token that the sidecar uses for it.
fn m1() -> Result<Upstream> {
    let member = member("m1")?;
    let address = member.server.trim_start_matches("https://").parse().context("not an address")?;
    let secret = host()?.get(&format!("/api/v1/namespaces/{SYSTEM}/secrets/m1.member"))?;
    let token = secret["data"]["token"].as_str().context("a member without a token")?;
    let token = String::from_utf8(STANDARD.decode(token)?)?;
    Ok(Upstream { name: "m1", address, ca: member.ca_certificate.clone(), token })
}

/// Registers a member at the sidecar.
fn register(name: &str, address: SocketAddr, ca: &Path, token: &str) -> Result<()> {
    let (server, ca) = (format!("https://{address}"), fs::read_to_string(ca)?);
    registration::register(
        name,
        &json!({"server": server, "ca.crt": ca, "tls-server-name": CERTIFIED_NAME, "token": token}),
    )
}

/// The sidecar's own certificate, so that every server here has the same handshake.
pub(crate) fn certificates() -> Result<nginx::Certificates> {
    let ca = sidecar()?.ca_certificate.clone();
    Ok(nginx::Certificates {
        certificate: ca.with_file_name("serving.crt"),
        key: ca.with_file_name("serving.key"),
        ca,
    })
}

/// A name that every certificate of the bed has.
pub(crate) const CERTIFIED_NAME: &str = "localhost";
/// Ports of the bridge's address: nginx to m1, nginx to the probe, the probe.
const PORTS: [u16; 3] = [9001, 9002, 9003];
