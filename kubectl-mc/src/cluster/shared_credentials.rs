//! Obtains the credentials of several contexts: plugins run in parallel, and identical plugin calls run once
//! until the credential expires.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OnceCell};

use crate::argv::Scanned;
use crate::cluster::client::ClientError;
use crate::cluster::context::ClusterContext;
use crate::cluster::credential::{Obtained, Plugin};
use crate::env::Env;

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
        env: &Env,
        limit: Option<Duration>,
    ) -> Result<ClusterContext, ClientError> {
        context.check_usable().map_err(|failure| ClientError::Setup(failure.to_string().into()))?;
        let context = context.clone();
        let Some(plugin) = Plugin::of(&context, scanned, env) else { return Ok(context) };
        let answer = self.answer(plugin.key()).await;
        let run = answer.get_or_init(|| self.run(&plugin));
        let obtained = plugin.within(limit, run).await?;
        let obtained = obtained.clone().map_err(|reason| ClientError::Setup(reason.into()))?;
        Ok(obtained.used_by(context, plugin.user().to_owned()))
    }

    /// The place of the plugin's answer; a new one if the credential has expired.
    async fn answer(&self, key: String) -> Answer {
        let mut answers = self.answers.lock().await;
        let answer = answers.entry(key).or_default();
        if answer.get().is_some_and(|answer| answer.as_ref().is_ok_and(|obtained| !obtained.is_valid())) {
            *answer = Answer::default();
        }
        Arc::clone(answer)
    }

    async fn run(&self, plugin: &Plugin) -> Result<Obtained, String> {
        let _terminal = match plugin.may_ask() {
            true => Some(self.terminal.lock().await),
            false => None,
        };
        plugin.obtain_beside().await.map_err(|error| error.to_string())
    }
}
