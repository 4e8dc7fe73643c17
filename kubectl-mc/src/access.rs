//! `kubectl mc access`: explains, grants and revokes access to a member, by the RBAC of the host and of the member.

mod diff;
mod explain;
mod grant;
mod identity;
mod kinds;
mod rules;
mod subject;
mod through;

use crate::cli::{AccessArgs, AccessCommand, DiffArgs, Flags};
use crate::cluster::connection;
use crate::env::Env;
use crate::error::Failure;
use crate::exit::ExitStatus;
use crate::join::side::Side;
use crate::printer::Printer;
use crate::settings::{self, Settings};

pub(crate) fn run(
    arguments: &AccessArgs,
    flags: &Flags,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let options = Settings::host_of(flags, env)?;
    connection::run(async {
        let host = async || -> Result<Side, Failure> {
            Ok(Side { role: "host", at: connection::connect(&options, env).await? })
        };
        match &arguments.command {
            AccessCommand::Grant(arguments) => {
                let (argument, arguments) = arguments.split();
                let clusters = settings::cluster_names(argument.as_deref(), flags)?;
                grant::grant(&arguments, &clusters, &host().await?, env, printer).await
            }
            AccessCommand::Revoke(arguments) => {
                let (argument, arguments) = arguments.split();
                let clusters = settings::cluster_names(argument.as_deref(), flags)?;
                grant::revoke(&arguments, &clusters, &host().await?, env, printer).await
            }
            AccessCommand::Diff(DiffArgs { name }) => {
                let cluster = settings::cluster_name(name.as_deref(), flags)?;
                diff::run(&cluster, &host().await?, env, printer).await
            }
            AccessCommand::Explain(arguments) => {
                let (argument, arguments) = arguments.split(!flags.cluster.is_empty());
                let cluster = settings::cluster_name(argument.as_deref(), flags)?;
                explain::run(&arguments, &cluster, &host().await?, env, printer).await
            }
        }
    })
}
