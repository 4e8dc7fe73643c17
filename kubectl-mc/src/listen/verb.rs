//! Starts the listener, prints how tools use it, and ends it at a signal.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;

use super::admission::{Admission, host_of};
use super::certificate::Certificate;
use super::clusters::Clusters;
use super::connection;
use super::files::{Files, Kubeconfig};
use super::relay::Relay;
use super::sockets::Sockets;
use crate::cli::{Flags, ListenArgs};
use crate::cluster::client;
use crate::env::Env;
use crate::error::Failure;
use crate::exit::ExitStatus;
use crate::kubeconfig::Chosen;
use crate::kubectl::loopback::Token;
use crate::log::Log;
use crate::next_command::quoted;
use crate::printer::Printer;

pub(crate) fn run(
    arguments: &ListenArgs,
    flags: &Flags,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let chosen = Chosen::resolve(&arguments.clusters, flags, env, printer)?;
    let clusters = Clusters::new(&chosen.reached(), env)?;
    let runtime = client::runtime()?;
    let served = runtime.block_on(until_signal(serve(arguments, clusters, env, printer)));
    // It does not wait for open connections.
    runtime.shutdown_background();
    served.unwrap_or(Ok(ExitStatus::Interrupted))
}

async fn serve(
    arguments: &ListenArgs,
    clusters: Clusters,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let sockets = Sockets::bind(arguments.address, arguments.port).await?;
    let certificate =
        Certificate::new(&clusters, &sockets.addresses).map_err(|error| not_started(&*error))?;
    let token =
        if arguments.no_token { None } else { Some(Token::new().map_err(|error| not_started(&error))?) };
    let authority = sockets.authority();
    Log::new(env).decision("Start listener", &[("address", &authority)]);
    let content = Kubeconfig {
        clusters: &clusters,
        authority: &authority,
        certificates: &certificate.authority,
        token: token.as_ref().map(|token| token.0.as_str()),
    };
    let files = Files::write(&content, arguments.write_kubeconfig.as_deref(), env)?;
    printer.out(&introduction(&clusters, &sockets, &files));
    if token.is_none() {
        printer.note_line(NO_TOKEN);
    }
    let admission = Admission { port: sockets.port, addresses: sockets.hosts(), token };
    let relay = Arc::new(Relay { admission, clusters });
    connection::serve(&sockets.listeners, &TlsAcceptor::from(certificate.config), relay).await;
    Ok(ExitStatus::Success)
}

/// The URLs of the clusters, and how tools use them.
fn introduction(clusters: &Clusters, sockets: &Sockets, files: &Files) -> String {
    let (port, authority) = (sockets.port, sockets.authority());
    let width = clusters.iter().map(|served| served.name.len()).max().unwrap_or_default();
    let mut text = format!("Listening on {authority} until Ctrl-C\n\n");
    for served in clusters.iter() {
        let (name, host) = (&served.name, host_of(&served.name));
        text.push_str(&format!("  {name:width$}  https://{host}:{port}  https://{authority}/{name}\n"));
    }
    let path = |path: &Path| quoted(path.as_os_str());
    text.push_str(&format!(
        "\nTools that read a kubeconfig, in another terminal:\n  export KUBECONFIG={}\n",
        path(&files.kubeconfig)
    ));
    let first = clusters.iter().next().map_or("", |served| served.name.as_str());
    let header = files
        .header
        .as_deref()
        .map(|file| format!(" -H {}", quoted(format!("@{}", file.display()).as_ref())));
    text.push_str(&format!(
        "\nOther tools:\n  curl --cacert {}{} https://{}:{port}/version\n",
        path(&files.certificates),
        header.unwrap_or_default(),
        host_of(first),
    ));
    text
}

/// The result of the work; `None` if a signal has come first.
#[cfg(unix)]
async fn until_signal<T>(work: impl Future<Output = T>) -> Option<T> {
    crate::progress::Interrupt::handle().unless(work).await
}

#[cfg(not(unix))]
async fn until_signal<T>(work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        received = tokio::signal::ctrl_c() => match received {
            Ok(()) => None,
            Err(_) => std::future::pending().await,
        },
        done = work => Some(done),
    }
}

fn not_started(error: &(dyn Error + 'static)) -> Failure {
    Failure::new("cannot start the listener").because(error)
}

const NO_TOKEN: &str =
    "warning: --no-token lets every user and program of this machine act on these clusters as you";
