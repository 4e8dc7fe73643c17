//! Sends requests to one member: plain requests over a pool of HTTP/1.1 connections, and each upgrade over a
//! new connection. Only [`Prepared`] requests are sent.
//!
//! The sidecar uses HTTP/1.1, because a pooled HTTP/2 connection admits 100 streams and hyper opens no second
//! one (hyperium/hyper#3623): a hundred watches would block all other requests.

use std::error::Error as StdError;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::uri::InvalidUri;
use http::{Response, StatusCode, header};
use hyper::body::Incoming;
use jiff::Timestamp;
use kubectl_mc_api::ClusterName;
use prometheus_client::metrics::gauge::Gauge;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use crate::base::causes::{causes, innermost};
use crate::base::retry;
use crate::base::tcp;
use crate::outbound::tunnel::purpose::Purpose;
use crate::outbound::tunnel::registry::{AgentTunnels, DialError};

pub mod breaker;
pub mod connect;
pub mod connection;
pub mod grant;
pub mod outgoing;
mod own_connection;
mod pool;
pub mod prepared;
mod refusal;
pub mod sidecar_client;
mod stream;
mod timeouts;

use breaker::{Attempt, Breaker, Unreachable};
use connect::Connector;
use connection::Connection;
use grant::Grant;
pub use own_connection::OwnConnection;
pub use pool::MemberBody;
use pool::{Failed, Pool, http1_builder};
use prepared::Prepared;
use refusal::Refusal;
use stream::TooMuch;
use timeouts::is_timeout;

/// The connection and the credential of one member, from one version of its Secret.
#[derive(Debug)]
pub struct Upstream {
    cluster: ClusterName,
    connection: Connection,
    breaker: Arc<Breaker>,
    connector: Connector,
    pool: Pool,
    grant: OnceLock<Grant>,
}

/// Which connection a request may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// An idle connection from the pool, if there is one.
    Any,
    New,
}

/// A member's answer to an upgrade, on its own connection.
pub enum Exchange {
    /// The member switched to the protocol that its head names.
    Switched { response: Response<Incoming>, connection: OwnConnection },
    /// The member did not switch. The connection ends with the body.
    Refused { response: Response<MemberBody> },
}

impl Exchange {
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Switched { response, .. } => response.status(),
            Self::Refused { response } => response.status(),
        }
    }
}

impl Upstream {
    /// `unreachable` counts unreachable members; `tunnels` lead to members with an agent.
    pub fn new(
        cluster: ClusterName,
        connection: Connection,
        unreachable: Gauge,
        tunnels: &Arc<AgentTunnels>,
    ) -> Result<Self, connection::Error> {
        let breaker = Arc::new(Breaker::new(cluster.clone(), unreachable));
        let connector = Connector::new(&cluster, &connection, breaker.clone(), tunnels)?;
        let pool = Pool::new(connector.clone());
        Ok(Self { cluster, connection, breaker, connector, pool, grant: OnceLock::new() })
    }

    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Closes idle connections that are surplus or too old.
    pub fn sweep(&self) {
        self.pool.sweep();
    }

    /// Whether this replica considers the member unreachable.
    pub fn is_unreachable(&self) -> bool {
        self.breaker.is_open()
    }

    /// Since when requests have failed, and why, if the member has not answered since then.
    pub fn failure(&self) -> Option<(Timestamp, String)> {
        self.breaker.failure()
    }

    /// Number of idle connections.
    pub fn idle_connections(&self) -> usize {
        self.pool.idle()
    }

    /// Applies the result of the leader's probes: since when and why the member is unreachable, or `None` if
    /// it is reachable.
    pub fn reported(&self, unreachable: Option<(Timestamp, &str)>) {
        match unreachable {
            Some((since, reason)) => self.breaker.reported(since, reason),
            None => self.breaker.reported_reachable(),
        }
    }

    /// Sends a request over a pooled connection.
    pub async fn send(&self, prepared: Prepared, over: Over) -> Result<Response<MemberBody>, Error> {
        let _attempt = self.admit().await?;
        let inner_proxy = prepared.is_inner_proxy();
        let request = prepared.into_request();
        let sent = match over {
            Over::Any => self.pool.send(request).await,
            Over::New => self.pool.send_anew(request).await,
        };
        let response = sent.map_err(|failed| self.failed(failed))?;
        self.breaker.answered();
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Error::Switched { cluster: self.cluster.clone() });
        }
        self.checked(response, inner_proxy).await
    }

    /// Sends an upgrade over its own connection.
    pub async fn upgrade(&self, prepared: Prepared) -> Result<Exchange, Error> {
        let _attempt = self.admit().await?;
        let lost = |error| self.failed(Failed::New(error));
        let io = self
            .connector
            .connect(Purpose::Any)
            .await
            .map_err(|error| self.failed(Failed::Connect(error)))?;
        let (transport, _) = io.inner().get_ref().get_ref();
        let (socket, stream) = (connect::socket(transport), connect::agent_stream(transport));
        let before_head = io.inner().hook().clone();
        before_head.begin();
        let (mut sender, connection) = http1_builder().handshake(io).await.map_err(lost)?;
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            // The response or the splice reports how the connection ended.
            let _ = connection.with_upgrades().await;
        }));
        let inner_proxy = prepared.is_inner_proxy();
        let request = prepared.into_request();
        let response = sender.send_request(request).await.map_err(lost)?;
        before_head.end();
        self.breaker.answered();
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let connection = OwnConnection::new(task, socket, stream);
            return Ok(Exchange::Switched { response, connection });
        }
        let connection = OwnConnection::new(task, None, stream);
        let response = response.map(|body| MemberBody::alone(body, Some(connection)));
        Ok(Exchange::Refused { response: self.checked(response, inner_proxy).await? })
    }

    /// Turns answers that must not reach the caller into errors. A program behind an inner proxy has its own
    /// logins, so its 401 does not concern the sidecar's credential.
    async fn checked(
        &self,
        response: Response<MemberBody>,
        inner_proxy: bool,
    ) -> Result<Response<MemberBody>, Error> {
        let cluster = || self.cluster.clone();
        match response.status() {
            // A forwarded 401 would make the caller log in again, although the member refused the sidecar's
            // credential.
            StatusCode::UNAUTHORIZED if !inner_proxy => Err(Error::Credential { cluster: cluster() }),
            // A redirect would send the credential or the caller to another server (CVE-2022-3172).
            status
                if status.is_redirection()
                    && !inner_proxy
                    && response.headers().contains_key(header::LOCATION) =>
            {
                Err(Error::Redirect { cluster: cluster(), status })
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                match Box::pin(refusal::read(response)).await? {
                    (_, Some(Refusal::Credential)) => Err(Error::Credential { cluster: cluster() }),
                    (_, Some(Refusal::Impersonation(message))) => Err(Error::Impersonation {
                        cluster: cluster(),
                        message,
                        lacking: None,
                        waited: false,
                    }),
                    (response, None) => Ok(response),
                }
            }
            _ => Ok(response),
        }
    }

    async fn admit(&self) -> Result<Attempt<'_>, Error> {
        let mut attempt = self.breaker.admit().map_err(|cause| self.open_error(cause))?;
        if attempt.is_trial() {
            Box::pin(self.try_out(&mut attempt)).await?;
        }
        Ok(attempt)
    }

    /// Tries to connect to a member that was unreachable. The attempt may use the whole connect timeout, but
    /// the caller gets an answer after [`TRIAL_WAIT`]. Otherwise one caller would wait for the whole connect timeout
    /// after each pause.
    async fn try_out(&self, attempt: &mut Attempt<'_>) -> Result<(), Error> {
        let connector = self.connector.clone();
        attempt.hand_over();
        let opened = tokio::spawn(async move { connector.connect(Purpose::Requests).await.map(drop) });
        match timeout(TRIAL_WAIT, opened).await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(error))) => Err(self.failed(Failed::Connect(error))),
            Ok(Err(_)) | Err(_) => self.breaker.refusal().map_or(Ok(()), |cause| Err(self.open_error(cause))),
        }
    }

    fn open_error(&self, cause: Unreachable) -> Error {
        Error::Open { cluster: self.cluster.clone(), cause: Box::new(cause) }
    }

    /// Reports a failure before an answer to the breaker, and turns it into the request's error.
    fn failed(&self, failed: Failed) -> Error {
        let cluster = self.cluster.clone();
        match failed {
            // The connector has already reported it to the breaker.
            Failed::Connect(error) => match error.downcast() {
                Ok(cause) => Error::Agent { cluster, cause },
                Err(error) => Error::Unreachable { cluster, reason: innermost(error.as_ref()) },
            },
            Failed::New(error) | Failed::Pooled(error) if error.is_parse() || is::<TooMuch>(&error) => {
                Error::Malformed { cluster, reason: innermost(&error) }
            }
            Failed::New(error) | Failed::Pooled(error) if is_timeout(&error) => {
                let reason = innermost(&error);
                self.breaker.failed(tcp::USER_TIMEOUT, &reason);
                Error::Unreachable { cluster, reason }
            }
            Failed::Pooled(error) if retry::is_lost_connection(&error) => {
                Error::Stale { cluster, reason: innermost(&error) }
            }
            Failed::New(error) if retry::is_lost_connection(&error) => {
                let reason = innermost(&error);
                self.breaker.failed(Duration::ZERO, &reason);
                Error::Unreachable { cluster, reason }
            }
            // The caller's part failed: its body broke off.
            Failed::New(error) | Failed::Pooled(error) => {
                Error::Unreachable { cluster, reason: innermost(&error) }
            }
        }
    }
}

/// How long the trial request to an unreachable member waits for the connection: a few round trips at the longest
/// distance.
const TRIAL_WAIT: Duration = Duration::from_millis(700);

/// Whether an error or one of its causes is an `E`.
fn is<E: StdError + 'static>(error: &(dyn StdError + 'static)) -> bool {
    causes(error).any(|error| error.is::<E>())
}

/// Why a member's answer does not arrive.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("member {cluster} is unreachable: {reason}")]
    Unreachable { cluster: ClusterName, reason: String },
    #[error("member {cluster} is unreachable: {cause}")]
    Agent { cluster: ClusterName, cause: Box<DialError> },
    /// A pooled connection ended before it answered this request.
    #[error("member {cluster} is unreachable: {reason}")]
    Stale { cluster: ClusterName, reason: String },
    /// Nothing was sent.
    #[error("member {cluster} is unreachable {cause}")]
    Open { cluster: ClusterName, cause: Box<breaker::Unreachable> },
    #[error("member {cluster} sent an invalid HTTP response: {reason}")]
    Malformed { cluster: ClusterName, reason: String },
    #[error(
        "member {cluster} refused the sidecar's own credential (its Secret is {cluster}.member); \
         the caller's login is not the cause"
    )]
    Credential { cluster: ClusterName },
    #[error("member {cluster} attempted to redirect this request ({status}), which is not permitted")]
    Redirect { cluster: ClusterName, status: StatusCode },
    #[error(
        "member {cluster} redirects this request ({status}), and the host's kube-apiserver passes no redirects on: \
         request {location}"
    )]
    RedirectPastHost { cluster: ClusterName, status: StatusCode, location: String },
    /// The member's own message, and the rights that its grant lacks, if these are known.
    #[error(
        "member {cluster} does not let the sidecar impersonate the caller: {message}{}{}",
        lacks(.lacking.as_deref()), retry_note(*.waited, .cluster)
    )]
    Impersonation { cluster: ClusterName, message: String, lacking: Option<Arc<str>>, waited: bool },
    /// The right was granted, but the request's body was already sent.
    #[error("member {cluster} has just granted impersonation of the caller, try again")]
    Granted { cluster: ClusterName },
    #[error("too many users wait for on-demand access to member {cluster}, try again")]
    AccessQueueFull { cluster: ClusterName },
    #[error("member {cluster} switched protocols although the request did not ask for it")]
    Switched { cluster: ClusterName },
    #[error("member {cluster} did not answer before the request's deadline")]
    Late { cluster: ClusterName },
    #[error("the member's response ended early")]
    Broken(#[from] hyper::Error),
    #[error("the path cannot be sent to a member: {0}")]
    Target(InvalidUri),
}

fn lacks(lacking: Option<&str>) -> String {
    lacking.map(|rights| format!("; the member's grant lacks: {rights}")).unwrap_or_default()
}

fn retry_note(waited: bool, cluster: &ClusterName) -> String {
    let config_map = cluster.learnt_config_map();
    let told = || {
        format!(
            "; the sidecar requested them (ConfigMap {config_map}) and did not get them in time: see condition AuthSynced of MemberCluster {cluster}"
        )
    };
    waited.then(told).unwrap_or_default()
}

impl Error {
    pub fn cluster(&self) -> Option<&ClusterName> {
        match self {
            Self::Unreachable { cluster, .. }
            | Self::Agent { cluster, .. }
            | Self::Stale { cluster, .. }
            | Self::Open { cluster, .. }
            | Self::Malformed { cluster, .. }
            | Self::Credential { cluster }
            | Self::Redirect { cluster, .. }
            | Self::RedirectPastHost { cluster, .. }
            | Self::Impersonation { cluster, .. }
            | Self::Granted { cluster }
            | Self::AccessQueueFull { cluster }
            | Self::Switched { cluster }
            | Self::Late { cluster } => Some(cluster),
            Self::Target(_) | Self::Broken(_) => None,
        }
    }
}
