//! Implements `kubectl mc access`: explains, grants, revokes and lists access to members, by the RBAC of the
//! host and of the members.

mod cluster_access;
mod diff;
mod explain;
mod grant;
mod identity;
mod impersonator;
mod kinds;
mod label_selector;
mod list;
mod outcomes;
mod role;
mod rules;
mod selection;
mod subject;
mod through;

use crate::cli::{AccessArgs, AccessCommand, DiffArgs, Flags};
use crate::cluster::connection::{self, Connection};
use crate::env::Env;
use crate::error::Failure;
use crate::exit::ExitStatus;
use crate::printer::Printer;
use crate::settings::{self, Settings};

pub(crate) fn run(
    arguments: &AccessArgs,
    flags: &Flags,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let options = Settings::host_of(flags, env)?;
    let connect =
        async || -> Result<Connection, Failure> { connection::connect("host", &options, env).await };
    match &arguments.command {
        AccessCommand::Grant(arguments) => {
            let (argument, arguments) = arguments.split();
            subject::check_words(argument.as_deref(), &arguments, flags)?;
            let selection = selection::resolve(argument.as_deref(), flags, &options, env)?;
            connection::run(grant::grant(&arguments, selection, env, printer))
        }
        AccessCommand::Revoke(arguments) => {
            let (argument, arguments) = arguments.split();
            subject::check_words(argument.as_deref(), &arguments, flags)?;
            if let (Some(name), None) = (&arguments.name, &arguments.role) {
                return connection::run(async {
                    grant::revoke_named(name, arguments.dry_run, &connect().await?, printer).await
                });
            }
            let selection = selection::resolve(argument.as_deref(), flags, &options, env)?;
            connection::run(grant::revoke(&arguments, selection, env, printer))
        }
        AccessCommand::List(arguments) => {
            let (host, clusters) = selection::filter(flags, &options, env)?;
            connection::run(async {
                let host = connection::to("host", host, env).await?;
                list::run(arguments, clusters.as_deref(), &host, printer).await
            })
        }
        AccessCommand::Diff(DiffArgs { name }) => {
            let cluster = settings::cluster_name(name.as_deref(), flags)?;
            connection::run(async { diff::run(&cluster, &connect().await?, env, printer).await })
        }
        AccessCommand::Explain(arguments) => {
            let (argument, arguments) = arguments.split(!flags.cluster.is_empty());
            let cluster = settings::cluster_name(argument.as_deref(), flags)?;
            connection::run(async {
                explain::run(&arguments, &cluster, &connect().await?, env, printer).await
            })
        }
    }
}
