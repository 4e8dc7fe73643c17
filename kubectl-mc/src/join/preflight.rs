//! Decides from a [`super::survey`] whether a join may begin. It makes no requests, so each finding can be
//! tested in one line.

use std::time::Duration;

use kubectl_mc_api::names::{self, CLUSTER, HOST_UID, INVENTORY};
use kubectl_mc_api::{ClusterName, Origin};
use serde_json::Value;

use super::address;
use super::endpoint::Endpoint;
use super::objects;
use super::survey::{HostSurvey, MemberSurvey, Sidecar};
use crate::cluster::kubernetes_version::{KubernetesVersion, MEMBER_ADMITTED, MEMBER_MINIMUM};
use crate::error::{CommandLine, Hint, mc};

/// The result of a check.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Finding {
    /// Information for the user.
    Fine(String),
    /// The user must confirm it.
    Warning(String),
    /// The join cannot continue: the reason and a hint.
    Refused(String, Hint),
}

/// Names of both sides, for messages and hints.
pub(crate) struct Names<'a> {
    pub(crate) cluster: &'a ClusterName,
    /// The host's and the member's `kubectl --context=…`.
    pub(crate) host_kubectl: &'a str,
    pub(crate) member_kubectl: &'a str,
    /// The member's kubeconfig context.
    pub(crate) member_context: Option<&'a str>,
}

/// All findings before a join, including refusals.
pub(crate) fn check(
    names: &Names<'_>,
    host: &HostSurvey,
    member: &MemberSurvey,
    endpoint: &Endpoint,
    token_life: Duration,
) -> Vec<Finding> {
    let mut findings = of_host(names.host_kubectl, host);
    findings.extend(address(names, member.own_server.as_deref(), endpoint));
    findings.extend(identity(names, host, member));
    findings.extend(rights("member", names.member_kubectl, &member.missing));
    findings.extend(version(member));
    findings.extend(token_request(names, member));
    findings.extend(clock(host, member, token_life));
    if endpoint.insecure {
        findings.push(Finding::Warning(
            "the member's certificate will not be verified, which allows man-in-the-middle attacks"
                .to_owned(),
        ));
    }
    findings
}

/// The findings about the host alone.
pub(crate) fn of_host(kubectl: &str, host: &HostSurvey) -> Vec<Finding> {
    let mut findings = vec![sidecar(kubectl, host)];
    findings.extend(rights("host", kubectl, &host.missing));
    findings
}

/// A member with an agent keeps it unless the caller gives an address.
pub(crate) fn agent_is_kept(cluster: &ClusterName, has_agent: bool, endpoint: &Endpoint) -> Option<Finding> {
    (has_agent && !endpoint.is_given).then(|| {
        Finding::Refused(
            format!("{cluster} is joined through an agent, which this command would remove"),
            "add --agent to keep it; --server=URL sets the address at which the sidecar reaches the member, and removes \
             the agent"
                .into(),
        )
    })
}

fn sidecar(kubectl: &str, host: &HostSurvey) -> Finding {
    match &host.sidecar {
        Sidecar::Installed => Finding::Fine("the sidecar answers on the host".to_owned()),
        Sidecar::Missing => Finding::Refused(
            "mc-sidecar is not installed on the host".to_owned(),
            mc("install").after("install it"),
        ),
        Sidecar::Unavailable(message) => Finding::Refused(
            format!("mc-sidecar does not answer on the host: {message}"),
            CommandLine::new(format!("{kubectl} get apiservice {}", names::API_SERVICE)).after("see"),
        ),
    }
}

/// Refuses an address that is local to the caller's machine, because for the sidecar it would be
/// its own.
pub(super) fn address(names: &Names<'_>, own_server: Option<&str>, endpoint: &Endpoint) -> Option<Finding> {
    let local = endpoint.locality()?;
    let guessed = names.member_context.and_then(address::of_context);
    let own = own_server.filter(|server| !address::is_local(server)).map(str::to_owned);
    let hint = match own.or(guessed) {
        Some(server) => format!("the member is likely reached by --server={server}"),
        None => {
            "set the member's address in the network of the host's sidecar: --server=https://…".to_owned()
        }
    };
    Some(Finding::Refused(
        format!("the member's server {} is {}: the host's sidecar cannot reach it", endpoint.server, local),
        hint.into(),
    ))
}

/// Checks that the name is free and that the cluster is not joined already.
fn identity(names: &Names<'_>, host: &HostSurvey, member: &MemberSurvey) -> Option<Finding> {
    let Names { cluster, .. } = names;
    if member.uid == host.uid && !host.uid.is_empty() {
        return Some(Finding::Refused(
            "the member is the host itself".to_owned(),
            "choose the member by --member-context=NAME and the host by --context=NAME".into(),
        ));
    }
    let note = |key: &str| annotation(member.namespace.as_ref(), key);
    let take_over = format!(
        "{} annotate namespace {} {HOST_UID}={} --overwrite",
        names.member_kubectl,
        names::NAMESPACE,
        host.uid
    );
    if let Some(other) = note(HOST_UID).filter(|other| *other != host.uid) {
        let name = note(CLUSTER).unwrap_or("?");
        let member =
            names.member_context.map_or_else(String::new, |context| format!("--member-context={context}"));
        return Some(Finding::Refused(
            format!(
                "the cluster is joined to another host already, as {name} (that host's kube-system has uid {other})"
            ),
            mc(format!("unjoin {name} --context=THAT-HOST {member}"))
                .after("unjoin it there")
                .and(CommandLine::new(take_over).after("if that host is gone")),
        ));
    }
    let same = |entry: &&Value| objects::uid_of(entry) == Some(&member.uid);
    let by_uid = host.registered.iter().filter(same).find_map(|entry| entry["metadata"]["name"].as_str());
    // The annotation is ignored if its registration was deleted, or if another cluster has since
    // joined with that name.
    let is_registered = |name: &ClusterName| {
        let registered = host.cluster(name);
        registered.is_some_and(|entry| objects::uid_of(entry).is_none_or(|uid| uid == member.uid))
    };
    let by_note = note(CLUSTER)
        .filter(|name| note(HOST_UID).is_some() && name.parse().is_ok_and(|name| is_registered(&name)));
    if let Some(known) = by_uid.or(by_note).filter(|known| *known != cluster.as_str()) {
        return Some(Finding::Refused(
            format!("the cluster is joined already, as {known}"),
            mc(format!("--cluster={known} get namespaces"))
                .after(format!("use it as {known}"))
                .and(mc(format!("unjoin {known} --member-context=NAME")).after("or first")),
        ));
    }
    let joined = by_uid.or(by_note).is_some();
    let taken = host.cluster(cluster);
    if let Some(refused) = hub_registers(cluster, host) {
        return Some(refused);
    }
    if let Some(taken) = taken.filter(|_| !joined) {
        let (what, hint) = match objects::uid_of(taken) {
            Some(_) => ("another cluster has it", "choose another name"),
            None => (
                "it was registered by hand",
                "choose another name, or delete that MemberCluster and its Secret first",
            ),
        };
        return Some(Finding::Refused(format!("the name {cluster} is taken: {what}"), hint.into()));
    }
    // A join annotates the namespace before it creates the account, so these accounts were created
    // by hand, perhaps for another host.
    if member.has_account && note(HOST_UID).is_none() && !joined {
        return Some(Finding::Refused(
            format!(
                "another host may use the cluster: namespace {} has accounts that no join has made",
                names::NAMESPACE
            ),
            CommandLine::new(take_over).after("remove them there first; if no other host uses them"),
        ));
    }
    taken.map(|_| {
        Finding::Fine(format!(
            "{cluster} is joined already: missing objects are created, existing ones are kept"
        ))
    })
}

/// Refuses the name of a member that the inventory of another hub registers.
pub(super) fn hub_registers(cluster: &ClusterName, host: &HostSurvey) -> Option<Finding> {
    let hub = Origin::of_label(host.cluster(cluster)?["metadata"]["labels"][INVENTORY].as_str());
    hub.is_hub().then(|| {
        Finding::Refused(
            format!("the name {cluster} is taken: {} registers it", hub.title()),
            format!("choose another name, or take it out of {} first: {}", hub.title(), hub.removal()).into(),
        )
    })
}

pub(super) fn rights(side: &str, kubectl: &str, missing: &[String]) -> Option<Finding> {
    if missing.is_empty() {
        return None;
    }
    Some(Finding::Refused(
        format!("you lack rights on the {side}: {}", missing.join("; ")),
        mc("join --print")
            .after(format!("ask an admin of the {side}, or hand them the commands of"))
            .and(CommandLine::new(format!("{kubectl} auth can-i --list")).after("see")),
    ))
}

fn version(member: &MemberSurvey) -> Vec<Finding> {
    let version = &member.version;
    let parsed = KubernetesVersion::parse(version);
    let is_before = |minimum| parsed.is_some_and(|version| version < minimum);
    if is_before(MEMBER_ADMITTED) {
        return vec![Finding::Refused(
            format!(
                "the member is Kubernetes {version}; a member must have Kubernetes {MEMBER_ADMITTED} or later"
            ),
            "upgrade the member first".into(),
        )];
    }
    let mut findings = Vec::new();
    if is_before(MEMBER_MINIMUM) {
        findings.push(Finding::Warning(format!(
            "the member is Kubernetes {version}; members before Kubernetes {MEMBER_MINIMUM} are neither tested nor \
             supported"
        )));
    }
    if !member.validates {
        findings.push(Finding::Warning(format!(
            "the member is Kubernetes {version} and serves no ValidatingAdmissionPolicy, as Kubernetes does from 1.30 \
             on: nothing limits the rights that the sidecar's manager can give the impersonator there"
        )));
    }
    if findings.is_empty() {
        findings.push(Finding::Fine(format!("the member is Kubernetes {version}")));
    }
    findings
}

fn token_request(names: &Names<'_>, member: &MemberSurvey) -> Option<Finding> {
    (!member.token_request).then(|| {
        Finding::Refused(
            "the member serves no TokenRequest (serviceaccounts/token), so the plugin cannot request a token that expires".to_owned(),
            CommandLine::new(format!("{} get --raw /api/v1", names.member_kubectl))
                .after("it is part of Kubernetes since 1.22; see")
                .and("or register the member by hand, with a credential that you renew yourself"),
        )
    })
}

/// The sidecar renews a token at a third of its lifetime by the host's clock; the token expires by the
/// member's clock.
fn clock(host: &HostSurvey, member: &MemberSurvey, token_life: Duration) -> Option<Finding> {
    let skew = host.clock?.duration_since(member.clock?).unsigned_abs();
    if skew >= token_life / 3 {
        return Some(Finding::Refused(
            format!(
                "the clocks of host and member are {} s apart: tokens would expire before they are renewed",
                skew.as_secs()
            ),
            "synchronize the clocks (NTP) first".into(),
        ));
    }
    (skew > TOLERABLE_SKEW)
        .then(|| Finding::Warning(format!("the clocks of host and member are {} s apart", skew.as_secs())))
}

fn annotation<'a>(object: Option<&'a Value>, key: &str) -> Option<&'a str> {
    object?["metadata"]["annotations"][key].as_str()
}

/// Responses take time, and their dates have a resolution of one second.
const TOLERABLE_SKEW: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests;
