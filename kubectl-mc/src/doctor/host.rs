//! Checks the host: reachability, TLS and login, its clock, the sidecar behind it, and the rights of agents.

use std::error::Error as _;
use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use jiff::Timestamp;
use kubectl_mc_api::names;
use kubectl_mc_api::path::{FLEET_ROOT, PROXY_GROUP_VERSION};
use serde_json::{Value, json};

use super::hub;
use super::report::Finding;
use super::requests::{post, send};
use crate::authz::Restriction;
use crate::cli;
use crate::cluster::client::{self, ClientError, Reply};
use crate::cluster::connection::Connection;
use crate::cluster::context::ClusterContext;
use crate::cluster::fields::condition;
use crate::cluster::hop::{Asked, Hop};
use crate::cluster::kubernetes_version::{HOST_MINIMUM, KubernetesVersion};
use crate::cluster::sidecar_version::SidecarVersion;
use crate::next_command::quoted;

/// Stops at the first check without which the others cannot work.
pub(super) async fn check(host: &ClusterContext, client: &kube::Client) -> Vec<Finding> {
    let begin = Instant::now();
    let version = match client::get_by(client, "/version", JSON).await {
        Ok(reply) => reply,
        Err(error) => return vec![unreached(host, &error)],
    };
    let took = begin.elapsed();
    let mut findings = vec![reached(host, &version, took)];
    if version.status == StatusCode::UNAUTHORIZED || version.status.is_server_error() {
        return findings;
    }
    findings.push(login(host, client, "host").await);
    findings.extend(version.date.map(|there| clock(Timestamp::now(), there, "host")));
    if host.hub.is_foreign() {
        let is_service_account = findings
            .iter()
            .any(|finding| finding.check == "login" && finding.message.starts_with("system:serviceaccount:"));
        findings.extend(hub::check(host, client, is_service_account).await);
        findings.extend(agents(host, client).await);
        return findings;
    }
    findings.push(sidecar(host, client).await);
    findings.extend(registration(host, client).await);
    findings.extend(fleet(host, client).await);
    findings.extend(agents(host, client).await);
    findings
}

/// The finding for a host that cannot be used at all.
pub(super) fn unreached(host: &ClusterContext, error: &ClientError) -> Finding {
    Finding::problem("host", reason(error), Some(reach(host, error)))
}

/// The error and its innermost cause, if it has one.
pub(super) fn reason(error: &ClientError) -> String {
    match error.source() {
        Some(_) => format!("{error}: {}", error.reason()),
        None => error.to_string(),
    }
}

/// The next step if the host did not respond to a request.
pub(super) fn reach(host: &ClusterContext, error: &ClientError) -> String {
    let kubectl = host.kubectl();
    match error {
        ClientError::Unreachable(_) => {
            format!("check the network, a VPN, and the server of the context: {kubectl} config view --minify")
        }
        ClientError::Tls(_) => format!(
            "check certificate-authority and tls-server-name of the context; compare with: {kubectl} get --raw /version"
        ),
        ClientError::TooLarge(_) => {
            format!("check the server of the context: {kubectl} config view --minify")
        }
        ClientError::Setup(_) => format!("try: {kubectl} auth whoami"),
    }
}

fn reached(host: &ClusterContext, reply: &Reply, took: Duration) -> Finding {
    let version = reply.json()["gitVersion"].as_str().unwrap_or_default().to_owned();
    match (reply.refusal(), KubernetesVersion::parse(&version)) {
        (Some(refusal), _) if refusal.hop == Hop::HostAuthentication => {
            Finding::problem("host", refusal.to_string(), Some(refusal.hint(host, None, &Asked::default())))
        }
        // The API server is not ready, or a proxy in front of it answers.
        _ if reply.status.is_server_error() => Finding::problem(
            "host",
            format!("GET /version: {}: {}", reply.status.as_u16(), reply.message()),
            Some(format!("wait for the host; see: {} get --raw '/readyz?verbose'", host.kubectl())),
        ),
        (None, Some(found)) if found < HOST_MINIMUM => Finding::problem(
            "host",
            format!("Kubernetes {version}; the sidecar needs {HOST_MINIMUM} or later"),
            Some("upgrade the host".to_owned()),
        ),
        (None, Some(_)) => Finding::ok("host", format!("Kubernetes {version} in {} ms", took.as_millis())),
        // Some hosts show their version only to administrators.
        (_, _) => Finding::ok("host", format!("answers in {} ms", took.as_millis())),
    }
}

/// The caller's identity on this server, which is the host or the cluster of a context.
pub(super) async fn login(host: &ClusterContext, client: &kube::Client, role: &str) -> Finding {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let reply = match post(client, "/apis/authentication.k8s.io/v1/selfsubjectreviews", &review).await {
        Ok(reply) => reply,
        Err(error) => return unreached(host, &error),
    };
    let whoami = format!("{} auth whoami", host.kubectl());
    match reply.status {
        status if status.is_success() => {}
        StatusCode::UNAUTHORIZED => {
            return Finding::problem(
                "login",
                reply.message().to_string(),
                Some(format!("log in to the {role} again, then try: {whoami}")),
            );
        }
        // Only this review is refused; other requests may be allowed.
        StatusCode::FORBIDDEN => {
            return Finding::warning(
                "login",
                format!("the {role} does not return your user name: {}", reply.message()),
                format!("an admin of the {role} binds ClusterRole system:basic-user to system:authenticated"),
            );
        }
        status => {
            let message = format!("SelfSubjectReview: {}: {}", status.as_u16(), reply.message());
            return Finding::problem("login", message, Some(format!("try: {whoami}")));
        }
    }
    let user = &reply.json()["status"]["userInfo"];
    let groups: Vec<_> = user["groups"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let name = user["username"].as_str().unwrap_or_default();
    if name == "system:anonymous" {
        return Finding::problem(
            "login",
            format!("the {role} authenticates you as system:anonymous: the context has no credential"),
            Some(format!("{}; then try: {whoami}", credential(host))),
        );
    }
    Finding::ok("login", format!("{name} ({})", groups.join(", ")))
}

/// The command that gives the context a credential.
fn credential(host: &ClusterContext) -> String {
    let kubectl = host.kubectl();
    match (host.user_name(), &host.context) {
        (Some(user), _) => {
            let user = quoted(user.as_ref());
            format!("give its user a credential: {kubectl} config set-credentials {user} --token=TOKEN")
        }
        (None, Some(context)) => {
            format!("name a user: {kubectl} config set-context {} --user=NAME", quoted(context.as_ref()))
        }
        (None, None) => "mount the token of the pod's service account".to_owned(),
    }
}

/// Tokens and certificates expire by the clock of the side that validates them.
pub(super) fn clock(here: Timestamp, there: Timestamp, role: &str) -> Finding {
    let apart = here.duration_since(there);
    let seconds = apart.unsigned_abs().as_secs();
    if apart.unsigned_abs() <= CLOCK_TOLERANCE {
        return Finding::ok("clock", format!("within {} s of the {role}'s", CLOCK_TOLERANCE.as_secs()));
    }
    let direction = if apart.is_negative() { "behind" } else { "ahead of" };
    Finding::warning(
        "clock",
        format!(
            "this machine's clock is {seconds} s {direction} the {role}'s: new tokens and certificates may be refused"
        ),
        "synchronize both clocks by NTP",
    )
}

/// Checks the sidecar with a discovery request. The host caches the version, and does not have it
/// for a while after an installation.
async fn sidecar(host: &ClusterContext, client: &kube::Client) -> Finding {
    let begin = Instant::now();
    let discovery = match client::get_by(client, &format!("/apis/{PROXY_GROUP_VERSION}"), JSON).await {
        Ok(reply) => reply,
        Err(error) => return unreached(host, &error),
    };
    let took = begin.elapsed().as_millis();
    if !discovery.status.is_success() {
        let refusal = discovery.refusal().map(|refusal| refusal.at_hub(&host.hub));
        let Some(refusal) = refusal else {
            let message = format!("{}: {}", discovery.status.as_u16(), discovery.message());
            let fix = format!("see: {} get --raw /apis/{PROXY_GROUP_VERSION}", host.kubectl());
            return Finding::problem("sidecar", message, Some(fix));
        };
        if refusal.hop == Hop::HostAuthorization {
            // A host refuses the request before it looks for the API, and commands on a member do
            // not need this request.
            return Finding::warning(
                "sidecar",
                refusal.to_string(),
                "an admin of the host binds ClusterRole system:discovery to system:authenticated",
            );
        }
        return Finding::problem(
            "sidecar",
            refusal.to_string(),
            Some(refusal.hint(host, None, &Asked::default())),
        );
    }
    let document = client::get_by(client, &SidecarVersion::path(), JSON).await;
    match document.ok().and_then(|reply| SidecarVersion::of(&reply).ok()) {
        Some(SidecarVersion { version, commit }) => {
            let version = version.to_string();
            skew(&version, &cli::with_commit(&version, &commit.to_string()), took, &host.kubectl_mc())
        }
        None => {
            Finding::ok("sidecar", format!("answers in {took} ms; the host does not know its version yet"))
        }
    }
}

/// Compares the versions of the plugin and the sidecar, which are released together.
fn skew(there: &str, in_full: &str, took: u128, kubectl_mc: &str) -> Finding {
    let message = format!("{in_full} in {took} ms");
    let numbers = |version: &str| -> Vec<u64> {
        let numbers = version.trim_start_matches('v').split(['.', '-', '+']);
        numbers.map_while(|number| number.parse().ok()).take(3).collect()
    };
    let (here, there) = (numbers(cli::GIT_VERSION), numbers(there));
    if here.get(..2) == there.get(..2) {
        return Finding::ok("sidecar", message);
    }
    let fix = if here > there {
        format!(
            "an admin of the host upgrades the sidecar: {kubectl_mc} install --image=NEW, with the flags and values of the installation"
        )
    } else {
        "upgrade the plugin, with krew: kubectl krew upgrade mc".to_owned()
    };
    Finding::warning("sidecar", format!("{message}; the plugin is {}", cli::GIT_VERSION), fix)
}

/// The status of the sidecar's APIService, if the caller may read it.
async fn registration(host: &ClusterContext, client: &kube::Client) -> Option<Finding> {
    let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{}", names::API_SERVICE);
    let reply = send(client, Method::GET, &path, None).await.ok()?;
    if !reply.status.is_success() {
        return None;
    }
    let object = reply.json();
    let available = condition(&object, "Available")?;
    let text = |field: &str| available[field].as_str().unwrap_or_default().to_owned();
    if text("status") == "True" {
        return Some(Finding::ok("registration", "the APIService is available"));
    }
    Some(Finding::problem(
        "registration",
        format!("the APIService is not available: {}: {}", text("reason"), text("message")),
        Some(format!("{} describe apiservice {}", host.kubectl(), names::API_SERVICE)),
    ))
}

/// Whether the host serves its members as one cluster, as far as the caller may know it.
async fn fleet(host: &ClusterContext, client: &kube::Client) -> Option<Finding> {
    let reply = client::get_by(client, &format!("{FLEET_ROOT}/version"), JSON).await.ok()?;
    match reply.status {
        status if status.is_success() => Some(Finding::ok("fleet", "serves its members as one cluster")),
        // `*` is no name of a cluster.
        StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND => {
            Some(Finding::skipped("fleet", "the host does not serve its members as one cluster"))
        }
        // The host refuses before it looks for the view.
        StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => None,
        status => Some(Finding::warning(
            "fleet",
            format!("{}: {}", status.as_u16(), reply.message()),
            format!("see: {} get --raw '{FLEET_ROOT}/version'", host.kubectl()),
        )),
    }
}

/// Whether the agents of Karmada may use only objects of their own clusters, if the host has rules
/// for this and the caller may read them.
async fn agents(host: &ClusterContext, client: &kube::Client) -> Option<Finding> {
    let side = Connection { role: "host", client: client.clone(), cluster: host.clone() };
    match Restriction::of(&side).await {
        Restriction::Absent => None,
        Restriction::InForce => {
            Some(Finding::ok("agents", "an agent may not use objects of another cluster"))
        }
        Restriction::Broken(fault) => Some(Finding::problem(
            "agents",
            format!("an agent may use objects of other clusters: {fault}"),
            Some(format!("{} authz verify --for karmada", host.kubectl_mc())),
        )),
    }
}

const JSON: &str = "application/json";
/// `Date` has a resolution of one second, and the response was in transit.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::super::report::Level;
    use super::*;

    #[test]
    fn clock_that_differs_by_more_than_its_tolerance_is_a_warning() {
        let there: Timestamp = "2026-11-21T20:50:41Z".parse().unwrap();
        let at = |text: &str| clock(text.parse().unwrap(), there, "host");
        assert_eq!(at("2026-11-21T20:50:46Z").level, Level::Ok);
        let ahead = at("2026-11-21T20:52:41Z");
        assert!(ahead.message.contains("120 s ahead of the host's"), "{ahead:?}");
        assert_eq!(ahead.level, Level::Warning);
        assert!(at("2026-11-21T20:50:01Z").message.contains("40 s behind the host's"));
    }

    #[test]
    fn other_minor_version_of_the_sidecar_is_a_warning() {
        let level = |version: &str| skew(version, version, 1, "kubectl mc");
        assert_eq!(level(cli::GIT_VERSION).level, Level::Ok);
        assert_eq!(
            level("v0.0.9").fix.unwrap().to_string(),
            "an admin of the host upgrades the sidecar: kubectl mc install --image=NEW, with the flags and values of the installation"
        );
        assert_eq!(
            level("v99.0.0").fix.unwrap().to_string(),
            "upgrade the plugin, with krew: kubectl krew upgrade mc"
        );
    }
}
