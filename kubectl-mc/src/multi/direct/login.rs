//! The login that all members share. When the host rejects a credential that came from a plugin, the plugin runs
//! again, once for all requests, as in client-go.

use std::sync::Arc;

use tokio::sync::{Mutex, watch};

use super::{Task, pool};
use crate::argv::Scanned;
use crate::cluster::client::ClientError;
use crate::cluster::context::ClusterContext;
use crate::cluster::credential;
use crate::env::Env;

/// A client of the host that may be made anew.
#[derive(Clone)]
pub(super) struct Login(Arc<Shared>);

struct Shared {
    current: watch::Sender<Current>,
    /// One asks for all.
    renewing: Mutex<()>,
    again: Option<Again>,
}

struct Current {
    client: kube::Client,
    /// How often it was made anew.
    round: u64,
    /// Whether the host has taken this credential before.
    taken: bool,
}

/// What it takes to log in again.
struct Again {
    host: ClusterContext,
    scanned: Scanned,
    env: Env,
    streams: usize,
}

impl Login {
    /// Logs in, with one client that bears so many lasting streams.
    pub(super) async fn new(task: &Task<'_>, streams: usize) -> Result<Self, ClientError> {
        let client = pool::open(task.host, task.scanned, task.env, streams).await?;
        let again = task.plugin.map(|host| Again {
            host: host.clone(),
            scanned: task.scanned.clone(),
            env: task.env.clone(),
            streams,
        });
        // The first one is worth a second try: a plugin may have kept one that has run out.
        let current = watch::Sender::new(Current { client, round: 0, taken: true });
        Ok(Self(Arc::new(Shared { current, renewing: Mutex::new(()), again })))
    }

    /// The client, and which one it is.
    pub(super) fn client(&self) -> (kube::Client, u64) {
        let current = self.0.current.borrow();
        (current.client.clone(), current.round)
    }

    /// The host has taken the credential of this client.
    pub(super) fn taken(&self, round: u64) {
        self.0.current.send_modify(|current| current.taken |= current.round == round);
    }

    /// The host has refused the credential of this client: whether there is another to try.
    pub(super) async fn renew(&self, refused: u64) -> Result<bool, ClientError> {
        let Some(again) = &self.0.again else { return Ok(false) };
        let _alone = self.0.renewing.lock().await;
        let (round, taken) = {
            let current = self.0.current.borrow();
            (current.round, current.taken)
        };
        if round != refused || !taken {
            // Another request renewed it before, or the plugin returned the same credential.
            return Ok(round != refused);
        }
        let (host, scanned) = (again.host.clone(), again.scanned.clone());
        let host = tokio::task::spawn_blocking(move || credential::obtain_once(host, &scanned)).await;
        let host = host.map_err(|error| ClientError::Setup(Box::new(error)))??;
        let client = pool::open(&host, &again.scanned, &again.env, again.streams).await?;
        self.0.current.send_replace(Current { client, round: refused + 1, taken: false });
        Ok(true)
    }
}
