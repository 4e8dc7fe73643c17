//! Makes the requests of kubectl part of the command's trace. kubectl does not send its own trace,
//! and a kubeconfig has no field for headers. So a traced command runs kubectl against a proxy in
//! this process, which forwards its requests with the caller's credential and with `traceparent`
//! (W3C Trace Context).
//!
//! The proxy listens on a loopback address, serves TLS with its own certificate, and requires a
//! token. Both are new for each command. The kubeconfig with the token is in the private folder of
//! the run, and the proxy ends with the command.

mod relay;

use std::sync::Arc;
use std::thread;

use base64::Engine;
use kube::config::{AuthInfo, Cluster};
use tokio::sync::oneshot;

use self::relay::Relay;
use crate::argv::Scanned;
use crate::cluster::client;
use crate::cluster::context::{ClusterContext, User};
use crate::env::Env;
use crate::error::Failure;
use crate::kubectl::loopback::{Identity, Listener, Token};
use crate::kubectl::preflight;
use crate::log::Log;
use crate::trace;

/// A running proxy. It ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct TraceProxy {
    context: ClusterContext,
    _running: oneshot::Sender<()>,
}

impl TraceProxy {
    /// Starts a proxy to the server of `through`, if the command is traced. Flags that choose the
    /// credential or the certificate of a server apply to kubectl's own connection: with them there
    /// is no proxy.
    pub(crate) fn start(
        through: &ClusterContext,
        scanned: &Scanned,
        env: &Env,
    ) -> Result<Option<Self>, Failure> {
        let has_flags = scanned.flags().any(|(name, _)| CONNECTION_FLAGS.contains(&name));
        if trace::current().is_none() || preflight::needs_no_server(scanned) || has_flags {
            return Ok(None);
        }
        let token = Token::new().map_err(|error| not_started(&error))?;
        let secret = token.0.clone();
        let identity = Identity::new().map_err(|error| not_started(&*error))?;
        let certificate = identity.pem.clone();
        let (started, start) = std::sync::mpsc::sync_channel(1);
        let (running, stop) = oneshot::channel();
        let serve = {
            let (through, scanned, env) = (through.clone(), scanned.clone(), env.clone());
            move || serve(&through, &scanned, &env, token, identity, &started, stop)
        };
        let thread = thread::Builder::new().name("trace-proxy".to_owned()).spawn(serve);
        thread.map_err(|error| not_started(&error))?;
        let address = start.recv().map_err(|error| not_started(&error))??;
        Log::new(env).decision("Start trace proxy", &[("address", &address)]);
        let context = ClusterContext {
            server: format!("https://{address}"),
            cluster: Cluster {
                certificate_authority_data: Some(base64::prelude::BASE64_STANDARD.encode(certificate)),
                ..Cluster::default()
            },
            user: User::Inline(
                USER.to_owned(),
                Box::new(AuthInfo { token: Some(secret.into()), ..AuthInfo::default() }),
                None,
            ),
            ..through.clone()
        };
        Ok(Some(Self { context, _running: running }))
    }

    /// The context that directs kubectl to the proxy.
    pub(crate) fn context(&self) -> &ClusterContext {
        &self.context
    }
}

/// Serves until `stop` is dropped. Sends its address, or why it did not start.
fn serve(
    through: &ClusterContext,
    scanned: &Scanned,
    env: &Env,
    token: Token,
    identity: Identity,
    started: &std::sync::mpsc::SyncSender<Result<std::net::SocketAddr, Failure>>,
    stop: oneshot::Receiver<()>,
) {
    let start = async {
        let client = client::unlimited_connection(through, scanned, env).await.map_err(untraced)?;
        let listener = Listener::bind(identity).await.map_err(|error| not_started(&*error))?;
        let address = listener.address().map_err(|error| not_started(&error))?;
        Ok((listener, address, Arc::new(Relay { client, token })))
    };
    let runtime = match client::runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = started.send(Err(untraced(error)));
            return;
        }
    };
    runtime.block_on(async {
        // The receiver waits for exactly one message.
        match start.await {
            Ok((listener, address, relay)) => {
                let _ = started.send(Ok(address));
                tokio::select! {
                    () = listener.serve(relay) => {}
                    _ = stop => {}
                }
            }
            Err(error) => {
                let _ = started.send(Err(error));
            }
        }
    });
    // It does not wait for requests of a kubectl that has ended.
    runtime.shutdown_background();
}

fn not_started(error: &(dyn std::error::Error + 'static)) -> Failure {
    untraced(Failure::new("cannot start the proxy that adds the trace to kubectl's requests").because(error))
}

fn untraced(failure: impl Into<Failure>) -> Failure {
    let variable = crate::env::TRACE;
    failure.into().with_hint(format!("without {variable}, the command is not traced and needs no proxy"))
}

/// The name of the user that the proxy accepts.
const USER: &str = "mc/trace";
/// They would replace the token or the certificate authority of the proxy.
const CONNECTION_FLAGS: &[&str] = &[
    "certificate-authority",
    "client-certificate",
    "client-key",
    "insecure-skip-tls-verify",
    "password",
    "tls-server-name",
    "token",
    "user",
    "username",
];
