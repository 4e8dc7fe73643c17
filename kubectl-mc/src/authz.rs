//! Implements `kubectl mc authz`: restricts the agents of another hub on this host to the objects of their
//! own clusters.
//!
//! - [`policies`]: admission policies for what no authorizer sees: names of new objects, and owners
//! - [`webhook`]: the path from the host's kube-apiserver to the sidecar's webhooks
//! - [`admission`]: the admission webhooks of the sidecar, for certificate requests and owners
//! - [`keeper`]: the rights by which the sidecar keeps the RBAC of agents, and the policy that limits them
//! - [`objects`]: all objects of the host
//! - [`generate`]: prints them, and the files of a kube-apiserver
//! - [`apply`], [`remove`]: writes and removes them
//! - [`verify`]: queries the host for the rights of agents
//! - [`compare`]: the policies on the host with those that `apply` writes
//! - [`dry_run`]: tries writes as an agent
//! - [`cel`]: writes RBAC as CEL, for the policies
//! - [`status`]: whether the restriction is in force, for `doctor`
//! - [`token`]: enrolls one cluster with the command of [`register_command`]

mod admission;
mod apply;
mod cel;
mod compare;
mod dry_run;
mod generate;
mod keeper;
mod objects;
mod policies;
mod register_command;
mod remove;
mod status;
mod token;
mod verify;
mod webhook;

use kubectl_mc_api::ownership::{InvalidLayout, Layout, subject};
use serde_json::Value;

use crate::cli::{AuthzArgs, AuthzCommand, Flags, Hub, HubArgs};
use crate::cluster::connection;
use crate::cluster::fields::items;
use crate::env::Env;
use crate::error::Failure;
use crate::exit::ExitStatus;
use crate::join::side::Side;
use crate::printer::Printer;
use crate::settings::Settings;

pub(crate) use self::status::Restriction;

pub(crate) fn run(
    arguments: &AuthzArgs,
    flags: &Flags,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let options = Settings::host_of(flags, env)?;
    connection::run(async {
        let host = Side { role: "host", at: connection::connect(&options, env).await? };
        match &arguments.command {
            AuthzCommand::Generate(arguments) => generate::run(arguments, &host, printer).await,
            AuthzCommand::Apply(arguments) => apply::run(arguments, &host, printer).await,
            AuthzCommand::Verify(arguments) => verify::run(arguments, &host, printer).await,
            AuthzCommand::Token(arguments) => token::run(arguments, &host, printer).await,
            AuthzCommand::Remove(arguments) => remove::run(arguments, &host, printer).await,
        }
    })
}

/// The clusters whose agents are selected.
async fn clusters(arguments: &HubArgs, host: &Side) -> Result<Vec<String>, Failure> {
    let Hub::Karmada = arguments.agents_of;
    let names = if arguments.names.is_empty() {
        let list = host.get("/apis/cluster.karmada.io/v1alpha1/clusters").await?.ok_or_else(|| {
            Failure::new("the host serves no clusters of Karmada (cluster.karmada.io/v1alpha1)")
                .with_hint("name the kubeconfig context of Karmada's API server by --context")
        })?;
        let name = |cluster: &Value| cluster["metadata"]["name"].as_str().map(str::to_owned);
        items(&list).filter_map(name).collect()
    } else {
        arguments.names.clone()
    };
    checked(&names)
}

/// The names, if each is that of a cluster with objects of its own.
fn checked(names: &[String]) -> Result<Vec<String>, Failure> {
    match names.iter().find(|name| !subject::is_cluster(name)) {
        Some(name) => {
            let failure = format!("{name:?} is no name of a cluster that has objects of its own in Karmada");
            Err(Failure::usage(failure).with_hint(
                "a name is a DNS label of 48 characters at most, does not end in -impersonator, and is not \
                 rbac-generator",
            ))
        }
        None => Ok(names.to_vec()),
    }
}

fn layout(given: Result<Layout, InvalidLayout>) -> Result<Layout, Failure> {
    given.map_err(|error| Failure::usage(format!("invalid namespaces: {error}")).because(&error))
}
