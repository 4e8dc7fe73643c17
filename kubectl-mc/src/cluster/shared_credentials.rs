//! Obtains the credentials of several contexts: plugins run in parallel, and identical plugin calls run once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OnceCell};

use crate::argv::Scanned;
use crate::cluster::client::ClientError;
use crate::cluster::context::ClusterContext;
use crate::cluster::credential::{Obtained, Plugin};

/// The credential of a plugin, or its error.
type Answer = Arc<OnceCell<Result<Obtained, String>>>;

#[derive(Clone, Default)]
pub(crate) struct SharedCredentials {
    answers: Arc<Mutex<HashMap<String, Answer>>>,
    /// Only one plugin at a time may prompt at the terminal.
    terminal: Arc<Mutex<()>>,
}

impl SharedCredentials {
    /// The context with the credential of its plugin; unchanged if the user has no plugin. `limit` is the
    /// timeout of a plugin that cannot prompt.
    pub(crate) async fn obtain(
        &self,
        context: &ClusterContext,
        scanned: &Scanned,
        limit: Option<Duration>,
    ) -> Result<ClusterContext, ClientError> {
        let context = context.clone();
        let Some(plugin) = Plugin::of(&context, scanned) else { return Ok(context) };
        let answer = Arc::clone(self.answers.lock().await.entry(plugin.key()).or_default());
        let run = answer.get_or_init(|| self.run(&plugin));
        let obtained = plugin.within(limit, run).await?;
        let obtained = obtained.clone().map_err(|reason| ClientError::Setup(reason.into()))?;
        Ok(obtained.used_by(context, plugin.user().to_owned()))
    }

    async fn run(&self, plugin: &Plugin) -> Result<Obtained, String> {
        let _terminal = match plugin.may_ask() {
            true => Some(self.terminal.lock().await),
            false => None,
        };
        plugin.obtain_beside().await.map_err(|error| error.to_string())
    }
}
