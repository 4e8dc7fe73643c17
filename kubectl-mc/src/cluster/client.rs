//! Sends requests to the host with the caller's credential. Only this module sets up the async runtime and
//! TLS, so commands without a request do not pay for them.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, header, response};
use jiff::Timestamp;
use kube::client::Body;
use kube::config::KubeConfigOptions;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::argv::Scanned;
use crate::child_output::LIMIT;
use crate::cluster::context::ClusterContext;
use crate::cluster::credential::{Obtained, Plugin};
use crate::cluster::hop::{self, Hop, Refusal};
use crate::cluster::hub::Hub;
use crate::cluster::transport::{Refused, Transport};
use crate::env::Env;
use crate::error::causes;
use crate::log::Log;
use crate::server_text::ServerText;

mod answer;
mod authorized;
mod build;
pub(in crate::cluster) mod error;
pub(in crate::cluster) mod identity;
mod logged;

use answer::BodyError;
pub(crate) use answer::READ_TIMEOUT;
pub(crate) use authorized::authorized;
pub(crate) use build::CONNECT_TIMEOUT;
pub(crate) use error::ClientError;
pub(crate) use logged::logged;

/// A response of a server, with any status.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    /// The hop that the response header names; the host's own responses name none.
    pub(crate) hop: Option<Hop>,
    /// The server's clock, from the `Date` header.
    pub(crate) date: Option<Timestamp>,
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) fn new(head: &response::Parts, body: Bytes) -> Self {
        let date = head.headers.get(header::DATE).and_then(|date| http_date(date.to_str().ok()?));
        Self { status: head.status, hop: hop::from_head(&head.headers), date, body }
    }

    /// The refusal of a hop before the member; `None` for a success and for the member's own response.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        let is_success = self.status.is_success();
        if is_success { None } else { Refusal::of(self.status, self.hop, &self.body) }
    }

    /// The same for a request to this path of a member behind the hub.
    pub(crate) fn refusal_before(&self, hub: &Hub, path: &str) -> Option<Refusal> {
        let is_marked = hub.dialect.may_be_sidecar() && self.hop.is_some();
        let refusal = match self.status.is_success() {
            true => None,
            false if hub.dialect.is_own() || is_marked => self.refusal(),
            false => Refusal::by_hub(&hub.dialect, self.status, &self.body, path),
        };
        refusal.inspect(|refusal| refusal.doubts(hub))
    }

    /// The message of a Status, or the body as text.
    pub(crate) fn message(&self) -> ServerText {
        hop::message(self.status, &self.body)
    }

    /// The body as JSON; null if it is not JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// GETs `path`, below the host's own path prefix. Respects the flags of kubectl in `scanned` that change the
/// caller or the trust in the host.
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

/// The runtime of a command. One thread is enough, because the command mostly waits.
pub(crate) fn runtime() -> Result<Runtime, ClientError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| ClientError::Setup(Box::new(error)))
}

/// GETs a path with an existing client, so that many requests share one login and one connection
/// pool.
pub(crate) async fn get_by(client: &kube::Client, path: &str, accept: &str) -> Result<Reply, ClientError> {
    let request = Request::get(path)
        .header(header::ACCEPT, accept)
        .header(header::USER_AGENT, concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")))
        .body(Body::empty());
    send(client, request.map_err(|error| ClientError::Setup(Box::new(error)))?).await
}

/// Sends any request. Every status is a result; a missing or oversized response is an error.
pub(crate) async fn send(client: &kube::Client, request: Request<Body>) -> Result<Reply, ClientError> {
    send_limited(client, request, MAX_ANSWER).await
}

/// Sends a request with a size limit in bytes for the response, for many members in parallel.
pub(crate) async fn send_limited(
    client: &kube::Client,
    request: Request<Body>,
    limit: usize,
) -> Result<Reply, ClientError> {
    let (head, body) = client.send(request).await.map_err(failed)?.into_parts();
    match answer::body(body, limit).await {
        Ok(body) => Ok(Reply::new(&head, body)),
        Err(BodyError::TooLarge) => Err(ClientError::TooLarge(limit)),
        Err(BodyError::TooSlow(reason)) => Err(ClientError::Unreachable(reason)),
        Err(BodyError::Failed(error)) => Err(failed(error)),
    }
}

/// A client of the host, with the caller's credential.
pub(crate) async fn connection(
    host: &ClusterContext,
    scanned: &Scanned,
    env: &Env,
) -> Result<kube::Client, ClientError> {
    connect(host, scanned, env, Some(READ_TIMEOUT)).await
}

/// The same without a limit on the time between two reads, for the streams of kubectl.
pub(crate) async fn unlimited_connection(
    host: &ClusterContext,
    scanned: &Scanned,
    env: &Env,
) -> Result<kube::Client, ClientError> {
    connect(host, scanned, env, None).await
}

async fn connect(
    host: &ClusterContext,
    scanned: &Scanned,
    env: &Env,
    read_timeout: Option<Duration>,
) -> Result<kube::Client, ClientError> {
    let (host, source) = with_credential(host, scanned, env).await?;
    let transport = transport_of(&host, scanned, env)?;
    let client = without_credential(&transport, read_timeout)?;
    let client = authorized(client, transport.authorization, source);
    Ok(logged(client, &host.server, Log::new(env)))
}

/// The address of the host and the identity of the caller. Runs the credential plugin if there is one.
pub(crate) async fn transport(
    host: &ClusterContext,
    scanned: &Scanned,
    env: &Env,
) -> Result<Transport, ClientError> {
    let (host, _) = with_credential(host, scanned, env).await?;
    transport_of(&host, scanned, env)
}

/// A client without a credential in `Authorization`.
pub(crate) fn without_credential(
    transport: &Transport,
    read_timeout: Option<Duration>,
) -> Result<kube::Client, ClientError> {
    build::client(transport, read_timeout).map_err(|error| ClientError::Setup(Box::new(error)))
}

/// The host with the credential of its plugin, and the source of a token that expires.
async fn with_credential(
    host: &ClusterContext,
    scanned: &Scanned,
    env: &Env,
) -> Result<(ClusterContext, Option<(Plugin, Obtained)>), ClientError> {
    let Some(plugin) = Plugin::of(host, scanned, env) else { return Ok((host.clone(), None)) };
    let obtained = plugin.within(Some(LIMIT), plugin.obtain_beside()).await?.map_err(ClientError::Setup)?;
    let host = obtained.clone().used_by(host.clone(), plugin.user().to_owned());
    let is_renewable = obtained.expires() && obtained.token().is_some();
    Ok((host, is_renewable.then_some((plugin, obtained))))
}

/// The connection of a context whose plugin has already run. The kube crate does not get the
/// kubeconfig, so that it cannot run a program from it.
pub(crate) fn transport_of(
    host: &ClusterContext,
    scanned: &Scanned,
    env: &Env,
) -> Result<Transport, ClientError> {
    let (mut kubeconfig, options) = (host.kubeconfig.clone(), options(host, scanned));
    identity::apply(&mut kubeconfig, &options, scanned).map_err(ClientError::Setup)?;
    let transport = Transport::of(kubeconfig, &options, &host.server, env);
    transport.map_err(|error| ClientError::Setup(Box::new(error)))
}

fn options(host: &ClusterContext, scanned: &Scanned) -> KubeConfigOptions {
    let user = scanned.value("user").and_then(|user| user.to_str()).map(str::to_owned);
    KubeConfigOptions { context: host.context.clone(), cluster: None, user }
}

/// Classifies the error of a failed request.
pub(crate) fn failed(error: kube::Error) -> ClientError {
    let error: Box<dyn Error + Send + Sync> = match error {
        kube::Error::Service(error) => error,
        error => Box::new(error),
    };
    // The renewal of the credential failed.
    let error = match error.downcast::<ClientError>() {
        Ok(error) => return *error,
        Err(error) => error,
    };
    if matches!(error.downcast_ref(), Some(kube::Error::Auth(_))) {
        ClientError::Setup(error)
    } else if let Some(refused) = Refused::among(causes(&*error)) {
        ClientError::Tls(Box::new(refused))
    } else if causes(&*error).any(|cause| cause.is::<rustls::Error>()) {
        ClientError::Tls(error)
    } else {
        ClientError::Unreachable(error)
    }
}

/// Parses the `Date` header (RFC 9110, 5.6.7).
fn http_date(text: &str) -> Option<Timestamp> {
    jiff::fmt::rfc2822::parse(text).ok().map(|date| date.timestamp())
}

/// More than needed for a list of 5,000 clusters or a discovery document.
const MAX_ANSWER: usize = 64 * 1024 * 1024;
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
        assert_eq!(
            message("{}"),
            "the server responded with the status code 403 but did not return more information"
        );
    }
}
