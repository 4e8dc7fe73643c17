//! Requests to the host with the caller's credential. The runtime and TLS are set up here only, so commands without
//! a request do not pay for them.

use std::error::Error;
use std::io::IsTerminal;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, header, response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use jiff::Timestamp;
use kube::client::Body;
use kube::config::{ExecInteractiveMode, KubeConfigOptions, Kubeconfig};
use kubectl_mc_api::dialect::Dialect;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::argv::Scanned;
use crate::cluster::context::ClusterContext;
use crate::cluster::credential;
use crate::cluster::hop::{self, Hop, Refusal};
use crate::env::Env;
use crate::error::{Explain, causes, chain};
use crate::log::Log;
use crate::server_text::ServerText;

mod identity;
mod logged;
mod proxy;
mod traced;

pub(crate) use logged::logged;
pub(crate) use proxy::from_environment as proxy_from_environment;
pub(crate) use traced::traced;

/// An answer of a server, whatever its status.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    /// The hop that the head names; the host's own answers name none.
    pub(crate) hop: Option<Hop>,
    /// The server's clock.
    pub(crate) date: Option<Timestamp>,
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) fn new(head: &response::Parts, body: Bytes) -> Self {
        let date = head.headers.get(header::DATE).and_then(|date| http_date(date.to_str().ok()?));
        Self { status: head.status, hop: hop::from_head(&head.headers), date, body }
    }

    /// The refusal of a hop before the member; `None` for a success and for the member's own answer.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        let is_success = self.status.is_success();
        if is_success { None } else { Refusal::of(self.status, self.hop, &self.body) }
    }

    /// The same for an answer of a member behind this hub, or of a hop before it, to a request for this path of the member.
    pub(crate) fn refusal_before(&self, dialect: &Dialect, path: &str) -> Option<Refusal> {
        let is_marked = dialect.may_be_sidecar() && self.hop.is_some();
        if dialect.is_own() || is_marked {
            return self.refusal();
        }
        let is_success = self.status.is_success();
        if is_success { None } else { Refusal::by_hub(dialect, self.status, &self.body, path) }
    }

    /// What a Status says, or the text.
    pub(crate) fn message(&self) -> ServerText {
        let message = hop::message(&self.body);
        if message.is_empty() { self.status.to_string().into() } else { message }
    }

    /// The object in it; null when the body is not JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// The kubeconfig asks for something that this client cannot do, or the credential cannot be had.
    #[error("cannot set up the connection")]
    Setup(#[source] Box<dyn Error + Send + Sync>),
    /// The credential may only be asked for at a terminal.
    #[error("the credential plugin needs a terminal")]
    NeedsTerminal,
    /// TLS failed. Go accepts some certificates that rustls does not (a self-signed one that says it is
    /// a CA), so this need not be true of kubectl.
    #[error("cannot establish TLS with the host")]
    Tls(#[source] Box<dyn Error + Send + Sync>),
    /// The answer does not end where any answer does.
    #[error("the answer is larger than {} MiB", .0 / 1024 / 1024)]
    TooLarge(usize),
    /// The host did not answer.
    #[error("cannot reach the host")]
    Unreachable(#[source] Box<dyn Error + Send + Sync>),
}

impl Explain for ClientError {}

/// Why a cluster gave no answer, with its name.
#[derive(Debug, thiserror::Error)]
#[error("{failed} {cluster}: {reason}")]
pub(crate) struct NoAnswer {
    failed: &'static str,
    cluster: String,
    reason: String,
    hint: Option<&'static str>,
}

impl Explain for NoAnswer {
    fn hint(&self) -> Option<String> {
        self.hint.map(str::to_owned)
    }
}

/// The next step where a cluster cannot be reached.
pub(crate) const CHECK_NETWORK: &str = "check the network, and the server of the kubeconfig context";

impl ClientError {
    /// The same with the name of the cluster.
    pub(crate) fn of(&self, cluster: String) -> NoAnswer {
        let (failed, reason, hint) = match self {
            Self::Unreachable(_) => ("cannot reach", self.reason(), Some(CHECK_NETWORK)),
            Self::Tls(_) => ("cannot establish TLS with", self.reason(), None),
            Self::Setup(_) | Self::NeedsTerminal | Self::TooLarge(_) => ("cannot use", chain(self), None),
        };
        NoAnswer { failed, cluster, reason, hint }
    }

    /// What happened, in the words of the innermost library, because "client error (Connect)" says too little.
    pub(crate) fn reason(&self) -> String {
        let cause = self.source().map(|cause| cause.source().unwrap_or(cause));
        cause.map_or_else(|| self.to_string(), chain)
    }
}

/// GETs `path`, below the host's own path prefix. The flags of kubectl in `scanned` that change who
/// calls or how the host is trusted are kept to.
pub(crate) fn get(
    host: &ClusterContext,
    scanned: &Scanned,
    env: &Env,
    path: &str,
    accept: &str,
) -> Result<Reply, ClientError> {
    runtime()?.block_on(async {
        let client = connection(host, scanned, env).await?;
        get_by(&client, path, accept).await
    })
}

/// The runtime of a command: one thread, because it waits and does not reckon.
pub(crate) fn runtime() -> Result<Runtime, ClientError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| ClientError::Setup(Box::new(error)))
}

/// The same by a client that is there already: one login and one pool of connections for many requests.
pub(crate) async fn get_by(client: &kube::Client, path: &str, accept: &str) -> Result<Reply, ClientError> {
    let request = Request::get(path)
        .header(header::ACCEPT, accept)
        .header(header::USER_AGENT, concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")))
        .body(Body::empty());
    send(client, request.map_err(|error| ClientError::Setup(Box::new(error)))?).await
}

/// Any request. Only no answer at all is an error, and one that does not end.
pub(crate) async fn send(client: &kube::Client, request: Request<Body>) -> Result<Reply, ClientError> {
    send_limited(client, request, MAX_ANSWER).await
}

/// The same with a limit in bytes, for answers of many members at once.
pub(crate) async fn send_limited(
    client: &kube::Client,
    request: Request<Body>,
    limit: usize,
) -> Result<Reply, ClientError> {
    let (head, body) = client.send(request).await.map_err(failed)?.into_parts();
    match Limited::new(body, limit).collect().await {
        Ok(body) => Ok(Reply::new(&head, body.to_bytes())),
        Err(error) if error.is::<LengthLimitError>() => Err(ClientError::TooLarge(limit)),
        Err(error) => Err(match error.downcast() {
            Ok(error) => failed(*error),
            Err(error) => ClientError::Unreachable(error),
        }),
    }
}

/// A client of the host, with the caller's credential.
pub(crate) async fn connection(
    host: &ClusterContext,
    scanned: &Scanned,
    env: &Env,
) -> Result<kube::Client, ClientError> {
    let mut config = config(host, scanned, env).await?;
    config.read_timeout = Some(READ_TIMEOUT);
    let exec = config.auth_info.exec.clone();
    let client = kube::Client::try_from(config).map_err(|error| {
        match credential::explained(&error, exec.as_ref()) {
            Some(reason) => ClientError::Setup(reason.into()),
            None => ClientError::Setup(Box::new(error)),
        }
    })?;
    Ok(traced(logged(client, &host.server, Log::new(env))))
}

/// How the host is reached, and as whom. The credential plugin, if there is one, runs here.
pub(crate) async fn config(
    host: &ClusterContext,
    scanned: &Scanned,
    env: &Env,
) -> Result<kube::Config, ClientError> {
    let setup = |error: Box<dyn Error + Send + Sync>| ClientError::Setup(error);
    let (mut kubeconfig, options) = (host.kubeconfig.clone(), options(host, scanned));
    identity::apply(&mut kubeconfig, &options, scanned).map_err(setup)?;
    keep_stdin(&mut kubeconfig, std::io::stdin().is_terminal())?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.map_err(|error| setup(Box::new(error)))?;
    config.cluster_url = host.server.parse().map_err(|error| setup(Box::new(error)))?;
    if host.cluster.proxy_url.as_deref().is_none_or(str::is_empty) {
        config.proxy_url = proxy::from_environment(&config.cluster_url, env);
    }
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    // kube's default would end quiet watches.
    config.read_timeout = None;
    // The first answer is the one to show.
    config.default_retry = false;
    Ok(config)
}

fn options(host: &ClusterContext, scanned: &Scanned) -> KubeConfigOptions {
    let user = scanned.value("user").and_then(|user| user.to_str()).map(str::to_owned);
    KubeConfigOptions { context: host.context.clone(), cluster: None, user }
}

/// client-go gives a credential plugin standard input only when it is a terminal. Otherwise it is
/// the data of the command (`apply -f -`), which the plugin must not eat.
fn keep_stdin(kubeconfig: &mut Kubeconfig, terminal: bool) -> Result<(), ClientError> {
    if terminal {
        return Ok(());
    }
    for exec in kubeconfig.auth_infos.iter_mut().filter_map(|entry| entry.auth_info.as_mut()?.exec.as_mut()) {
        if exec.interactive_mode == Some(ExecInteractiveMode::Always) {
            return Err(ClientError::NeedsTerminal);
        }
        exec.interactive_mode = Some(ExecInteractiveMode::Never);
    }
    Ok(())
}

/// What a failed request of this client means.
pub(crate) fn failed(error: kube::Error) -> ClientError {
    let error: Box<dyn Error + Send + Sync> = match error {
        kube::Error::Service(error) => error,
        error => Box::new(error),
    };
    if matches!(error.downcast_ref(), Some(kube::Error::Auth(_))) {
        ClientError::Setup(error)
    } else if causes(&*error).any(|cause| cause.is::<rustls::Error>()) {
        ClientError::Tls(error)
    } else {
        ClientError::Unreachable(error)
    }
}

/// The `Date` header (RFC 9110, 5.6.7).
fn http_date(text: &str) -> Option<Timestamp> {
    jiff::fmt::rfc2822::parse(text).ok().map(|date| date.timestamp())
}

/// Long enough for a slow link; kubectl's own is 30 s and is tried five times.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Lists of 5,000 clusters are smaller, and so are the documents of APIs.
const MAX_ANSWER: usize = 64 * 1024 * 1024;
/// Longer than the sidecar needs to find out that a member does not answer.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_clock_comes_from_the_date_header() {
        let there = http_date("Sat, 21 Nov 2026 20:50:41 GMT").unwrap();
        assert_eq!(there.to_string(), "2026-11-21T20:50:41Z");
    }

    #[test]
    fn answer_message_comes_from_its_status() {
        let message = |body: &'static str| {
            let reply = Reply { status: StatusCode::FORBIDDEN, hop: None, date: None, body: body.into() };
            reply.message().raw().to_owned()
        };
        assert_eq!(message(r#"{"message": "no"}"#), "no");
        assert_eq!(message("an error page\n"), "an error page");
        assert_eq!(message("{}"), "403 Forbidden");
    }
}
