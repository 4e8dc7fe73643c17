//! `kubectl mc access`: explains, grants and revokes access to a member, by the RBAC of the host and of the member.

mod diff;
mod explain;
mod grant;
mod identity;
mod kinds;
mod rules;
mod subject;
mod through;

use kubectl_mc_api::ClusterName;

use crate::cli::{AccessArgs, AccessCommand, DiffArgs, Flags};
use crate::cluster::connection;
use crate::env::Env;
use crate::error::{Explain, Failure};
use crate::exit::ExitStatus;
use crate::join::side::Side;
use crate::printer::Printer;
use crate::settings::Settings;

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
                grant::grant(arguments, &clusters(flags)?, &host().await?, env, printer).await
            }
            AccessCommand::Revoke(arguments) => {
                grant::revoke(arguments, &clusters(flags)?, &host().await?, env, printer).await
            }
            AccessCommand::Diff(DiffArgs { name }) => diff::run(name, &host().await?, env, printer).await,
            AccessCommand::Explain(arguments) => {
                let [cluster] = clusters(flags)?.try_into().map_err(|_| AccessError::OneCluster)?;
                explain::run(arguments, &cluster, &host().await?, env, printer).await
            }
        }
    })
}

/// The clusters named by -C. Access is granted by exact name.
fn clusters(flags: &Flags) -> Result<Vec<ClusterName>, AccessError> {
    if flags.cluster_selector.is_some() || flags.all_clusters {
        return Err(AccessError::ByName);
    }
    let names = flags.cluster.iter().flat_map(|names| names.split(','));
    let clusters: Result<Vec<_>, _> =
        names.map(|name| name.parse().map_err(|source| AccessError::Name { source })).collect();
    clusters.and_then(|clusters| if clusters.is_empty() { Err(AccessError::NoCluster) } else { Ok(clusters) })
}

#[derive(Debug, thiserror::Error)]
enum AccessError {
    #[error("no cluster named")]
    NoCluster,
    #[error("`access explain` takes exactly one cluster")]
    OneCluster,
    #[error("`access` takes exact cluster names, no selector and no --all-clusters")]
    ByName,
    #[error("--cluster")]
    Name { source: kubectl_mc_api::InvalidClusterName },
}

impl Explain for AccessError {
    fn hint(&self) -> Option<String> {
        Some("name the cluster by -C NAME; `kubectl mc clusters` lists the clusters".to_owned())
    }

    fn status(&self) -> ExitStatus {
        ExitStatus::Usage
    }
}
