//! Implements `kubectl mc unjoin`: removes a cluster from the host, and the objects of the join from the
//! cluster.

use std::time::Duration;

use kubectl_mc_api::names::{AGENT_NAMESPACE, CLUSTER, HOST_UID, INVENTORY, NAMESPACE};
use kubectl_mc_api::{ClusterName, Origin, path};
use serde_json::Value;

use crate::apply::delete::Delete;
use crate::cli::{Flags, UnjoinArgs};
use crate::cluster::connection::{self, Connection};
use crate::confirm::confirm;
use crate::env::Env;
use crate::error::{Failure, list_clusters};
use crate::exit::ExitStatus;
use crate::join::member_context;
use crate::join::{cleanup, manifest, objects, survey};
use crate::printer::Printer;
use crate::settings::{self, Settings};

pub(crate) fn run(
    arguments: &UnjoinArgs,
    flags: &Flags,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let member = &arguments.member;
    let name = &settings::cluster_name(arguments.name.as_deref(), flags)?;
    let options = Settings::host_of(flags, env)?;
    let is_named = member.member_context.is_some() || member.member_kubeconfig.is_some();
    let member = if is_named { Some(member_context::member(member, &options, env)?) } else { None };
    connection::run(async {
        let host = connection::connect("host", &options, env).await?;
        let member = match member {
            Some(member) => Some(connection::to("member", member, env).await?),
            None => None,
        };
        unjoin(name, arguments, &host, member.as_ref(), printer).await
    })
}

async fn unjoin(
    name: &ClusterName,
    arguments: &UnjoinArgs,
    host: &Connection,
    member: Option<&Connection>,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let UnjoinArgs { dry_run, yes, force, .. } = arguments;
    let registered = host.get(&path::member_cluster(name)).await?;
    let label =
        registered.as_ref().and_then(|registered| registered["metadata"]["labels"][INVENTORY].as_str());
    let hub = Origin::of_label(label);
    if hub.is_hub() {
        let (title, removal) = (hub.title(), hub.removal());
        return Err(Failure::new(format!("{name} is a member of {title}"))
            .with_hint(format!("take it out of {title}: {removal} {name}")));
    }
    let namespace = survey::namespace(host).await?;
    let is_there = registered.is_some() || cleanup::has_secrets(host, &namespace, name).await?;
    let mut joined = Joined { host: true, member: true };
    let on_member = match member {
        Some(member) => {
            joined = belongs(name, registered.as_ref(), &survey::uid(host).await?, member).await?;
            joined.note(name, host, member, printer);
            Some(member).filter(|_| joined.member)
        }
        None if !is_there => {
            return Err(Failure::new(format!("{name} is not joined to the {}", host.describe()))
                .with_hint(list_clusters())
                .with_status(ExitStatus::NoSuchCluster));
        }
        None if !force => {
            return Err(Failure::usage(format!(
                "removing {name} needs the member's administrator: the sidecar's account there cannot delete itself"
            ))
            .with_hint(
                "choose its kubeconfig context by --member-context=NAME, or use --force if the member no longer exists",
            ));
        }
        None => None,
    };
    let on_member = match on_member {
        Some(member) => {
            let agent = cleanup::agent_on_member(member).await?;
            let mut manifest = manifest::member()?;
            manifest.extend(manifest::enrollment()?);
            Some((member, cleanup::on_member(member, manifest).await?, agent))
        }
        None => None,
    };
    let on_host = match joined.host {
        true => cleanup::on_host(host, &namespace, name).await?.objects,
        false => Vec::new(),
    };

    let delete = Delete { dry_run: *dry_run, timeout: TIMEOUT };
    if !dry_run && !yes {
        let sides = [Some(host).filter(|_| joined.host), member.filter(|_| joined.member)];
        let sides: Vec<_> = sides.into_iter().flatten().map(Connection::describe).collect();
        confirm(&format!("Remove {name} from the {}?", sides.join(" and the ")), printer)?;
    }
    // The host comes first: without the registration, no controller creates the member's objects again.
    delete.print_each("host: ", host, on_host.into_iter(), printer).await?;
    match on_member {
        Some((member, remains, agent)) => {
            for objects in [agent.objects, remains.objects] {
                delete.print_each("member: ", member, objects.into_iter(), printer).await?;
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
        None if member.is_some() => {}
        None => printer.note_line(&format!(
            "the member's objects were not removed; if it comes back, run: {} unjoin {name} --member-context=NAME",
            host.cluster.kubectl_mc()
        )),
    }
    Ok(ExitStatus::Success)
}

/// The sides on which the objects belong to both this cluster and this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Joined {
    host: bool,
    member: bool,
}

impl Joined {
    /// Decides by the uid of the cluster, the registration of the name, and the annotations of a
    /// join on the cluster: whether they exist, and whether they contain this host and this name.
    /// `None` means that the cluster and the name have nothing in common.
    ///
    /// The name may now belong to another cluster, whose registration stays. The cluster may also
    /// be joined to another host, or under another name; its objects for that join stay.
    fn of(uid: &str, registered: Registration<'_>, is_marked: bool, is_ours: bool) -> Option<Self> {
        let is_registered = registered == Registration::Of(uid);
        let joined = Self {
            host: is_registered || (is_ours && registered == Registration::None),
            member: is_ours || (is_registered && !is_marked),
        };
        (joined.host || joined.member).then_some(joined)
    }

    /// Prints which side stays.
    fn note(self, name: &ClusterName, host: &Connection, member: &Connection, printer: &Printer) {
        if !self.host {
            printer.note_line(&format!(
                "{name} on the {} is not known to be this cluster, and stays: only the objects on the {} are removed",
                host.describe(),
                member.describe()
            ));
        }
        if !self.member {
            printer.note_line(&format!(
                "the {} is joined to another host, or by another name, and these objects on it stay",
                member.describe()
            ));
        }
    }
}

/// The registration under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Registration<'a> {
    None,
    /// A cluster without a known uid, which was registered by hand.
    Unknown,
    /// A cluster with this uid.
    Of(&'a str),
}

/// Checks that the context is the cluster that was joined under this name, so that no other cluster's objects
/// are deleted.
async fn belongs(
    name: &ClusterName,
    registered: Option<&Value>,
    host_uid: &str,
    member: &Connection,
) -> Result<Joined, Failure> {
    let uid = survey::uid(member).await?;
    let namespace = member.get(&format!("/api/v1/namespaces/{NAMESPACE}")).await?.unwrap_or_default();
    let mark = |key: &str| namespace["metadata"]["annotations"][key].as_str();
    let is_ours = mark(CLUSTER) == Some(name.as_str()) && mark(HOST_UID) == Some(host_uid);
    let registered = match registered.map(objects::uid_of) {
        None => Registration::None,
        Some(None) => Registration::Unknown,
        Some(Some(uid)) => Registration::Of(uid),
    };
    Joined::of(&uid, registered, mark(CLUSTER).is_some(), is_ours).ok_or_else(|| {
        let is = match mark(CLUSTER) {
            Some(other) if mark(HOST_UID) == Some(host_uid) => format!("it is {other}"),
            Some(other) => format!("it is {other} of another host"),
            None => "it is not a member".to_owned(),
        };
        Failure::new(format!("the {}, is not {name}: {is}", member.describe())).with_hint(format!(
            "choose the context of {name} by --member-context=NAME; --force without --member-context removes it from the host only"
        ))
    })
}

/// Timeout for the deletion of a namespace and its contents.
const TIMEOUT: Duration = Duration::from_secs(120);

#[cfg(test)]
mod tests {
    use Registration::{Of, Unknown};

    use super::*;

    #[test]
    fn only_objects_of_this_join_are_removed() {
        let both = Some(Joined { host: true, member: true });
        let host_only = Some(Joined { host: true, member: false });
        let member_only = Some(Joined { host: false, member: true });
        for (registered, is_marked, is_ours, expected) in [
            (Of("a"), true, true, both),
            // Remains of an old release, or of an incomplete removal.
            (Of("a"), false, false, both),
            (Registration::None, true, true, both),
            // The member was removed by force, and another cluster now has the name.
            (Of("b"), true, true, member_only),
            // The name was since registered by hand.
            (Unknown, true, true, member_only),
            (Unknown, false, false, None),
            // Another host took the cluster over, or it was joined under another name.
            (Of("a"), true, false, host_only),
            (Of("b"), true, false, None),
            (Of("b"), false, false, None),
            (Registration::None, true, false, None),
            (Registration::None, false, false, None),
        ] {
            let joined = Joined::of("a", registered, is_marked, is_ours);
            assert_eq!(joined, expected, "{registered:?}, marked {is_marked}, ours {is_ours}");
        }
    }
}
