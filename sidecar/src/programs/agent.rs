//! Runs the agent of a member that the host cannot reach. The agent dials a few replicas of the sidecar,
//! through the host's API or directly, and carries connections from there to one target, the member's own API
//! server.
//!
//! It makes no decisions and does not read the traffic. Its credential on the host has one right:
//! to attach the cluster whose name it has.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use arc_swap::ArcSwap;
use http::{Method, StatusCode};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tracing::{info, warn};

use crate::base::random;
use crate::outbound::body::{self, Body};
use crate::outbound::tunnel::unread::UnreadLimit;
use crate::server::admin;

mod backoff;
pub mod config;
mod dial;
mod enrollment;
mod login;
mod serve;
mod target;

use backoff::Backoff;
use config::Config;
use dial::{DialError, Dialed};
use enrollment::Enrollment;
use login::Login;
use serve::Left;

/// State that one agent's tunnels share.
struct Agent {
    config: Config,
    login: Login,
    enrollment: Enrollment,
    /// Identifies this run of the program, so that a replica recognizes a second tunnel of the same agent.
    instance: String,
    /// The replicas to which this agent has tunnels.
    held: ArcSwap<Vec<Arc<str>>>,
    /// Ends the tunnels gracefully.
    leave: CancellationToken,
    /// Work of tunnels after their slot is free for the next one.
    tasks: TaskTracker,
    /// Limits the tunnels to replicas that are shutting down, whose open connections continue, so
    /// that a sidecar cannot make the agent keep more.
    drained: Arc<Semaphore>,
    /// Limits the unread bytes of all connections.
    unread: Arc<UnreadLimit>,
}

/// A replica to which the agent has a tunnel.
struct Held {
    agent: Arc<Agent>,
    replica: Arc<str>,
}

/// Keeps the tunnels open until `shutdown`.
pub async fn run(config: Config, shutdown: CancellationToken) -> anyhow::Result<()> {
    let address = config.admin_address;
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot bind {address}"))?;
    let agent = Arc::new(Agent {
        login: Login::new(&config),
        enrollment: Enrollment::new(&config),
        config,
        instance: format!("{:016x}", random::bits()),
        held: ArcSwap::default(),
        leave: CancellationToken::new(),
        tasks: TaskTracker::new(),
        drained: Arc::new(Semaphore::new(MAX_DRAINED)),
        unread: Arc::new(UnreadLimit::of_agent()),
    });
    // Errors in the configuration are reported at the start.
    agent.login.connection().context("cannot use the connection to the host")?;
    let admin_address = listener.local_addr()?;
    info!(cluster = %agent.config.cluster, target = %agent.config.target, %admin_address, "agent started");
    agent.warn_without_pinned_ca();
    let stop_admin = CancellationToken::new();
    let answering = agent.clone();
    let respond = Arc::new(move |request: &_| health(&answering, request));
    let probes = tokio::spawn(admin::run(listener, respond, TaskTracker::new(), stop_admin.clone()));
    let storing = agent.clone();
    let _storing = AbortOnDropHandle::new(tokio::spawn(async move { storing.login.keep_stored().await }));
    let _unread = AbortOnDropHandle::new(tokio::spawn(agent.unread.clone().run()));
    let slots: Vec<_> = (0..agent.config.tunnels)
        .map(|_| AbortOnDropHandle::new(tokio::spawn(keep_tunnel(agent.clone()))))
        .collect();
    tokio::select! {
        biased;
        () = shutdown.cancelled() => {}
        () = agent.enrollment.expire() => {}
    }
    info!("shutting down");
    agent.leave.cancel();
    drop(slots);
    agent.tasks.close();
    if timeout(GRACE, agent.tasks.wait()).await.is_err() {
        info!("the grace period is over: closing open connections");
    }
    stop_admin.cancel();
    let _ = probes.await;
    Ok(())
}

/// Keeps one tunnel, to a replica to which this agent has no other tunnel.
async fn keep_tunnel(agent: Arc<Agent>) {
    let mut backoff = Backoff::default();
    loop {
        match dial::dial(&agent).await {
            Ok(Dialed { replica, of, stream }) => {
                info!(%replica, of, "connected");
                let (held, began) = (agent.hold(replica.clone()), Instant::now());
                let (left, told) = tokio::sync::oneshot::channel();
                let serving = serve::serve(agent.clone(), stream, left);
                // Continues after the slot is free, until its open connections end.
                agent.tasks.spawn(async move {
                    serving.await;
                    drop(held);
                });
                let is_drained = match told.await {
                    Ok(Left::Drained) => {
                        info!(%replica, "the replica shuts down: dialing another one");
                        true
                    }
                    Ok(Left::Ended(why)) => {
                        warn!(%replica, why, "disconnected");
                        false
                    }
                    Err(_) => false,
                };
                if is_drained || began.elapsed() >= LONG_ENOUGH {
                    backoff = Backoff::default();
                } else {
                    backoff.has_failed(false);
                }
            }
            // The replica has not yet detected that a tunnel of this agent has ended.
            Err(DialError::Held(_)) if agent.held.load().is_empty() => backoff.has_failed(false),
            Err(DialError::Held(of)) => {
                let held = agent.held.load().len();
                backoff.is_held(of.map(|of| of > held));
            }
            Err(error) => {
                warn!(error = %error, "cannot connect to the host");
                backoff.has_failed(error.is_lasting());
            }
        }
        // The pause ends early when an administrator renews the credential.
        tokio::select! {
            () = sleep(backoff.pause()) => {}
            () = agent.login.has_changed() => backoff = Backoff::default(),
        }
    }
}

impl Agent {
    /// Each of the system's CAs can certify another server under the host's name.
    fn warn_without_pinned_ca(&self) {
        if !self.login.is_unpinned() {
            return;
        }
        let fix = match &self.config.connection_dir {
            Some(_) => {
                format!("kubectl mc join {} --agent --renew --agent-server-ca=FILE", self.config.cluster)
            }
            None => "--server-ca-file=FILE".to_owned(),
        };
        warn!(
            risk = "a server at the host's name with a certificate of any CA of the system gets this agent's token",
            fix, "no pinned CA for the host"
        );
    }

    fn hold(self: &Arc<Self>, replica: Arc<str>) -> Held {
        self.held.rcu(|held| held.iter().cloned().chain([replica.clone()]).collect::<Vec<_>>());
        Held { agent: self.clone(), replica }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.agent.held.rcu(|held| {
            let others = held.iter().filter(|replica| !Arc::ptr_eq(replica, &self.replica));
            others.cloned().collect::<Vec<_>>()
        });
    }
}

/// Ready while there is a tunnel.
fn health(agent: &Agent, request: &http::Request<hyper::body::Incoming>) -> http::Response<Body> {
    let ready = !agent.held.load().is_empty() && !agent.leave.is_cancelled();
    let (status, text) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/livez" | "/healthz") => (StatusCode::OK, "ok"),
        (&Method::GET | &Method::HEAD, "/readyz") if ready => (StatusCode::OK, "ok"),
        (&Method::GET | &Method::HEAD, "/readyz") => {
            (StatusCode::SERVICE_UNAVAILABLE, "no tunnel to the host")
        }
        _ => (StatusCode::NOT_FOUND, "not found"),
    };
    body::response(status, Body::Full(text.into()))
}

const MAX_DRAINED: usize = 16;
/// Grace period for open connections after the signal to shut down.
const GRACE: Duration = Duration::from_secs(20);
/// After this uptime the backoff is reset.
const LONG_ENOUGH: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests;
