//! The login that all members share, and that of each context. When a server rejects a credential that came from a
//! plugin, the plugin runs again, once for all requests, as in client-go.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, watch};

use super::{Task, pool};
use crate::argv::Scanned;
use crate::cluster::client::ClientError;
use crate::cluster::context::ClusterContext;
use crate::cluster::credential;
use crate::cluster::reach::HostReach;
use crate::cluster::shared_credentials::SharedCredentials;
use crate::env::Env;

/// A client that may be made anew.
#[derive(Clone)]
pub(super) struct Login(Arc<Shared>);

struct Shared {
    current: watch::Sender<Option<Current>>,
    /// One asks for all.
    renewing: Mutex<()>,
    again: Option<Again>,
    /// Where the first credential comes from, when it is not there at the start.
    first: Option<SharedCredentials>,
}

#[derive(Clone)]
struct Current {
    client: kube::Client,
    /// How often it was made anew.
    round: u64,
    /// Whether the server has taken this credential before.
    taken: bool,
}

/// What it takes to log in again.
struct Again {
    context: ClusterContext,
    scanned: Scanned,
    env: Env,
    streams: usize,
    /// Timeout of a plugin that cannot prompt.
    limit: Option<Duration>,
}

impl Again {
    fn new(context: &ClusterContext, task: &Task<'_>, streams: usize) -> Self {
        let (scanned, env) = (task.scanned.clone(), task.env.clone());
        Self { context: context.clone(), scanned, env, streams, limit: task.timeout }
    }

    async fn open(&self, context: &ClusterContext) -> Result<kube::Client, ClientError> {
        pool::open(context, &self.scanned, &self.env, self.streams).await
    }
}

impl Login {
    /// Logs in at the host, with one client that bears so many lasting streams.
    pub(super) async fn at_host(
        host: &HostReach,
        task: &Task<'_>,
        streams: usize,
    ) -> Result<Self, ClientError> {
        let client = pool::open(&host.through, task.scanned, task.env, streams).await?;
        let again = host.plugin().map(|found| Again::new(found, task, streams));
        // The first one is worth a second try: a plugin may have kept one that has run out.
        let current = watch::Sender::new(Some(Current { client, round: 0, taken: true }));
        Ok(Self(Arc::new(Shared { current, renewing: Mutex::new(()), again, first: None })))
    }

    /// Logs in at a context when it is first asked.
    pub(super) fn at_context(
        context: &ClusterContext,
        task: &Task<'_>,
        credentials: &SharedCredentials,
        streams: usize,
    ) -> Self {
        let again = Some(Again::new(context, task, streams));
        let (current, first) = (watch::Sender::new(None), Some(credentials.clone()));
        Self(Arc::new(Shared { current, renewing: Mutex::new(()), again, first }))
    }

    /// The client, and which one it is.
    pub(super) async fn client(&self) -> Result<(kube::Client, u64), ClientError> {
        if let Some(Current { client, round, .. }) = self.current() {
            return Ok((client, round));
        }
        let _alone = self.0.renewing.lock().await;
        match (self.current(), &self.0.again, &self.0.first) {
            (None, Some(again), Some(credentials)) => {
                let context = credentials.obtain(&again.context, &again.scanned, again.limit).await?;
                let client = again.open(&context).await?;
                self.0.current.send_replace(Some(Current { client: client.clone(), round: 0, taken: true }));
                Ok((client, 0))
            }
            (Some(Current { client, round, .. }), ..) => Ok((client, round)),
            (None, ..) => Err(ClientError::Setup("internal error: no login".into())),
        }
    }

    fn current(&self) -> Option<Current> {
        self.0.current.borrow().clone()
    }

    /// The server has taken the credential of this client.
    pub(super) fn taken(&self, taken: u64) {
        self.0.current.send_modify(|current| {
            if let Some(current) = current {
                current.taken |= current.round == taken;
            }
        });
    }

    /// The server has refused the credential of this client: whether there is another to try.
    pub(super) async fn renew(&self, refused: u64) -> Result<bool, ClientError> {
        let Some(again) = &self.0.again else { return Ok(false) };
        let _alone = self.0.renewing.lock().await;
        let (round, taken) = self.current().map_or((0, true), |current| (current.round, current.taken));
        if round != refused || !taken {
            // Another request renewed it before, or the plugin returned the same credential.
            return Ok(round != refused);
        }
        let Some(plugin) = credential::Plugin::of(&again.context, &again.scanned) else { return Ok(false) };
        let obtained = plugin.obtain_beside().await.map_err(ClientError::Setup)?;
        let client = again.open(&obtained.used_by(again.context.clone(), plugin.user().to_owned())).await?;
        self.0.current.send_replace(Some(Current { client, round: refused + 1, taken: false }));
        Ok(true)
    }
}
