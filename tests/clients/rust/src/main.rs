//! Does one thing with kube, the client for Rust: `rust-client
//! get|watch|logs|exec|attach|port-forward NAMESPACE …` tests/e2e/requests/slow/clients.rs runs it
//! and defines the arguments; `KUBECONFIG` is the kubeconfig.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use futures_util::{AsyncBufReadExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::api::{AttachParams, AttachedProcess, ListParams, LogParams, WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, stderr, stdin, stdout};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode> {
    let words = std::env::args().skip(1).collect::<Vec<_>>();
    let words = words.iter().map(String::as_str).collect::<Vec<_>>();
    let [verb, namespace, rest @ ..] = words.as_slice() else { bail!("a verb and a namespace are needed") };
    let client = Client::try_default().await?;
    let pods = Api::<Pod>::namespaced(client.clone(), namespace);
    let piped = AttachParams::default().stdin(true).stdout(true).stderr(true);
    match (*verb, rest) {
        ("get", []) => {
            for pod in pods.list(&ListParams::default()).await? {
                say(&pod.name_any()).await?;
            }
        }
        ("watch", []) => watch(Api::namespaced(client, namespace)).await?,
        ("logs", [pod]) => {
            let mut lines = pods.log_stream(pod, &LogParams::default()).await?.lines();
            while let Some(line) = lines.try_next().await? {
                say(&line).await?;
            }
        }
        ("exec", [pod, command @ ..]) => {
            return converse(pods.exec(pod, command.iter().copied(), &piped).await?).await;
        }
        ("attach", [pod]) => return converse(pods.attach(pod, &piped).await?).await,
        ("port-forward", [pod, port]) => port_forward(&pods, pod, port.parse()?).await?,
        _ => bail!("not known: {words:?}"),
    }
    Ok(ExitCode::SUCCESS)
}

async fn watch(config_maps: Api<ConfigMap>) -> Result<()> {
    let mut events = Box::pin(config_maps.watch(&WatchParams::default(), "0").await?);
    while let Some(event) = events.try_next().await? {
        match event {
            WatchEvent::Added(object) => say(&format!("ADDED {}", object.name_any())).await?,
            WatchEvent::Deleted(object) => say(&format!("DELETED {}", object.name_any())).await?,
            _ => {}
        }
    }
    Ok(())
}

/// Copies in both directions at once, until the process ends.
async fn converse(mut process: AttachedProcess) -> Result<ExitCode> {
    let mut input = process.stdin().context("no standard input")?;
    let (mut output, mut errors) =
        (process.stdout().context("no output")?, process.stderr().context("no errors")?);
    let status = process.take_status().context("no status")?;
    let (mut own_output, mut own_errors) = (stdout(), stderr());
    let send = async {
        copy(&mut stdin(), &mut input).await?;
        input.shutdown().await
    };
    tokio::try_join!(send, copy(&mut output, &mut own_output), copy(&mut errors, &mut own_errors))?;
    own_output.flush().await?;
    let status = status.await;
    process.join().await?;
    Ok(exit_code(status.as_ref()))
}

fn exit_code(status: Option<&Status>) -> ExitCode {
    if status.is_none_or(|status| status.status.as_deref() == Some("Success")) {
        return ExitCode::SUCCESS;
    }
    let details = status.and_then(|status| status.details.as_ref());
    let mut causes = details.and_then(|details| details.causes.as_deref()).unwrap_or_default().iter();
    let code = causes.find(|cause| cause.reason.as_deref() == Some("ExitCode"));
    code.and_then(|cause| cause.message.as_ref()?.parse::<u8>().ok())
        .map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Opens one connection to the port, like nc(1).
async fn port_forward(pods: &Api<Pod>, pod: &str, port: u16) -> Result<()> {
    let mut forward = pods.portforward(pod, &[port]).await?;
    let mut stream = forward.take_stream(port).context("no stream")?;
    let mut request = Vec::new();
    stdin().read_to_end(&mut request).await?;
    stream.write_all(&request).await?;
    let mut own_output = stdout();
    copy(&mut stream, &mut own_output).await?;
    own_output.flush().await?;
    // If the pod has already closed the connection, closing it on our side is an error for kube.
    forward.abort();
    Ok(())
}

async fn say(line: &str) -> Result<()> {
    let mut output = stdout();
    output.write_all(format!("{line}\n").as_bytes()).await?;
    Ok(output.flush().await?)
}
