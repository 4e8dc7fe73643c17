//! Which hop said no: the host, the sidecar or the member. The sidecar writes the hop into its
//! Status (`details.causes`, reason `Hop`); where kubectl would hide a Status it answers in plain
//! text, `<hop>: <message>`.

use kubectl_mc_api::{ClusterName, path};

use crate::client::Reply;
use crate::exit::ExitStatus;
use crate::host::Host;

/// The places a request passes, each with its own way to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hop {
    HostUnreachable,
    HostAuthentication,
    HostAuthorization,
    SidecarMissing,
    SidecarUnavailable,
    ClusterUnknown,
    ProxyOff,
    MemberUnreachable,
    MemberAuthentication,
    MemberImpersonation,
    MemberAuthorization,
}

impl Hop {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::HostUnreachable => "host unreachable",
            Self::HostAuthentication => "host authentication",
            Self::HostAuthorization => "host authorization",
            Self::SidecarMissing => "sidecar not installed",
            Self::SidecarUnavailable => "sidecar not available",
            Self::ClusterUnknown => "cluster unknown",
            Self::ProxyOff => "proxy off",
            Self::MemberUnreachable => "member unreachable",
            Self::MemberAuthentication => "member authentication",
            Self::MemberImpersonation => "member impersonation",
            Self::MemberAuthorization => "member authorization",
        }
    }

    /// The next step for the one who called.
    pub(crate) fn hint(self, host: &Host, cluster: Option<&ClusterName>) -> String {
        let kubectl = host.kubectl();
        let cluster = cluster.map_or("NAME", ClusterName::as_str);
        match self {
            Self::HostUnreachable => "check the network and the server of the context, or choose another host by --context=NAME".to_owned(),
            Self::HostAuthentication => format!("log in to the host again, then try: {kubectl} auth whoami"),
            Self::HostAuthorization if cluster == "NAME" => {
                format!("ask an admin of the host for the ClusterRole kubectl-mc-view; see: {kubectl} auth can-i list clusters.{}", path::PROXY_GROUP)
            }
            Self::HostAuthorization => format!(
                "ask an admin of the host for clusters/proxy of {cluster}; see: {kubectl} auth can-i get clusters.{}/{cluster} --subresource=proxy",
                path::PROXY_GROUP
            ),
            Self::SidecarMissing => "install mc-sidecar on the host, or choose another host by --context=NAME".to_owned(),
            Self::SidecarUnavailable => {
                format!("see: {kubectl} get apiservice {}.{}", path::PROXY_VERSION, path::PROXY_GROUP)
            }
            Self::ClusterUnknown => "`kubectl mc clusters` lists the clusters".to_owned(),
            Self::ProxyOff => format!("the member has no credential: an admin of the host writes it into the Secret {cluster}.member"),
            Self::MemberUnreachable => "`kubectl mc clusters` shows the state of the clusters".to_owned(),
            Self::MemberAuthentication => {
                format!("the member refuses the sidecar's credential: an admin of the host renews it in the Secret {cluster}.member")
            }
            Self::MemberImpersonation => {
                "an admin of the member lets the sidecar impersonate you: ClusterRole kubectl-mc-impersonator there".to_owned()
            }
            Self::MemberAuthorization => format!("ask an admin of {cluster}; see: kubectl mc --cluster={cluster} auth can-i --list"),
        }
    }

    pub(crate) fn status(self) -> ExitStatus {
        if self == Self::ClusterUnknown { ExitStatus::NoSuchCluster } else { ExitStatus::Failed }
    }

    /// The hop that the sidecar names.
    fn named(name: &str) -> Option<Self> {
        BY_SIDECAR.iter().copied().find(|hop| hop.name() == name)
    }
}

/// A refusal: where, and in whose words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) hop: Hop,
    pub(crate) message: String,
}

impl Refusal {
    /// Reads an answer that is no success. `None` when the answer is the member's own: kubectl shows
    /// those well, and a member may well refuse `/version` and allow the rest.
    pub(crate) fn of(reply: &Reply) -> Option<Self> {
        let status: Option<StatusBody> = serde_json::from_slice(&reply.body).ok();
        let text = String::from_utf8_lossy(&reply.body);
        if let Some(status) = &status
            && let Some(hop) = status.hop()
        {
            return Some(Self { hop, message: status.message.clone() });
        }
        if status.is_none()
            && let Some((name, message)) = text.split_once(": ")
            && let Some(hop) = Hop::named(name)
        {
            return Some(Self { hop, message: short(message) });
        }
        let message = Self::message(reply);
        let hop = match reply.status.as_u16() {
            401 => Hop::HostAuthentication,
            403 if message.contains(RESOURCE) => Hop::HostAuthorization,
            // The host's own answer to a group that nobody serves.
            404 if status.is_none() || message == NOT_FOUND => Hop::SidecarMissing,
            // The host's own answers while the APIService is not available, and what stands between.
            502..=504 => Hop::SidecarUnavailable,
            _ => return None,
        };
        Some(Self { hop, message })
    }

    /// What the answer says, be it a Status or text.
    pub(crate) fn message(reply: &Reply) -> String {
        match serde_json::from_slice::<StatusBody>(&reply.body) {
            Ok(status) => short(&status.message),
            Err(_) => short(&String::from_utf8_lossy(&reply.body)),
        }
    }
}

/// What is read of a `metav1.Status`.
#[derive(serde::Deserialize)]
struct StatusBody {
    #[serde(default)]
    message: String,
    details: Option<Details>,
}

#[derive(serde::Deserialize)]
struct Details {
    #[serde(default)]
    causes: Vec<Cause>,
}

#[derive(serde::Deserialize)]
struct Cause {
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
}

impl StatusBody {
    fn hop(&self) -> Option<Hop> {
        let causes = &self.details.as_ref()?.causes;
        causes.iter().find(|cause| cause.reason == "Hop").and_then(|cause| Hop::named(&cause.message))
    }
}

/// An error page of some proxy must not fill the terminal.
fn short(message: &str) -> String {
    let message = message.trim();
    match message.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    }
}

const BY_SIDECAR: &[Hop] = &[
    Hop::HostAuthentication,
    Hop::HostAuthorization,
    Hop::ClusterUnknown,
    Hop::ProxyOff,
    Hop::MemberUnreachable,
    Hop::MemberAuthentication,
    Hop::MemberImpersonation,
    Hop::MemberAuthorization,
];
const RESOURCE: &str = "clusters.proxy.kubectl-mc.dev";
const NOT_FOUND: &str = "the server could not find the requested resource";
const MAX_MESSAGE: usize = 1000;

#[cfg(test)]
mod tests;
