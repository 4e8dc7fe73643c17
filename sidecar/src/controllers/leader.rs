//! Elects the replica that runs the controllers, by a Lease (client-go: `tools/leaderelection`). The replica
//! that writes its name to the Lease first leads, as long as it renews the Lease. Two replicas cannot lead at
//! once: a write fails if the Lease has changed since it was read, the leader gives up `renew_deadline` after
//! the start of its last successful write, and other replicas wait for `lease_duration` after they have
//! observed that write. Clocks of different machines are not compared: a replica measures the age of a Lease
//! from its last observed change.
//!
//! client-go polls the Lease. Here, the leader writes with the resource version of its own last write, and
//! the other replicas watch the Lease: they observe each write, and read the Lease when it expires. A failed
//! watch only costs time, because a replica always reads the Lease before it takes it.

use std::pin::pin;
use std::time::Duration;

use futures_util::TryStreamExt;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Api;
use kube::api::{PostParams, WatchEvent, WatchParams};
use kube::runtime::events::Reporter;
use prometheus_client::metrics::gauge::Gauge;
use thiserror::Error;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::base::random;
use crate::base::retry;

/// `--leader-elect-*`, with Kubernetes' names and defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub resource_name: String,
    pub lease_duration: Duration,
    pub renew_deadline: Duration,
    pub retry_period: Duration,
}

impl Config {
    /// Refuses values that would allow two leaders at once, or none for long (client-go: `NewLeaderElector`).
    pub fn checked(self) -> Result<Self, &'static str> {
        if self.renew_deadline >= self.lease_duration {
            return Err("leader-elect-lease-duration: it is not longer than --leader-elect-renew-deadline");
        }
        if self.retry_period.mul_f64(JITTER) >= self.renew_deadline {
            return Err(
                "leader-elect-renew-deadline: it is not longer than 1.2 times --leader-elect-retry-period",
            );
        }
        Ok(self)
    }
}

/// Takes part in the election until `stop`. The future of `lead` runs while this replica leads, and is
/// dropped when it loses leadership; the future's token is cancelled just before.
pub async fn run<F: Future<Output = ()>>(
    leases: Api<Lease>,
    config: Config,
    leading: Gauge,
    stop: CancellationToken,
    mut lead: impl FnMut(CancellationToken) -> F,
) {
    let mut candidate = Candidate::new(leases, config);
    while !stop.is_cancelled() {
        let acquired = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            acquired = candidate.acquired() => acquired,
        };
        info!(identity = candidate.identity, "became the leader: running the controllers");
        leading.set(1);
        let leadership = stop.child_token();
        let mut led = Box::pin(lead(leadership.clone()));
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = candidate.lost(acquired) => warn!("lost the Lease: stopping the controllers"),
            () = &mut led => warn!("the controllers ended"),
        }
        leadership.cancel();
        drop(led);
        leading.set(0);
        candidate.release().await;
    }
}

/// A participant in the election.
struct Candidate {
    leases: Api<Lease>,
    config: Config,
    identity: String,
    /// The Lease as it was last observed; `None` if there is none.
    seen: Option<Lease>,
    /// When this replica may take the Lease.
    free: Instant,
}

/// The start of the last successful write. From then on, the Lease is held with certainty.
#[derive(Clone, Copy)]
struct Held(Instant);

#[derive(Debug, Error)]
enum Error {
    #[error(transparent)]
    Host(#[from] kube::Error),
    #[error("the host does not answer in time")]
    Late(#[from] Elapsed),
    #[error("the watch ended")]
    WatchEnded,
}

impl Candidate {
    fn new(leases: Api<Lease>, config: Config) -> Self {
        Self { leases, config, identity: identity(), seen: None, free: Instant::now() }
    }

    /// Returns when this replica holds the Lease.
    async fn acquired(&mut self) -> Held {
        let mut told = false;
        loop {
            match self.taken().await {
                Ok(held) => return held,
                // Not a transient error: the RBAC may be of an older release than the program.
                Err(Error::Host(error)) if is_forbidden(&error) && !told => {
                    warn!(%error, "cannot watch the Lease");
                    told = true;
                }
                Err(error) => debug!(%error, "retrying the Lease"),
            }
            // Jitter separates replicas that failed at the same time.
            sleep(retry::jittered(self.config.retry_period)).await;
        }
    }

    /// Watches the Lease until it is free, and takes it.
    async fn taken(&mut self) -> Result<Held, Error> {
        self.look().await?;
        while !self.is_free() {
            self.follow().await?;
            self.look().await?;
        }
        self.write().await
    }

    /// Observes changes of the Lease until it is free, or until the watch has been silent for so long that it
    /// may be broken.
    async fn follow(&mut self) -> Result<(), Error> {
        let only = format!("metadata.name={}", self.config.resource_name);
        let only = WatchParams::default().fields(&only).disable_bookmarks();
        // Without a version, the watch starts with the current Lease.
        let version = version(self.seen.as_ref()).unwrap_or_default().to_owned();
        let changes = self.leases.watch(&only, &version);
        let mut changes = pin!(self.in_time(changes).await?);
        while !self.is_free() {
            let silence = Instant::now() + 2 * self.config.retry_period;
            let Ok(change) = timeout_at(self.free.min(silence), changes.try_next()).await else { break };
            match change?.ok_or(Error::WatchEnded)? {
                WatchEvent::Added(lease) | WatchEvent::Modified(lease) => self.see(Some(lease)),
                WatchEvent::Deleted(_) => self.see(None),
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(status) => return Err(kube::Error::Api(status).into()),
            }
        }
        Ok(())
    }

    /// Renews the Lease. Returns when this replica has lost it or can no longer be sure to hold it.
    async fn lost(&mut self, Held(mut held): Held) {
        loop {
            let deadline = held + self.config.renew_deadline;
            let renewed = timeout_at(deadline, async {
                loop {
                    sleep(self.config.retry_period).await;
                    match self.renew().await {
                        Ok(renewed) => return renewed,
                        Err(error) => warn!(%error, "cannot renew the Lease"),
                    }
                }
            });
            match renewed.await {
                Ok(Some(Held(began))) => held = began,
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Writes with the resource version of the last own write or, after a conflict, of the current Lease.
    /// `None` if another replica holds it.
    async fn renew(&mut self) -> Result<Option<Held>, Error> {
        match self.write().await {
            // Another replica has written, the response to an own write was lost, or the Lease was deleted.
            Err(Error::Host(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {}
            written => return written.map(Some),
        }
        self.look().await?;
        if self.is_free() { self.write().await.map(Some) } else { Ok(None) }
    }

    /// Reads the Lease.
    async fn look(&mut self) -> Result<(), Error> {
        let lease = self.in_time(self.leases.get_opt(&self.config.resource_name)).await?;
        self.see(lease);
        Ok(())
    }

    /// Writes this replica's name to the Lease. If the Lease has changed, the host responds with a conflict.
    async fn write(&mut self) -> Result<Held, Error> {
        let (began, params) = (Instant::now(), PostParams::default());
        let mut lease = self.seen.clone().unwrap_or_default();
        lease.spec = Some(self.renewed(&lease.spec.unwrap_or_default()));
        let written = if self.seen.is_some() {
            self.in_time(self.leases.replace(&self.config.resource_name, &params, &lease)).await?
        } else {
            lease.metadata.name = Some(self.config.resource_name.clone());
            self.in_time(self.leases.create(&params, &lease)).await?
        };
        self.see(Some(written));
        Ok(Held(began))
    }

    /// Stores the observed Lease. A deleted Lease is not free before its time, because its holder may not
    /// know of the deletion.
    fn see(&mut self, lease: Option<Lease>) {
        if let Some(changed) =
            lease.as_ref().filter(|lease| version(Some(lease)) != version(self.seen.as_ref()))
        {
            self.free = Instant::now() + self.lasts(changed.spec.as_ref());
        }
        self.seen = lease;
    }

    /// How long another replica holds a Lease that was just renewed; zero if no other replica holds it.
    fn lasts(&self, spec: Option<&LeaseSpec>) -> Duration {
        let holder = spec.and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default();
        if holder.is_empty() || holder == self.identity {
            return Duration::ZERO;
        }
        let lasts = spec.and_then(|spec| u64::try_from(spec.lease_duration_seconds?).ok());
        lasts.map_or(self.config.lease_duration, Duration::from_secs)
    }

    fn is_ours(&self, spec: &LeaseSpec) -> bool {
        spec.holder_identity.as_deref() == Some(&self.identity)
    }

    fn is_free(&self) -> bool {
        self.free <= Instant::now()
    }

    /// The response to a request, with a timeout that leaves time for a second try (client-go:
    /// `resourcelock.NewFromKubeconfig`).
    async fn in_time<T>(&self, answer: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Error> {
        Ok(timeout((self.config.renew_deadline / 2).max(LEAST_PATIENCE), answer).await??)
    }

    fn renewed(&self, before: &LeaseSpec) -> LeaseSpec {
        let now = Some(MicroTime(jiff::Timestamp::now()));
        let ours = self.is_ours(before);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            // Rounded up, because other replicas must not wait for less than the lease duration.
            lease_duration_seconds: Some(
                i32::try_from(self.config.lease_duration.as_secs_f64().ceil() as i64).unwrap_or(i32::MAX),
            ),
            acquire_time: if ours { before.acquire_time.clone() } else { now.clone() },
            renew_time: now,
            lease_transitions: Some(before.lease_transitions.unwrap_or(0).saturating_add(i32::from(!ours))),
            ..before.clone()
        }
    }

    /// Removes this replica's name from the Lease, so that another replica need not wait for its expiry.
    async fn release(&mut self) {
        match timeout(RELEASE_TIMEOUT, self.released()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(%error, "cannot release the Lease"),
            Err(_) => warn!("releasing the Lease timed out"),
        }
    }

    async fn released(&mut self) -> Result<(), Error> {
        loop {
            self.look().await?;
            let Some(mut lease) = self.seen.clone() else { return Ok(()) };
            let Some(spec) = lease.spec.as_mut().filter(|spec| self.is_ours(spec)) else { return Ok(()) };
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
            match self.leases.replace(&self.config.resource_name, &PostParams::default(), &lease).await {
                // A renewal in progress may have been written after the read.
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                released => return Ok(released.map(drop)?),
            }
        }
    }
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

fn version(lease: Option<&Lease>) -> Option<&str> {
    lease?.metadata.resource_version.as_deref()
}

/// The identity of this replica: the name of the machine or pod, and a random suffix for the process.
pub(crate) fn identity() -> String {
    let host = Reporter::from("mc-sidecar").instance.unwrap_or_else(|| "mc-sidecar".to_owned());
    format!("{host}_{:016x}", random::bits())
}

/// client-go's jitter factor: the largest ratio between two pauses.
const JITTER: f64 = 1.2;
const LEAST_PATIENCE: Duration = Duration::from_secs(1);
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
