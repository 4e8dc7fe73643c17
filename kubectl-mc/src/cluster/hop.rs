//! Determines from an error response which hop refused a request: the host, the sidecar or the member.
//!
//! Errors of the sidecar name their hop in a response header that only the sidecar sets. The body is not
//! trusted, because a member can write any body. A response without the header comes from the host, which is
//! trusted, and is classified by its status.

mod asked;

use http::{HeaderMap, StatusCode};
use kubectl_mc_api::dialect::Dialect;
use kubectl_mc_api::{ClusterName, hop, names, path};

use crate::cluster::context::ClusterContext;
use crate::cluster::hub::Hub;
use crate::error::{CommandLine, Hint, list_clusters, mc};
use crate::exit::ExitStatus;
use crate::next_command::quoted;
use crate::server_text::ServerText;

pub(crate) use asked::Asked;
pub(crate) use kubectl_mc_api::Hop;

/// The hop that the response header names; `None` for a response of the host.
pub(crate) fn from_head(headers: &HeaderMap) -> Option<Hop> {
    let name = headers.get(hop::HEADER)?;
    // A newer sidecar may have more hops than this plugin.
    Some(name.to_str().ok().and_then(Hop::from_wire).unwrap_or(Hop::Sidecar))
}

/// A refusal before the member: the hop, and the message of the server there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) hop: Hop,
    pub(crate) message: ServerText,
}

impl Refusal {
    /// Reads an error response. `None` means the member's own response: kubectl prints those well,
    /// and a member may refuse `/version` but allow other requests.
    pub(crate) fn of(status: StatusCode, hop: Option<Hop>, body: &[u8]) -> Option<Self> {
        let message = message(status, body);
        let hop = match hop {
            Some(Hop::Member) => return None,
            Some(hop) => {
                // The text responses of the sidecar repeat the hop.
                let repeated = message.raw().strip_prefix(hop.as_str());
                let message = repeated
                    .and_then(|rest| rest.strip_prefix(": "))
                    .map_or_else(|| message.clone(), Into::into);
                return Some(Self { hop, message });
            }
            None => of_the_host(status, body)?,
        };
        Some(Self { hop, message })
    }

    /// Reads an error response to a request that another project's hub forwards. Responses of the hub and of
    /// the member look alike: only those about the hub's API are attributed to the hub. `path` is the
    /// member's.
    pub(crate) fn by_hub(hub: &Dialect, status: StatusCode, body: &[u8], path: &str) -> Option<Self> {
        let answer: Option<StatusBody> = serde_json::from_slice(body).ok();
        let is_of_hub = answer.as_ref().is_some_and(|answer| hub.has_group(&answer.details.group));
        let path = path.split('?').next().unwrap_or_default();
        let is_core =
            path.is_empty() || ["/api", "/apis", "/version"].contains(&path) || path.starts_with("/api/");
        let hop = match status {
            StatusCode::NOT_FOUND if is_of_hub => Hop::ClusterUnknown,
            StatusCode::FORBIDDEN if is_of_hub => Hop::HostAuthorization,
            _ if is_of_hub => Hop::Hub,
            // Every cluster serves these paths, so the hub does not serve the member.
            StatusCode::NOT_FOUND
                if is_core && answer.is_none_or(|answer| answer.details.names_nothing()) =>
            {
                Hop::Hub
            }
            _ => return None,
        };
        Some(Self { hop, message: message(status, body) })
    }

    /// Removes the cached hub if the host seems to lack its API. A host refuses callers without a right to an API before
    /// it checks that the API exists.
    pub(crate) fn doubts(&self, hub: &Hub) {
        if matches!(self.hop, Hop::SidecarMissing | Hop::Hub | Hop::HostAuthorization) {
            hub.doubt();
        }
    }

    /// The same refusal on a host with another project's hub, which needs no sidecar.
    pub(crate) fn at_hub(self, hub: &Hub) -> Self {
        self.doubts(hub);
        match self.hop {
            Hop::SidecarMissing | Hop::SidecarUnavailable if hub.is_foreign() => {
                Self { hop: Hop::Hub, ..self }
            }
            _ => self,
        }
    }

    /// The next step for the user.
    pub(crate) fn hint(&self, host: &ClusterContext, cluster: Option<&ClusterName>, asked: &Asked) -> Hint {
        hint(self, host, cluster, asked)
    }

    pub(crate) fn exit_status(&self) -> ExitStatus {
        if self.hop == Hop::ClusterUnknown { ExitStatus::NoSuchCluster } else { ExitStatus::Failed }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.hop, self.message)
    }
}

/// The message of a Status, or the text of any other answer; if there is none, client-go's sentence
/// for the status.
pub(crate) fn message(status: StatusCode, body: &[u8]) -> ServerText {
    let message = match serde_json::from_slice::<StatusBody>(body) {
        Ok(status) => short(&status.message),
        Err(_) => short(&String::from_utf8_lossy(body)),
    };
    if message.is_empty() { unexplained(status).into() } else { message.into() }
}

/// The sentences of client-go (`NewGenericServerResponse` of apimachinery), which follows redirects.
fn unexplained(status: StatusCode) -> String {
    let sentence = match status.as_u16() {
        300..400 => {
            return format!("the server redirects to another address, which is not followed ({status})");
        }
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        404 => NOT_FOUND,
        405 => "the server does not allow this method on the requested resource",
        406 => "the server was unable to respond with a content type that the client supports",
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        500.. => return "an error on the server (\"\") has prevented the request from succeeding".to_owned(),
        code => {
            return format!(
                "the server responded with the status code {code} but did not return more information"
            );
        }
    };
    sentence.to_owned()
}

/// The hop of an error that the host returns in place of the sidecar.
fn of_the_host(status: StatusCode, body: &[u8]) -> Option<Hop> {
    let answer: Option<StatusBody> = serde_json::from_slice(body).ok();
    match status.as_u16() {
        401 => Some(Hop::HostAuthentication),
        403 => Some(Hop::HostAuthorization),
        // The host's response for a group that it does not serve.
        404 if answer.is_none_or(|answer| answer.details.names_nothing()) => Some(Hop::SidecarMissing),
        // Responses of the host while the APIService is unavailable, and of proxies before the host.
        502..=504 => Some(Hop::SidecarUnavailable),
        _ => None,
    }
}

fn hint(refusal: &Refusal, host: &ClusterContext, cluster: Option<&ClusterName>, asked: &Asked) -> Hint {
    let Refusal { hop, message } = refusal;
    if *hop == Hop::HostAuthorization && is_impersonation(message.raw()) {
        return refused_as(message.raw(), &host.kubectl(), asked).into();
    }
    if let Some(hint) = hub_hint(*hop, host, cluster) {
        return hint.into();
    }
    let message = message.raw();
    let (kubectl, kubectl_mc) = (host.kubectl(), host.kubectl_mc());
    let name = cluster.map_or("NAME", ClusterName::as_str);
    let text = match hop {
        Hop::HostUnreachable => {
            "check the network and the server of the context, or choose another host by --context=NAME"
                .to_owned()
        }
        Hop::SidecarMissing => {
            format!(
                "an admin of the host runs: {kubectl_mc} install; or choose another host by --context=NAME, or its hub by --hub=NAME"
            )
        }
        Hop::Hub => format!("see: {kubectl} api-resources"),
        Hop::SidecarUnavailable => format!("see: {kubectl} get apiservice {}", names::API_SERVICE),
        Hop::Request => {
            "check the command, and that the plugin and the sidecar have the same version".to_owned()
        }
        Hop::HostAuthentication => format!("log in to the host again, then try: {kubectl} auth whoami"),
        Hop::HostAuthorization if cluster.is_none() => {
            let text = "name the clusters (-C m1,m2), or ask an admin of the host for the right to list them, which ";
            let question = format!("{kubectl} auth can-i list clusters.{}", path::PROXY_GROUP);
            return Hint::from(text)
                .then(mc("install --list-for=GROUP").that("gives"))
                .and(CommandLine::new(question).after("see"));
        }
        Hop::HostAuthorization => format!(
            "see: {kubectl_mc} {}; an admin of the host grants access: {kubectl_mc} {}",
            asked.explain(name),
            asked.grant(message, cluster)
        ),
        Hop::Sidecar => {
            "try again; if the error stays, an admin of the host reads the log of mc-sidecar".to_owned()
        }
        Hop::KarmadaServer => {
            "an admin of the host checks karmada-aggregated-apiserver, which the sidecar is in front of"
                .to_owned()
        }
        Hop::ClusterUnknown => return list_clusters(),
        // The sidecar's message about a member that waits for its agent.
        Hop::ProxyOff if message.contains(" --agent --enroll") => format!(
            "an admin of {name} applies the manifest of `{kubectl_mc} join {name} --agent --enroll`, which an admin of the \
             host runs again if the time is over; see condition CredentialValid: {kubectl} describe membercluster {name}"
        ),
        Hop::ProxyOff => format!(
            "{name} has no credential; an admin of the host and of {name} runs: \
             {kubectl_mc} join {name} --member-context=NAME"
        ),
        Hop::Agent => format!(
            "see condition Connected: {kubectl} get membercluster {name} -o yaml; on {name}, an admin reads the log of the \
             agent: kubectl --context=NAME -n {} logs deploy/{}",
            names::AGENT_NAMESPACE,
            names::AGENT
        ),
        Hop::MemberUnreachable if message.contains("certificate") && host.hub.dialect.is_own() => format!(
            "the server of {name} does not have a certificate of the CA, or for the name, that its registration has; an admin of \
             the host and of {name} registers it anew: {kubectl_mc} join {name} --member-context=NAME"
        ),
        Hop::MemberUnreachable => format!(
            "{name} did not answer this request; `{kubectl_mc} clusters` shows it as Ready until the third failed probe; an \
             admin of {name} checks its API server and the network to it"
        ),
        Hop::MemberAuthentication => format!(
            "{name} refuses the sidecar's credential; an admin of the host and of {name} renews it: \
             {kubectl_mc} join {name} --renew"
        ),
        Hop::MemberImpersonation => {
            let who = asked.who();
            format!("{name} does not let the sidecar impersonate {who}; see: {kubectl_mc} access diff {name}")
        }
        Hop::Member => format!("see: {kubectl_mc} {}", asked.explain(name)),
    };
    text.into()
}

fn refused_as(message: &str, kubectl: &str, asked: &Asked) -> String {
    let (who, user) = (asked::refused_user(message).unwrap_or("you"), asked.who());
    let question = quoted(format!("users/{user}").as_ref());
    format!(
        "{who} may not act as {user}, and whether {user} has the right was not asked; without --as the command runs as {who}; \
         see: {kubectl} auth can-i impersonate {question}"
    )
}

/// Whether the host refused `--as`, and not the request.
fn is_impersonation(message: &str) -> bool {
    message.contains("\" cannot impersonate resource \"")
}

/// The hint for the hub of another project, where hints about kubectl-mc's sidecar do not apply.
fn hub_hint(hop: Hop, host: &ClusterContext, cluster: Option<&ClusterName>) -> Option<String> {
    let dialect = &host.hub.dialect;
    let (kubectl, title) = (host.kubectl(), dialect.title());
    Some(match (hop, dialect) {
        (_, Dialect::Own) => return None,
        (Hop::Hub, Dialect::KubeAdmiral) if cluster.is_some() => {
            "KubeAdmiral lists clusters, and by itself serves no path to them; work on contexts of your kubeconfig by --contexts"
                .to_owned()
        }
        (Hop::Hub, _) => match cluster {
            Some(cluster) => format!(
                "check that {title} serves the cluster: {kubectl} get --raw {}{}/version",
                host.prefix(),
                host.hub.root(cluster)
            ),
            None => format!("check that the host is a hub of {title}, or choose another by --hub=NAME: {kubectl} api-resources"),
        },
        (Hop::HostAuthorization, _) => {
            let listed = dialect.resource().map(|resource| (resource.name, resource.group));
            let question = match (cluster, dialect.proxied(), listed) {
                (Some(_), Some((name, group)), _) => format!("get {name}.{group} --subresource=proxy"),
                (None, _, Some((name, group))) => format!("list {name}.{group}"),
                _ => "--list".to_owned(),
            };
            format!("an admin of {title} grants access; see: {kubectl} auth can-i {question}")
        }
        (Hop::MemberAuthentication | Hop::MemberImpersonation | Hop::ProxyOff | Hop::Agent | Hop::Member, _) => {
            format!("see the state of the cluster in {title}")
        }
        _ => return None,
    })
}

/// The fields of a `metav1.Status` that the plugin reads.
#[derive(serde::Deserialize)]
struct StatusBody {
    #[serde(default)]
    message: String,
    #[serde(default)]
    details: StatusDetails,
}

/// The object of the Status.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct StatusDetails {
    group: String,
    kind: String,
    name: String,
}

impl StatusDetails {
    /// Whether the error is about no object: a server does not serve the path at all.
    fn names_nothing(&self) -> bool {
        [&self.group, &self.kind, &self.name].iter().all(|text| text.is_empty())
    }
}

/// Truncates a message, so that an error page of a proxy does not fill the terminal.
fn short(message: &str) -> String {
    let message = message.trim();
    match message.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    }
}

const NOT_FOUND: &str = "the server could not find the requested resource";
const MAX_MESSAGE: usize = 1000;

#[cfg(test)]
mod tests;
