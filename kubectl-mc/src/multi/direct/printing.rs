//! Prints one list of objects of all clusters with the user's own kubectl, so that templates and
//! `--sort-by` follow exactly kubectl's rules. kubectl cannot print a list that it did not request,
//! so this run of kubectl requests it from a server in this process ([`list_server`]).

mod list_server;

use std::collections::HashSet;
use std::ffi::OsString;
use std::process::Stdio;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use self::list_server::{ListServer, RESOURCE};
use crate::cache::Cache;
use crate::cache::RunFolder;
use crate::env::{self, Env};
use crate::error::{Explain, Failure, Hint};
use crate::exit::ExitStatus;
use crate::kubectl::exec::{Invocation, Kubectl, KubectlError};
use crate::kubectl::loopback::{Identity, Listener, Token};

/// The output of kubectl.
#[derive(Debug)]
pub(super) struct Printed {
    pub(super) out: Vec<u8>,
    /// Its warnings.
    pub(super) err: String,
}

/// The output of `kubectl get` with these flags for a list of these objects, each with its type.
pub(super) async fn print(objects: &[Value], flags: &[OsString], env: &Env) -> Result<Printed, PrintError> {
    let cache = Cache::open(env)?;
    let folder = RunFolder::new(cache.folder());
    let mut kubectl = Kubectl::find(env)?;
    kubectl.cache_in(folder.path()?);

    let (identity, token) = (Identity::new()?, Token::new()?);
    let (certificate, secret) = (BASE64_STANDARD.encode(&identity.pem), token.0.clone());
    let listener = Listener::bind(identity).await?;
    let address = listener.address()?;
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": NAME,
        "clusters": [{"name": NAME, "cluster": {
            "server": format!("https://{address}"), "certificate-authority-data": certificate}}],
        "users": [{"name": NAME, "user": {"token": secret}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
    });
    let kubeconfig = folder.write("kubeconfig", kubeconfig.to_string().as_bytes())?;

    // With all namespaces, kubectl does not change the namespace of each object.
    let mut arguments: Vec<OsString> = ["get", RESOURCE, "--all-namespaces"].map(OsString::from).into();
    arguments.extend_from_slice(flags);
    let mut command = kubectl.child(Invocation { arguments, kubeconfig: kubeconfig.into() });
    // Defaults of the user's preferences could change the command.
    command.env(env::KUBECTL_KUBERC, "false").stdin(Stdio::null());
    let mut command = tokio::process::Command::from(command);
    let ended = command.kill_on_drop(true).output();
    let served = listener.serve(Arc::new(ListServer::new(objects, token)));
    let output = tokio::select! {
        output = ended => output?,
        // It serves for as long as kubectl runs.
        () = served => return Err(PrintError::Incomplete),
    };
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.success() {
        true => Ok(Printed { out: output.stdout, err }),
        false => Err(PrintError::Kubectl(reason(&err))),
    }
}

/// The positions of these objects in kubectl's order for a value of `--sort-by`.
pub(super) async fn order(objects: &[Value], sort_by: &str, env: &Env) -> Result<Vec<usize>, PrintError> {
    if objects.is_empty() {
        return Ok(Vec::new());
    }
    let mut numbered = objects.to_vec();
    for (position, object) in numbered.iter_mut().enumerate() {
        object.as_object_mut().ok_or(PrintError::Incomplete)?.insert(POSITION.to_owned(), position.into());
    }
    let sort_by = format!("--sort-by={sort_by}").into();
    let output = format!("--output=jsonpath={{range .items[*]}}{{.{POSITION}}}{{\"\\n\"}}{{end}}").into();
    let printed = print(&numbered, &[sort_by, output], env).await?;
    let text = String::from_utf8_lossy(&printed.out);
    let order: Option<Vec<usize>> = text.lines().map(|line| line.parse().ok()).collect();
    let order = order.ok_or(PrintError::Incomplete)?;
    let different: HashSet<_> = order.iter().filter(|position| **position < objects.len()).collect();
    if order.len() == objects.len() && different.len() == objects.len() {
        Ok(order)
    } else {
        Err(PrintError::Incomplete)
    }
}

/// The text of kubectl's error.
fn reason(err: &str) -> String {
    let text = err.trim();
    text.strip_prefix("error: ").unwrap_or(text).to_owned()
}

/// The objects of all clusters could not be printed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrintError {
    #[error("{0}")]
    Kubectl(String),
    #[error("kubectl did not print every object of the list")]
    Incomplete,
    #[error("cannot serve the list of all clusters to kubectl")]
    Serve(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error(transparent)]
    Program(#[from] KubectlError),
    #[error("{0}")]
    Cache(Failure),
}

impl From<Failure> for PrintError {
    fn from(failure: Failure) -> Self {
        Self::Cache(failure)
    }
}

impl From<std::io::Error> for PrintError {
    fn from(error: std::io::Error) -> Self {
        Self::Serve(error.into())
    }
}

impl From<aws_lc_rs::error::Unspecified> for PrintError {
    fn from(error: aws_lc_rs::error::Unspecified) -> Self {
        Self::Serve(error.into())
    }
}

impl From<Box<dyn std::error::Error + Send + Sync>> for PrintError {
    fn from(error: Box<dyn std::error::Error + Send + Sync>) -> Self {
        Self::Serve(error)
    }
}

impl Explain for PrintError {
    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Program(error) => error.hint(),
            Self::Cache(error) => error.hint.clone(),
            Self::Kubectl(_) | Self::Incomplete | Self::Serve(_) => None,
        }
    }

    fn status(&self) -> ExitStatus {
        match self {
            Self::Program(error) => error.status(),
            _ => ExitStatus::Failed,
        }
    }
}

/// The name of the cluster, the user and the context for the server.
const NAME: &str = "all-clusters";
/// The field with the position of an object.
const POSITION: &str = "kubectlMcPosition";
