//! `kubectl mc unjoin`: removes a cluster from the host, and the objects of the join from the cluster.

use std::time::Duration;

use kubectl_mc_api::names::{AGENT_NAMESPACE, CLUSTER, HOST_UID, NAMESPACE};
use kubectl_mc_api::{ClusterName, path};
use serde_json::Value;

use crate::apply::delete::Delete;
use crate::cli::{Flags, UnjoinArgs};
use crate::cluster::connection;
use crate::confirm::confirm;
use crate::env::Env;
use crate::error::{Explain, Failure};
use crate::exit::ExitStatus;
use crate::join::command;
use crate::join::side::Side;
use crate::join::{cleanup, manifest, objects, survey};
use crate::printer::Printer;
use crate::settings::{self, Settings};

pub(crate) fn run(
    arguments: &UnjoinArgs,
    flags: &Flags,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let UnjoinArgs { member, force, .. } = arguments;
    let name = &settings::cluster_name(arguments.name.as_deref(), flags)?;
    let options = Settings::host_of(flags, env)?;
    let is_named = member.member_context.is_some() || member.member_kubeconfig.is_some();
    if !is_named && !force {
        return Err(UnjoinError::MemberUnnamed(name.clone()).into());
    }
    let member = if is_named { Some(command::member(member, &options, env)?) } else { None };
    connection::run(async {
        let host = Side { role: "host", at: connection::connect(&options, env).await? };
        let member = match member {
            Some(member) => Some(Side { role: "member", at: connection::to(member, env).await? }),
            None => None,
        };
        unjoin(name, arguments, &host, member.as_ref(), printer).await
    })
}

async fn unjoin(
    name: &ClusterName,
    arguments: &UnjoinArgs,
    host: &Side,
    member: Option<&Side>,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let UnjoinArgs { dry_run, yes, .. } = arguments;
    let registered = host.get(&path::member_cluster(name)).await?;
    let namespace = survey::namespace(host).await?;
    let is_there = registered.is_some() || cleanup::has_secrets(host, &namespace, name).await?;
    let on_member = match member {
        Some(member) => {
            belongs(name, registered.as_ref(), &survey::uid(host).await?, member).await?;
            let agent = cleanup::agent_on_member(member).await?;
            let mut manifest = manifest::member()?;
            manifest.extend(manifest::enrollment()?);
            Some((member, cleanup::on_member(member, manifest).await?, agent))
        }
        None if !is_there => {
            return Err(UnjoinError::Unknown { name: name.clone(), host: host.describe() }.into());
        }
        None => None,
    };
    let on_host = cleanup::on_host(host, &namespace, name).await?;

    let delete = Delete { dry_run: *dry_run, timeout: TIMEOUT };
    if !dry_run && !yes {
        let member = member.map(|member| format!(" and the {}", member.describe())).unwrap_or_default();
        confirm(&format!("Remove {name} from the {}{member}?", host.describe()), printer)?;
    }
    // The host first: without its registration nothing makes the member's objects again.
    let deleted = delete.all(host.target(), on_host.objects.into_iter()).await?;
    let say = |side: &str, object: &dyn std::fmt::Display| {
        let remark = if *dry_run { " (server dry run)" } else { "" };
        printer.out_line(&format!("{side}: {object} deleted{remark}"));
    };
    deleted.iter().for_each(|object| say("host", object));
    match on_member {
        Some((member, remains, agent)) => {
            for objects in [agent.objects, remains.objects] {
                let deleted = delete.all(member.target(), objects.into_iter()).await?;
                deleted.iter().for_each(|object| say("member", object));
            }
            if !dry_run {
                cleanup::forget(member).await?;
            }
            for (namespace, kept_for) in [(NAMESPACE, remains.kept_for), (AGENT_NAMESPACE, agent.kept_for)] {
                if !kept_for.is_empty() {
                    printer.note_line(&format!(
                        "the member's namespace {namespace} is kept: it holds other objects ({})",
                        kept_for.join(", ")
                    ));
                }
            }
        }
        None => printer.note_line(&format!(
            "the member's objects were not removed; if it comes back, run: {} unjoin {name} --member-context=NAME",
            host.at.cluster.kubectl_mc()
        )),
    }
    Ok(ExitStatus::Success)
}

/// The context must be the cluster that was joined under this name: another one's objects are not deleted.
async fn belongs(
    name: &ClusterName,
    registered: Option<&Value>,
    host_uid: &str,
    member: &Side,
) -> Result<(), Failure> {
    let uid = survey::uid(member).await?;
    let namespace = member.get(&format!("/api/v1/namespaces/{NAMESPACE}")).await?.unwrap_or_default();
    let note = |key: &str| namespace["metadata"]["annotations"][key].as_str();
    let noted = note(CLUSTER) == Some(name.as_str()) && note(HOST_UID) == Some(host_uid);
    let known = registered.is_some_and(|cluster| objects::uid_of(cluster) == Some(&uid));
    if noted || known {
        return Ok(());
    }
    Err(UnjoinError::Other {
        name: name.clone(),
        member: member.describe(),
        is: note(CLUSTER).map_or_else(|| "it is not a member".to_owned(), |other| format!("it is {other}")),
    }
    .into())
}

#[derive(Debug, thiserror::Error)]
enum UnjoinError {
    #[error(
        "removing {0} needs the member's administrator: the sidecar's account there cannot delete itself"
    )]
    MemberUnnamed(ClusterName),
    #[error("{name} is not joined to the {host}")]
    Unknown { name: ClusterName, host: String },
    #[error("the {member}, is not {name}: {is}")]
    Other { name: ClusterName, member: String, is: String },
}

impl Explain for UnjoinError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::MemberUnnamed(_) => Some(
                "choose its kubeconfig context by --member-context=NAME, or use --force if the member no longer exists"
                    .to_owned(),
            ),
            Self::Unknown { .. } => Some("`kubectl mc clusters` lists the clusters".to_owned()),
            Self::Other { name, .. } => Some(format!(
                "choose the context of {name} by --member-context=NAME; --force without --member-context removes it from the host only"
            )),
        }
    }

    fn status(&self) -> ExitStatus {
        match self {
            Self::MemberUnnamed(_) => ExitStatus::Usage,
            Self::Unknown { .. } => ExitStatus::NoSuchCluster,
            Self::Other { .. } => ExitStatus::Failed,
        }
    }
}

/// A namespace goes when everything in it is gone.
const TIMEOUT: Duration = Duration::from_secs(120);
