//! Chooses the route to members: through the host's kube-apiserver, or through the direct endpoint
//! of the sidecar if the host publishes one and this machine can reach it.
//!
//! The findings are cached, so most commands only open a connection: the publication is cached for hours, a
//! successful probe for a minute. With any problem of the direct endpoint, `--route=auto` goes through the
//! host.

mod endpoint;
mod findings;

use std::time::SystemTime;

use kube::config::{AuthInfo, ExecInteractiveMode};

use self::endpoint::{Endpoint, Fault};
use self::findings::Findings;
use crate::argv::Scanned;
use crate::cache::Cache;
use crate::cli::RouteChoice;
use crate::cluster::client::{self, ClientError};
use crate::cluster::context::{ClusterContext, User};
use crate::cluster::credential::{CREDENTIAL_FLAGS, Login};
use crate::cluster::reach::HostReach;
use crate::env::Env;
use crate::error::{CommandLine, Failure, Hint};
use crate::log::Log;

/// The route to members, and the caller's identity.
pub(crate) struct Through<'a> {
    login: &'a Login<'a>,
    /// `None` means through the host.
    direct: Option<Endpoint>,
}

impl Through<'_> {
    /// The context for requests to members, before the login.
    pub(crate) fn found(&self) -> ClusterContext {
        self.apply(self.login.found())
    }

    /// The context for requests to members, with the caller's credential.
    pub(crate) fn host(&self) -> Result<ClusterContext, ClientError> {
        Ok(self.apply(self.login.host()?))
    }

    /// The host and the context for members, with the caller's credential.
    pub(crate) fn reach(&self) -> Result<HostReach, ClientError> {
        let host = self.login.host()?.clone();
        Ok(HostReach { through: self.apply(&host), found: self.found(), host })
    }

    fn apply(&self, host: &ClusterContext) -> ClusterContext {
        match &self.direct {
            Some(endpoint) => endpoint.context(host),
            None => host.clone(),
        }
    }
}

/// A command that needs a route.
pub(crate) struct Request<'a> {
    pub(crate) wanted: RouteChoice,
    pub(crate) login: &'a Login<'a>,
    pub(crate) scanned: &'a Scanned,
    pub(crate) env: &'a Env,
    pub(crate) now: SystemTime,
}

impl<'a> Request<'a> {
    /// Chooses the route. Fails only if the direct endpoint is required.
    pub(crate) fn choose(&self) -> Result<Through<'a>, Failure> {
        let host = self.login.found();
        let wanted = if host.hub.is_foreign() && self.wanted == RouteChoice::Auto {
            RouteChoice::Host
        } else {
            self.wanted
        };
        let found = match wanted {
            RouteChoice::Direct if host.hub.is_foreign() => {
                Err(Fault::NotSuitable("the hub of another project is reached through the host only"))
            }
            RouteChoice::Host => return Ok(Through { login: self.login, direct: None }),
            RouteChoice::Auto => match needs_host(host, self.scanned) {
                Some(reason) => Err(Fault::NotSuitable(reason)),
                None => self.find(),
            },
            RouteChoice::Direct => self.find(),
        };
        let log = Log::new(self.env);
        let direct = match found {
            Ok(endpoint) => {
                log.decision("Chose route", &[("route", &"direct"), ("server", &endpoint.server)]);
                Some(endpoint)
            }
            Err(fault) if self.wanted == RouteChoice::Direct => {
                return Err(no_direct_route(host, &fault));
            }
            Err(fault) => {
                log.decision("Chose route", &[("route", &"host"), ("reason", &fault)]);
                None
            }
        };
        Ok(Through { login: self.login, direct })
    }

    /// The direct endpoint, if it is usable.
    fn find(&self) -> Result<Endpoint, Fault> {
        let host = self.login.found();
        let cache = Cache::open(self.env).ok();
        let key = Findings::key(host, self.scanned);
        let mut findings =
            cache.as_ref().and_then(|cache| Findings::load(cache, &key, self.now)).unwrap_or_default();
        let found = match findings.usable(self.now, self.wanted == RouteChoice::Direct) {
            Some(Err(fault)) => return Err(fault),
            Some(Ok(endpoint)) => match endpoint.connect(self.env) {
                Ok(()) => return Ok(endpoint),
                Err(fault) => {
                    let unreached = Err(fault);
                    findings.reached(&unreached, self.now);
                    unreached.map(|()| endpoint)
                }
            },
            None => {
                let runtime = client::runtime().map_err(Fault::client)?;
                runtime.block_on(self.ask(&mut findings))
            }
        };
        if let Some(cache) = cache {
            // If the cache cannot be written, the next command queries the host again.
            let _ = findings.store(&cache, &key, self.now);
        }
        found
    }

    /// Reads the endpoint from the host, connects to it, and checks the caller's credential there, unless the
    /// cache already has the result.
    async fn ask(&self, findings: &mut Findings) -> Result<Endpoint, Fault> {
        if findings.publication_is_due(self.now) {
            self.read(findings).await?;
        }
        let mut endpoint = findings.endpoint()?;
        if !findings.was_reached(self.now) {
            let mut reached = endpoint.reach(self.login.found(), self.env).await;
            if reached.is_err() && findings.may_be_outdated(self.now) {
                // The endpoint has moved or has another CA.
                self.read(findings).await?;
                let current = findings.endpoint()?;
                if current != endpoint {
                    reached = current.reach(self.login.found(), self.env).await;
                    endpoint = current;
                }
            }
            findings.reached(&reached, self.now);
            reached?;
        }
        if !findings.accepts_credential() {
            let login = self.login.host().map_err(Fault::client)?;
            let accepted = endpoint.try_credential(login, self.scanned, self.env).await;
            findings.accepted(&accepted, self.now);
            accepted?;
        }
        Ok(endpoint)
    }

    async fn read(&self, findings: &mut Findings) -> Result<(), Fault> {
        let login = self.login.host().map_err(Fault::client)?;
        let published = Endpoint::read(login, self.scanned, self.env).await;
        findings.read(&published, self.now);
        published.map(drop)
    }
}

/// Why a command always goes through the host.
fn needs_host(host: &ClusterContext, scanned: &Scanned) -> Option<&'static str> {
    const TRUST: [&str; 2] = ["certificate-authority", "tls-server-name"];
    let given = |flags: &[&str]| flags.iter().any(|flag| scanned.value(flag).is_some());
    if given(&TRUST) || scanned.has("insecure-skip-tls-verify") {
        return Some("a flag is about the certificate of the host");
    }
    if given(CREDENTIAL_FLAGS) {
        return Some("the credential is given by a flag");
    }
    if host.cluster.insecure_skip_tls_verify == Some(true) || !host.server.starts_with("https://") {
        return Some("the kubeconfig does not verify the host");
    }
    if host.cluster.proxy_url.as_deref().is_some_and(|url| !url.is_empty()) {
        return Some("the kubeconfig has a proxy for the host");
    }
    let user = user(host, scanned)?;
    if let Some(exec) = &user.exec {
        if exec.provide_cluster_info {
            return Some("the credential plugin receives the cluster's address");
        }
        if exec.interactive_mode == Some(ExecInteractiveMode::Always) {
            return Some("the credential plugin prompts at every login");
        }
    }
    let is_other = user.auth_provider.is_some() || user.username.is_some();
    is_other.then_some("only the host knows this kind of credential")
}

/// The user of the kubeconfig.
fn user<'a>(host: &'a ClusterContext, scanned: &Scanned) -> Option<&'a AuthInfo> {
    let flag = scanned.value("user").and_then(|user| user.to_str());
    let name = match &host.user {
        User::Inline(_, user, _) | User::ServiceAccount(user) => return Some(user),
        User::Named(name) => flag.or(name.as_deref())?,
    };
    host.kubeconfig.auth_infos.iter().find(|entry| entry.name == name)?.auth_info.as_ref()
}

fn no_direct_route(host: &ClusterContext, fault: &Fault) -> Failure {
    let hint = Hint::from("--route=host goes through the host");
    let hint = match fault {
        Fault::NotPublished => hint.and(
            CommandLine::new(format!("{} install --expose=TYPE", host.kubectl_mc()))
                .after("an admin of the host publishes a direct endpoint"),
        ),
        _ => hint,
    };
    Failure::new(format!("no direct route to members of {}: {fault}", host.describe())).with_hint(hint)
}

#[cfg(test)]
mod tests;
