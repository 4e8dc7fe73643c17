//! The election of the replica that runs the controllers, by a Lease (client-go:
//! `tools/leaderelection`): whoever writes its name into it first leads, as long as it goes on
//! writing. Two cannot lead at once: a write counts only if nobody else wrote since it was read, the
//! leader gives up after `renew_deadline` without a write, and the others wait for `lease_duration`.
//! Clocks of different machines are not compared; how old a Lease is tells who watches it not change.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Api;
use kube::api::PostParams;
use kube::runtime::events::Reporter;
use prometheus_client::metrics::gauge::Gauge;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::retry;

/// `--leader-elect-*`, with Kubernetes' names and defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub resource_name: String,
    pub lease_duration: Duration,
    pub renew_deadline: Duration,
    pub retry_period: Duration,
}

impl Config {
    /// Refuses what would let two lead at once, or nobody for long (client-go: `NewLeaderElector`).
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

/// Takes part in the election until `stop`. What `lead` makes is run while this replica leads, and
/// dropped when it does not; its token is cancelled just before.
pub async fn run<F: Future<Output = ()>>(
    leases: Api<Lease>,
    config: Config,
    leading: Gauge,
    stop: CancellationToken,
    mut lead: impl FnMut(CancellationToken) -> F,
) {
    let mut candidate = Candidate { leases, config, identity: identity(), observed: None };
    while !stop.is_cancelled() {
        let acquired = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            acquired = candidate.acquired() => acquired,
        };
        info!(identity = candidate.identity, "this replica runs the controllers");
        leading.set(1);
        let leadership = stop.child_token();
        let mut led = Box::pin(lead(leadership.clone()));
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = candidate.lost(acquired) => warn!("the Lease is not held any more: the controllers stop"),
            () = &mut led => warn!("the controllers ended"),
        }
        leadership.cancel();
        drop(led);
        leading.set(0);
        candidate.release().await;
    }
}

/// One who takes part.
struct Candidate {
    leases: Api<Lease>,
    config: Config,
    identity: String,
    /// The Lease as it was last seen, and since when it has been so.
    observed: Option<(Lease, Instant)>,
}

/// When a Lease was last ours for certain: before it was written, not after.
#[derive(Clone, Copy)]
struct Held(Instant);

impl Candidate {
    /// Returns when the Lease is ours.
    async fn acquired(&mut self) -> Held {
        loop {
            let began = Instant::now();
            // An answer that comes too late would be worth nothing.
            match timeout(self.config.renew_deadline, self.try_hold()).await {
                Ok(Ok(true)) => return Held(began),
                Ok(Ok(false)) => {}
                Ok(Err(error)) => debug!(error = %error, "the Lease of the controllers cannot be had"),
                Err(_) => debug!("the host does not say in time whose Lease it is"),
            }
            sleep(self.config.retry_period.mul_f64((JITTER - 1.0).mul_add(retry::random(), 1.0))).await;
        }
    }

    /// Renews the Lease. Returns when it is not ours any more, or soon may not be.
    async fn lost(&mut self, Held(mut held): Held) {
        loop {
            let deadline = held + self.config.renew_deadline;
            let renewed = timeout_at(deadline, async {
                sleep(self.config.retry_period).await;
                loop {
                    let began = Instant::now();
                    match self.try_hold().await {
                        Ok(true) => return Some(began),
                        Ok(false) => return None,
                        Err(error) => warn!(error = %error, "the Lease of the controllers is not renewed"),
                    }
                    sleep(self.config.retry_period).await;
                }
            });
            match renewed.await {
                Ok(Some(began)) => held = began,
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Writes our name into the Lease, which counts only if nobody wrote meanwhile. False if it is another's.
    async fn try_hold(&mut self) -> Result<bool, kube::Error> {
        let Some(mut lease) = self.leases.get_opt(&self.config.resource_name).await? else {
            let metadata =
                ObjectMeta { name: Some(self.config.resource_name.clone()), ..ObjectMeta::default() };
            let lease = Lease { metadata, spec: Some(self.renewed(&LeaseSpec::default())) };
            return self.leases.create(&PostParams::default(), &lease).await.map(|_| true);
        };
        let spec = lease.spec.take().unwrap_or_default();
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        if !holder.is_empty() && holder != self.identity && !self.is_over(&lease, &spec) {
            return Ok(false);
        }
        lease.spec = Some(self.renewed(&spec));
        // Who was faster is told by a conflict.
        self.leases.replace(&self.config.resource_name, &PostParams::default(), &lease).await.map(|_| true)
    }

    /// Whether another's Lease has not been renewed for as long as it lasts.
    fn is_over(&mut self, lease: &Lease, spec: &LeaseSpec) -> bool {
        let version = &lease.metadata.resource_version;
        match &self.observed {
            Some((seen, since)) if seen.metadata.resource_version == *version => {
                let lasts = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
                let lasts = lasts.map_or(self.config.lease_duration, Duration::from_secs);
                since.elapsed() >= lasts
            }
            _ => {
                self.observed = Some((lease.clone(), Instant::now()));
                false
            }
        }
    }

    fn renewed(&self, before: &LeaseSpec) -> LeaseSpec {
        let now = Some(MicroTime(jiff::Timestamp::now()));
        let ours = before.holder_identity.as_deref() == Some(&self.identity);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            // Rounded up: what others wait for must not be less than what we count on.
            lease_duration_seconds: Some(
                i32::try_from(self.config.lease_duration.as_secs_f64().ceil() as i64).unwrap_or(i32::MAX),
            ),
            acquire_time: if ours { before.acquire_time.clone() } else { now.clone() },
            renew_time: now,
            lease_transitions: Some(before.lease_transitions.unwrap_or(0).saturating_add(i32::from(!ours))),
            ..before.clone()
        }
    }

    /// Takes our name out of the Lease, if it is there, so that another need not wait.
    async fn release(&mut self) {
        let name = self.config.resource_name.clone();
        let released = async {
            let Some(mut lease) = self.leases.get_opt(&name).await? else { return Ok(()) };
            let Some(spec) = &mut lease.spec else { return Ok(()) };
            if spec.holder_identity.as_deref() != Some(&self.identity) {
                return Ok(());
            }
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
            self.leases.replace(&name, &PostParams::default(), &lease).await.map(drop)
        };
        match timeout(RELEASE_TIMEOUT, released).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(error = %error, "the Lease of the controllers was not given up"),
            Err(_) => warn!("the Lease of the controllers was not given up in time"),
        }
    }
}

/// Who this is: the host's or pod's name, and what tells two processes there apart.
fn identity() -> String {
    let host = Reporter::from("mc-sidecar").instance.unwrap_or_else(|| "mc-sidecar".to_owned());
    format!("{host}_{:016x}", retry::random().to_bits())
}

/// client-go's: those who wait for one Lease do not ask together.
const JITTER: f64 = 1.2;
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
