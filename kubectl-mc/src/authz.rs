//! Implements `kubectl mc authz`: restricts the agents of another hub on this host to the objects of their
//! own clusters.
//!
//! - [`policies`]: admission policies for things that authorizers do not see: names of new objects,
//!   and owners
//! - [`webhook`]: the path from the host's kube-apiserver to the sidecar's webhooks
//! - [`admission`]: the admission webhooks of the sidecar, for certificate requests and owners
//! - [`keeper`]: the rights with which the sidecar maintains the RBAC of agents, and the policy
//!   that limits them
//! - [`objects`]: all objects of the host
//! - [`generate`]: prints them, and the files of a kube-apiserver
//! - [`apply`], [`remove`]: writes and removes them
//! - [`verify`]: queries the host for the rights of agents
//! - [`compare`]: compares the policies on the host with those that `apply` writes
//! - [`dry_run`]: tries writes as an agent
//! - [`cel`]: writes RBAC as CEL, for the policies
//! - [`status`]: whether the restriction is in force, for `doctor`
//! - [`arguments`], [`requests`]: arguments and requests that several of them share
//! - [`token`]: enrolls one cluster with the command of [`register_command`]

mod admission;
mod apply;
mod arguments;
mod cel;
mod compare;
mod dry_run;
mod generate;
mod keeper;
mod objects;
mod policies;
mod register_command;
mod remove;
mod requests;
mod status;
mod token;
mod verify;
mod webhook;

use crate::cli::{AuthzArgs, AuthzCommand, Flags};
use crate::cluster::connection::{self};
use crate::env::Env;
use crate::error::Failure;
use crate::exit::ExitStatus;
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
        let host = connection::connect("host", &options, env).await?;
        match &arguments.command {
            AuthzCommand::Generate(arguments) => generate::run(arguments, &host, printer).await,
            AuthzCommand::Apply(arguments) => apply::run(arguments, &host, printer).await,
            AuthzCommand::Verify(arguments) => verify::run(arguments, &host, printer).await,
            AuthzCommand::Token(arguments) => token::run(arguments, &host, printer).await,
            AuthzCommand::Remove(arguments) => remove::run(arguments, &host, printer).await,
        }
    })
}
