//! Implements `kubectl mc login`: gets a credential, tests it with the host, stores it, and makes
//! the kubeconfig use it. A failure before the last steps changes nothing.

use std::io::{IsTerminal, Read};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{Request, StatusCode, header};
use kube::config::AuthInfo;
use serde_json::{Value, json};

use super::binding::Binding;
use super::record::{Credential, Record, is_token};
use super::source::Source;
use super::store::{Place, Store};
use super::user_entry::{self, Wrapped};
use crate::argv::Scanned;
use crate::cli::{Flags, LoginArgs};
use crate::cluster::client::{self, ClientError};
use crate::cluster::connection;
use crate::cluster::context::{ClusterContext, User};
use crate::cluster::credential::{self};
use crate::env::{self, Env};
use crate::error::{Context, Failure, Hint, chain, mc};
use crate::exit::ExitStatus;
use crate::printer::Printer;
use crate::server_text::ServerText;
use crate::settings::Settings;

pub(crate) fn run(
    arguments: &LoginArgs,
    flags: &Flags,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let host = ClusterContext::load(&Settings::host_of(flags, env)?, env)?;
    if host.context.is_none() {
        return Err(Failure::usage("there is no kubeconfig: in a pod the service account is the credential"));
    }
    let binding = Binding::of_host(&user_entry::login(&host), &host)?;
    let store = Store::new(&binding, env)?;
    let (source, wrapped) = source(arguments, &host)?;
    let source_arguments = source.arguments(&binding);
    // An unreadable login is replaced.
    let stored = store.load().ok().flatten().map(|(record, _)| record);
    let stored = stored.filter(|record| record.arguments == source_arguments);
    check_policy(arguments, &source, stored.as_ref(), &host, env)?;
    let api_version = wrapped.as_ref().and_then(|wrapped| wrapped.api_version.clone());
    let known = Record {
        server: binding.server().to_owned(),
        variables: match wrapped.filter(|_| arguments.cache_plugin) {
            Some(wrapped) => wrapped.variables,
            None => stored.as_ref().map(|stored| stored.variables.clone()).unwrap_or_default(),
        },
        credential: match source {
            Source::Token => Credential::of_token(token(arguments.token_file.as_deref(), &host)?),
            Source::Command(_) | Source::Oidc(_) => Credential::default(),
        },
        refresh_token: None,
        client_secret: client_secret(arguments, stored)?,
        arguments: source_arguments,
    };
    let variables = variables(&host, api_version.as_deref(), &known.variables);
    let _turn = store.turn()?;
    let record = connection::run(async {
        let record = source.log_in(known, &variables, env, printer).await?;
        Ok((who_am_i(&host, &source, &record.credential, env).await?, record))
    });
    let (name, record) = record?;
    let place = store.save(&record, arguments.credential_store)?;
    let file = user_entry::write(&host, &source, &binding, api_version, env)?;
    let until = record.credential.expires.map(|expires| format!(" until {expires}")).unwrap_or_default();
    printer.note_line(&format!("logged in to {} as {name}{until}", host.context_name()));
    printer.note_line(&format!("{}, and {} uses it", location(&place, printer), file.display()));
    Ok(ExitStatus::Success)
}

/// The location of the credential, for the output.
fn location(place: &Place, printer: &Printer) -> String {
    match place {
        Place::Keyring => "the credential is in the keyring".to_owned(),
        Place::File(file, refused) => {
            if let Some(reason) = refused {
                printer.note_line(&format!("warning: the credential is not in a keyring: {}", chain(reason)));
            }
            format!("the credential is in {}, which only you can read", file.display())
        }
    }
}

/// The source of the credential: from the arguments, or from the previous login.
fn source(arguments: &LoginArgs, host: &ClusterContext) -> Result<(Source, Option<Wrapped>), Failure> {
    let own = user_entry::exec(host).and_then(Source::of_user).map(|(_, source)| source);
    if arguments.cache_plugin {
        let exec = user_entry::exec(host).filter(|_| own.is_none());
        let exec = exec.ok_or_else(|| {
            let host = host.context_name();
            Failure::usage(format!("the user of {host} has no credential plugin of another program"))
                .with_hint(mc("login --help").that("lists the ways to log in"))
        })?;
        let command = exec.command.iter().chain(exec.args.iter().flatten()).cloned().collect();
        return Ok((Source::Command(command), Some(Wrapped::of(exec))));
    }
    if arguments.oidc.oidc_issuer_url.is_some() {
        let mut oidc = arguments.oidc.clone();
        // The path must be absolute, because the credential plugin runs in other folders.
        oidc.oidc_certificate_authority =
            oidc.oidc_certificate_authority.map(|file| std::path::absolute(&file).unwrap_or(file));
        return Ok((Source::Oidc(oidc), None));
    }
    if !arguments.command.is_empty() {
        return Ok((Source::Command(arguments.command.clone()), None));
    }
    match own.filter(|_| arguments.token_file.is_none()) {
        Some(own) => Ok((own, user_entry::exec(host).map(Wrapped::of))),
        None => Ok((Source::Token, None)),
    }
}

/// Enforces the user's policy for credential plugins. It applies to a command from the kubeconfig,
/// but not to one that the user has typed, now or for the stored login.
fn check_policy(
    arguments: &LoginArgs,
    source: &Source,
    stored: Option<&Record>,
    host: &ClusterContext,
    env: &Env,
) -> Result<(), Failure> {
    let is_typed = !arguments.command.is_empty() || (stored.is_some() && !arguments.cache_plugin);
    if let Source::Command(command) = source
        && !is_typed
    {
        let program = command.first().map(String::as_str).unwrap_or_default();
        // A program that does not exist fails when it is run.
        let _ =
            credential::permitted(host.user_name().unwrap_or_default(), program, &Scanned::default(), env)?;
    }
    Ok(())
}

/// The environment of a command that prints a credential, with kubectl's `KUBERNETES_EXEC_INFO`.
fn variables(
    host: &ClusterContext,
    api_version: Option<&str>,
    more: &[(String, String)],
) -> Vec<(String, String)> {
    let version = api_version.unwrap_or("client.authentication.k8s.io/v1");
    let info = json!({
        "apiVersion": version, "kind": "ExecCredential",
        "spec": {
            "interactive": std::io::stdin().is_terminal(),
            "cluster": credential::cluster_info(&host.cluster),
        },
    });
    more.iter().cloned().chain([(env::KUBERNETES_EXEC_INFO.to_owned(), info.to_string())]).collect()
}

/// Reads a token from a file, or prompts for it.
fn token(file: Option<&Path>, host: &ClusterContext) -> Result<String, Failure> {
    let text = match file {
        Some(file) => read(file)?,
        None if std::io::stdin().is_terminal() => {
            rpassword::prompt_password(format!("Token for {}: ", host.context_name()))
                .context(|| "cannot read the token")
                .map_err(|failure| failure.with_status(ExitStatus::Usage))?
        }
        None => {
            return Err(Failure::usage("cannot prompt for a token: standard input is not a terminal")
                .with_hint(
                    Hint::from("--token-file=- reads it from standard input")
                        .and("--oidc-issuer-url logs in by OpenID Connect")
                        .and(mc("login -- COMMAND").that("takes what a command prints")),
                ));
        }
    };
    let token = text.trim();
    if is_token(token) { Ok(token.to_owned()) } else { Err(Failure::usage("the input is not a token")) }
}

/// The client's secret: from its file, or from the previous login with this source.
fn client_secret(given: &LoginArgs, stored: Option<Record>) -> Result<Option<String>, Failure> {
    if let Some(file) = &given.oidc_client_secret_file {
        return Ok(Some(read(file)?.trim().to_owned()));
    }
    Ok(stored.and_then(|record| record.client_secret))
}

fn read(file: &Path) -> Result<String, Failure> {
    let failed = |error| Failure::usage(format!("cannot read {}", file.display())).because(&error);
    if file != Path::new("-") {
        return std::fs::read_to_string(file).map_err(failed);
    }
    let mut text = String::new();
    std::io::stdin().lock().take(LONGEST_TOKEN).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// The identity of the credential on the host.
async fn who_am_i(
    host: &ClusterContext,
    source: &Source,
    credential: &Credential,
    env: &Env,
) -> Result<ServerText, Failure> {
    let pem = |pem: &Option<String>| pem.as_ref().map(|pem| STANDARD.encode(pem));
    let user = AuthInfo {
        token: credential.token.clone().map(Into::into),
        client_certificate_data: pem(&credential.certificate),
        client_key_data: pem(&credential.key).map(Into::into),
        ..AuthInfo::default()
    };
    let host = with_user(host, user);
    let failed =
        |error: ClientError| error.of(&host.context_name()).within("cannot try the credential at the host");
    let client = client::connection(&host, &Scanned::default(), env).await.map_err(failed)?;
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let request = Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header(header::CONTENT_TYPE, "application/json")
        .body(review.to_string().into_bytes().into());
    let request = request.map_err(|error| failed(ClientError::Setup(Box::new(error))))?;
    let reply = client::send(&client, request).await.map_err(failed)?;
    if reply.status == StatusCode::UNAUTHORIZED {
        let failure = Failure::new(format!(
            "{} does not accept the credential (401 Unauthorized); nothing was changed",
            host.context_name()
        ));
        return Err(match source.issuer() {
            Some(issuer) => failure.with_hint(format!(
                "the kube-apiserver of the host has to trust {issuer} and the client (its --oidc-issuer-url and \
                 --oidc-client-id, or --authentication-config)"
            )),
            None => failure,
        });
    }
    if !reply.status.is_success() {
        return Err(Failure::new(format!(
            "cannot try the credential at {}: it answered {}: {}",
            host.context_name(),
            reply.status.as_u16(),
            reply.message()
        )));
    }
    let name = reply.json().pointer("/status/userInfo/username").and_then(Value::as_str).map(str::to_owned);
    Ok(name.unwrap_or_default().into())
}

/// The host with this credential instead of its user.
fn with_user(host: &ClusterContext, user: AuthInfo) -> ClusterContext {
    let mut host = host.clone();
    let name = NAME.to_owned();
    host.kubeconfig.auth_infos.retain(|entry| entry.name != name);
    host.kubeconfig.auth_infos.push(kube::config::NamedAuthInfo {
        name: name.clone(),
        auth_info: Some(user.clone()),
        ..Default::default()
    });
    for entry in
        host.kubeconfig.contexts.iter_mut().filter(|entry| Some(&entry.name) == host.context.as_ref())
    {
        if let Some(context) = &mut entry.context {
            context.user = Some(name.clone());
        }
    }
    host.user = User::Inline(name, Box::new(user), None);
    host
}

/// The name of the user for the test.
const NAME: &str = "kubectl-mc/login";
/// Maximum number of bytes from standard input.
const LONGEST_TOKEN: u64 = 1024 * 1024;
