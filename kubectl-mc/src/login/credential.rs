//! Implements `kubectl-mc credential`, which a kubeconfig runs to get the credential of a login
//! (`client.authentication.k8s.io`). Parallel processes renew it once.

use std::ffi::OsString;

use clap::Parser;
use clap::error::ErrorKind;
use jiff::Timestamp;
use serde_json::Value;

use super::binding::{Binding, no_server};
use super::record::{Credential, Record};
use super::source::Source;
use super::store::Store;
use crate::cli::{CredentialArgs, CredentialStore};
use crate::cluster::connection;
use crate::env::{self, Env};
use crate::error::{Context, Failure, Hint, chain, mc};
use crate::exit::ExitStatus;
use crate::log::Log;
use crate::printer::Printer;

/// Prints the credential for the server in kubectl's request.
pub(crate) fn run(arguments: &[OsString], env: &Env, printer: &Printer) -> Result<ExitStatus, Failure> {
    let arguments = match CredentialArgs::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) if error.kind() == ErrorKind::DisplayHelp => {
            printer.out(&error.render().to_string());
            return Ok(ExitStatus::Success);
        }
        Err(error) => return Err(Failure::usage(error.render().to_string())),
    };
    let request = Request::of(env)?;
    let binding = Binding::requested(&arguments.login, &arguments.server, &request.cluster)?;
    let source = Source::of_arguments(arguments);
    let store = Store::new(&binding, env)?;
    let (record, place) = load(&store, &source, &binding)?;
    let is_fresh = record.credential.is_fresh(Timestamp::now());
    let expires = record.credential.expires.map(|expires| expires.to_string()).unwrap_or_default();
    Log::new(env).decision(
        "Read login",
        &[("server", &binding.server()), ("store", &place), ("expires", &expires), ("fresh", &is_fresh)],
    );
    let credential = match is_fresh {
        true => record.credential,
        false => connection::run(renewed(&store, &source, &binding, env, printer))?,
    };
    printer.out_line(&credential.exec_credential(&request.api_version).to_string());
    Ok(ExitStatus::Success)
}

/// The stored login, if it came from this source.
fn load(store: &Store, source: &Source, binding: &Binding) -> Result<(Record, CredentialStore), Failure> {
    let server = binding.server();
    let stored = store.load()?.ok_or_else(|| {
        Failure::new(format!("there is no login for {server} on this machine")).with_hint(log_in())
    })?;
    if stored.0.arguments != source.arguments(binding) {
        let text = format!("the login for {server} does not match the arguments in this kubeconfig");
        return Err(Failure::new(text).with_hint(log_in()));
    }
    Ok(stored)
}

/// The credential after a renewal, by this process or by a parallel one.
async fn renewed(
    store: &Store,
    source: &Source,
    binding: &Binding,
    env: &Env,
    printer: &Printer,
) -> Result<Credential, Failure> {
    let _turn = store.turn()?;
    let (record, place) = load(store, source, binding)?;
    if record.credential.is_fresh(Timestamp::now()) {
        return Ok(record.credential);
    }
    let renewed = source.renew(record, env, printer).await;
    let record = renewed.context(|| format!("cannot renew the credential for {}", binding.server()))?;
    // The credential is valid, and the issuer may have replaced the stored refresh token: an error would lose
    // both.
    if let Err(error) = store.save(&record, place) {
        printer.note_line(&format!(
            "warning: the renewed credential for {} was not stored: {}: log in again before it expires: kubectl mc login",
            binding.server(),
            chain(&error)
        ));
    }
    Ok(record.credential)
}

fn log_in() -> Hint {
    mc("login").after("log in")
}

fn no_request() -> Failure {
    Failure::usage(
        "`kubectl-mc credential` is a credential plugin: kubectl runs it, as a user of the kubeconfig says",
    )
    .with_hint(log_in())
}

/// kubectl's request.
struct Request {
    api_version: String,
    /// `spec.cluster`; null without `provideClusterInfo`.
    cluster: Value,
}

impl Request {
    fn of(env: &Env) -> Result<Self, Failure> {
        let text = env.var(env::KUBERNETES_EXEC_INFO).ok_or_else(no_request)?;
        let info = text.to_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let info = info.ok_or_else(no_request)?;
        let api_version = info.get("apiVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
        if !VERSIONS.contains(&api_version.as_str()) {
            return Err(Failure::new(format!(
                "unknown version of the API of credential plugins: {api_version:?}"
            )));
        }
        let cluster = info.pointer("/spec/cluster").cloned().unwrap_or_default();
        if cluster.is_null() {
            return Err(no_server());
        }
        Ok(Self { api_version, cluster })
    }
}

/// Both versions have the same fields.
const VERSIONS: [&str; 2] = ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];
