//! Passes the events of requests to the backends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use prometheus_client::registry::Registry;
use tokio::time::timeout;
use tracing::error;

use super::backend::{Backend, Mode};
use super::event::Rendered;
use super::log_file::{self, LogConfig};
use super::metrics::Metrics;
use super::policy::Policy;
use super::queue::Share;
use super::webhook::{self, WebhookConfig};

/// The policy and the backends.
#[derive(Clone, Debug)]
pub struct Config {
    pub policy: Policy,
    pub log: Option<LogConfig>,
    pub webhook: Option<WebhookConfig>,
    /// Whether the events of an exec do not show its command.
    pub redacts_exec_arguments: bool,
}

/// Records requests. It exists only if there is a backend.
#[derive(Debug)]
pub struct Auditor {
    pub(super) policy: Policy,
    /// The name of this replica.
    pub(super) replica: String,
    pub(super) redacts_exec_arguments: bool,
    pub(super) backends: Vec<Backend>,
    pub(super) metrics: Metrics,
}

impl Auditor {
    /// Opens the log and the connection to the webhook.
    ///
    /// # Errors
    ///
    /// The log cannot be opened, or the kubeconfig of the webhook cannot be read.
    pub async fn open(
        config: Config,
        replica: &str,
        registry: &mut Registry,
    ) -> anyhow::Result<Option<Arc<Self>>> {
        let Config { policy, log, webhook, redacts_exec_arguments } = config;
        if log.is_none() && webhook.is_none() {
            return Ok(None);
        }
        let metrics = Metrics::register(registry);
        let mut backends = Vec::new();
        if let Some(log) = log {
            backends.push(log_file::start(log, metrics.errors_of("log")).context("audit-log-path")?);
        }
        if let Some(webhook) = webhook {
            let errors = metrics.errors_of("webhook");
            backends.push(webhook::start(webhook, errors).await.context("audit-webhook-config-file")?);
        }
        let replica = replica.to_owned();
        Ok(Some(Arc::new(Self { policy, replica, redacts_exec_arguments, backends, metrics })))
    }

    /// Stores the first event of a request before the request continues, if a backend's mode requires it;
    /// otherwise waits until each backend has room. Returns whether all have room.
    ///
    /// # Errors
    ///
    /// A backend in mode `blocking-strict` could not store it.
    pub(super) async fn begin(
        &self,
        event: Option<Rendered>,
        due: Option<Instant>,
    ) -> Result<bool, NotStored> {
        let until = Instant::now() + MAX_WAIT;
        let until = due.map_or(until, |due| due.min(until)).into();
        let (mut has_room, mut stored) = (true, Ok(()));
        for backend in &self.backends {
            let begun = backend.begin(event.as_ref(), until).await;
            has_room &= begun.has_room;
            if !begun.is_stored && backend.mode() == Mode::BlockingStrict {
                self.metrics.rejected.inc();
                stored = Err(NotStored);
            }
        }
        stored.map(|()| has_room)
    }

    pub(super) fn queue(&self, event: &Rendered, share: Share) {
        for backend in &self.backends {
            backend.queue(event, share);
        }
    }

    /// Waits until all queued events are stored, or `limit` has passed.
    pub async fn flush(&self, limit: Duration) {
        let all = async {
            for backend in &self.backends {
                backend.flush().await;
            }
        };
        if timeout(limit, all).await.is_err() {
            error!("audit events were not stored before the shutdown");
        }
    }
}

/// A request that must be recorded could not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to store audit event")]
pub struct NotStored;

/// Maximum wait of a request for its first event. Afterwards a backend in mode `blocking` lets it continue.
const MAX_WAIT: Duration = Duration::from_secs(30);
