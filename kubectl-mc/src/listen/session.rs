//! Sends requests to a server with the caller's own credential. A listener may outlast its
//! credentials: the client itself replaces an expired token, and after a refusal the connection is
//! set up again, in case a credential plugin has a new client certificate.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use kube::client::Body;
use kube::config::AuthInfo;
use tokio::sync::{OnceCell, watch};
use tokio::time::Instant;

use crate::argv::Scanned;
use crate::cluster::client::{self, ClientError};
use crate::cluster::context::{ClusterContext, User};
use crate::env::Env;

/// The server of a context.
pub(super) struct Session {
    context: ClusterContext,
    env: Env,
    current: watch::Sender<Arc<Connection>>,
}

/// A client with a credential, which is obtained for the first request.
struct Connection {
    client: OnceCell<kube::Client>,
    since: Instant,
}

impl Connection {
    fn new() -> Arc<Self> {
        Arc::new(Self { client: OnceCell::new(), since: Instant::now() })
    }
}

impl Session {
    pub(super) fn new(context: ClusterContext, env: Env) -> Self {
        Self { context, env, current: watch::Sender::new(Connection::new()) }
    }

    /// The path of the server.
    pub(super) fn prefix(&self) -> &str {
        self.context.prefix()
    }

    /// The scheme, the host and the port of the server.
    pub(super) fn origin(&self) -> &str {
        self.context.server.strip_suffix(self.context.prefix()).unwrap_or(&self.context.server)
    }

    /// Whether the kubeconfig's user impersonates another user.
    pub(super) fn impersonates(&self) -> bool {
        let user = match &self.context.user {
            User::Inline(_, user, _) | User::ServiceAccount(user) => Some(&**user),
            User::Named(name) => {
                let mut entries = self.context.kubeconfig.auth_infos.iter();
                entries
                    .find(|entry| Some(&entry.name) == name.as_ref())
                    .and_then(|entry| entry.auth_info.as_ref())
            }
        };
        user.is_some_and(is_impersonating)
    }

    /// Sends a request. Its path is relative to the server's.
    pub(super) async fn send(&self, request: Request<Body>) -> Result<Response<Body>, ClientError> {
        let used = Arc::clone(&self.current.borrow());
        let scanned = Scanned::default();
        let connect = || client::unlimited_connection(&self.context, &scanned, &self.env);
        let client = used.client.get_or_try_init(connect).await?;
        let answer = client.send(request).await.map_err(client::failed);
        if matches!(&answer, Ok(answer) if answer.status() == StatusCode::UNAUTHORIZED)
            || matches!(&answer, Err(ClientError::Tls(_)))
        {
            self.renew(&used);
        }
        answer
    }

    /// Makes the next request set up a new connection, unless another one has already caused that.
    fn renew(&self, used: &Arc<Connection>) {
        self.current.send_if_modified(|current| {
            let is_due = Arc::ptr_eq(current, used) && used.since.elapsed() > RENEWAL;
            if is_due {
                *current = Connection::new();
            }
            is_due
        });
    }
}

#[cfg(test)]
impl Session {
    /// A session of `https://host.example:6443/pre` that sends no request.
    pub(super) fn unused() -> Self {
        let context = ClusterContext {
            context: None,
            server: "https://host.example:6443/pre".to_owned(),
            cluster: kube::config::Cluster::default(),
            user: User::Named(None),
            namespace: None,
            extensions: None,
            files: Vec::new(),
            hub: crate::cluster::hub::Hub::default(),
            is_direct: false,
            kubeconfig_flag: None,
            kubeconfig: kube::config::Kubeconfig::default(),
            island: None,
        };
        Self::new(context, Env::default())
    }
}

fn is_impersonating(user: &AuthInfo) -> bool {
    user.impersonate.as_deref().is_some_and(|user| !user.is_empty())
}

/// A credential plugin does not run more often than this, regardless of what a tool without rights
/// sends.
const RENEWAL: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use tower::service_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn refused_credential_is_renewed_but_not_often() {
        let session = Session::unused();
        let refusing = service_fn(async |_: Request<Body>| {
            let mut answer = Response::new(Body::empty());
            *answer.status_mut() = StatusCode::UNAUTHORIZED;
            Ok::<_, Infallible>(answer)
        });
        let client = OnceCell::new_with(Some(kube::Client::new(refusing, "default")));
        let first = Arc::new(Connection { client, since: Instant::now() });
        session.current.send_replace(Arc::clone(&first));
        let is_renewed = || !Arc::ptr_eq(&session.current.borrow(), &first);
        for (after, expected) in [(Duration::ZERO, false), (RENEWAL + Duration::from_secs(1), true)] {
            tokio::time::advance(after).await;
            let answer = session.send(Request::new(Body::empty())).await.unwrap();
            assert_eq!((answer.status(), is_renewed()), (StatusCode::UNAUTHORIZED, expected), "{after:?}");
        }
        // A late refusal of the old connection changes nothing.
        let second = Arc::clone(&session.current.borrow());
        tokio::time::advance(RENEWAL * 2).await;
        session.renew(&first);
        assert!(Arc::ptr_eq(&session.current.borrow(), &second));
    }
}
