//! Computes and writes the status of each ClusterAccess. A status is written only if it differs from the
//! current one.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kubectl_mc_api::cluster_access::{ClusterState, EXPIRED};
use kubectl_mc_api::names::SIDECAR;
use kubectl_mc_api::{ClusterAccess, ClusterAccessStatus, ClusterName};
use serde_json::json;
use tracing::debug;

use super::bindings::{State, States};
use super::host::HostSide;
use super::wanted::{Selected, Wanted};
use crate::controllers::conditions::status::{READY, in_words, set};

/// The statuses by the name of the ClusterAccess.
#[derive(Debug, Default)]
pub(super) struct Statuses(BTreeMap<String, ClusterAccessStatus>);

impl Statuses {
    pub(super) fn new<'a>(
        accesses: &BTreeMap<String, Arc<ClusterAccess>>,
        wanted: &Wanted,
        members: impl Iterator<Item = (&'a ClusterName, &'a States)>,
        host: &HostSide,
        namespace: &str,
    ) -> Self {
        let members: BTreeMap<_, _> = members.collect();
        let of = |(name, access): (&String, &Arc<ClusterAccess>)| {
            let selected = wanted.accesses.get(name)?;
            if !is_ours_to_say(access, selected, namespace) {
                return None;
            }
            let found = |cluster: &ClusterName| members.get(cluster).and_then(|states| states.get(name));
            let host = match host.failures.get(name) {
                Some(error) => Err(error),
                None => Ok(host.written.get(name) == wanted.host.get(name)),
            };
            Some((name.clone(), status(access, selected, found, host, namespace)))
        };
        Self(accesses.iter().filter_map(of).collect())
    }

    /// The statuses that differ from those of the ClusterAccesses.
    pub(super) fn changed(mut self, accesses: &BTreeMap<String, Arc<ClusterAccess>>) -> Self {
        self.0.retain(|name, status| {
            accesses.get(name).and_then(|access| access.status.as_ref()) != Some(status)
        });
        self
    }

    /// Writes the statuses and returns those that could not be written.
    pub(super) async fn write(self, host: &kube::Client) -> Self {
        let accesses = Api::<ClusterAccess>::all(host.clone());
        let mut failed = Self::default();
        for (name, status) in self.0 {
            // A merge patch keeps omitted fields, so an empty list is written explicitly.
            let ClusterAccessStatus { observed_generation, namespace, summary, clusters, conditions } =
                &status;
            let patch = Patch::Merge(json!({"status": {
                "observedGeneration": observed_generation, "namespace": namespace, "summary": summary,
                "clusters": clusters, "conditions": conditions,
            }}));
            let ours = PatchParams::apply(SIDECAR);
            match accesses.patch_status(&name, &ours, &patch).await {
                Ok(_) => {}
                // The ClusterAccess was deleted in the meantime.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => {
                    debug!(access = name, %error, "cannot write the status of a ClusterAccess");
                    failed.0.insert(name, status);
                }
            }
        }
        failed
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Whether this sidecar writes the status. If sidecars of several namespaces share a host, each syncs its own
/// members, and the first that has a selected member writes the status.
fn is_ours_to_say(access: &ClusterAccess, selected: &Selected, namespace: &str) -> bool {
    let Some(said) = &access.status else { return true };
    let has_members = matches!(selected, Selected::Clusters { registered, .. } if !registered.is_empty());
    let has_none = said.clusters.iter().all(|cluster| cluster.reason == NOT_REGISTERED);
    match said.namespace.as_deref() {
        Some(other) if other != namespace => has_members && has_none,
        _ => true,
    }
}

fn status<'a>(
    access: &ClusterAccess,
    selected: &Selected,
    found: impl Fn(&ClusterName) -> Option<&'a State>,
    host: Result<bool, &String>,
    namespace: &str,
) -> ClusterAccessStatus {
    let mut clusters = Vec::new();
    let condition = match selected {
        Selected::Deleted => (false, "Terminating", "it is being deleted, and gives no access".to_owned()),
        Selected::Expired => (false, EXPIRED, "the access has ended".to_owned()),
        Selected::Invalid(why) => (false, "Invalid", why.clone()),
        Selected::Clusters { registered, missing } => {
            let unknown = State::unknown("Pending", "");
            let state =
                |cluster: &ClusterName| state_of(cluster.as_str(), found(cluster).unwrap_or(&unknown));
            clusters.extend(registered.iter().map(state));
            let missing = missing.iter().map(|name| {
                state_of(name, &State::no(NOT_REGISTERED, "the host has no MemberCluster of this name"))
            });
            clusters.extend(missing);
            ready(&clusters, host)
        }
    };
    let granted = clusters.iter().filter(|cluster| cluster.status == "True").count();
    let (holds, reason, message) = condition;
    let generation = access.metadata.generation;
    let mut conditions = access.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
    set(&mut conditions, READY, in_words(Some(holds)), reason, message, generation, Timestamp::now());
    ClusterAccessStatus {
        observed_generation: generation,
        namespace: Some(namespace.to_owned()),
        summary: Some(format!("{granted}/{}", clusters.len())),
        clusters,
        conditions,
    }
}

fn ready(clusters: &[ClusterState], host: Result<bool, &String>) -> (bool, &'static str, String) {
    match host {
        Err(error) => {
            return (false, "HostFailed", format!("the host's RBAC objects cannot be written: {error}"));
        }
        Ok(false) => return (false, "Pending", "the host's RBAC objects are not written yet".to_owned()),
        Ok(true) => {}
    }
    if clusters.is_empty() {
        return (false, "NoneSelected", "no registered member is selected".to_owned());
    }
    let without: Vec<&ClusterState> = clusters.iter().filter(|cluster| cluster.status != "True").collect();
    if without.is_empty() {
        return (true, "Granted", "every selected member has it".to_owned());
    }
    let shown: Vec<String> = without
        .iter()
        .take(MAX_SHOWN)
        .map(|cluster| format!("{} ({})", cluster.name, cluster.reason))
        .collect();
    let more = if without.len() > MAX_SHOWN {
        format!(" and {} more", without.len() - MAX_SHOWN)
    } else {
        String::new()
    };
    (false, "NotGranted", format!("not on: {}{more}", shown.join(", ")))
}

fn state_of(name: &str, state: &State) -> ClusterState {
    ClusterState {
        name: name.to_owned(),
        status: in_words(state.granted).to_owned(),
        reason: state.reason.to_owned(),
        message: state.message.clone(),
    }
}

const NOT_REGISTERED: &str = "NotRegistered";
const MAX_SHOWN: usize = 10;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

    use super::*;

    fn clusters(names: &[&str], missing: &[&str]) -> Selected {
        Selected::Clusters {
            registered: names.iter().map(|name| name.parse().unwrap()).collect(),
            missing: missing.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>(),
        }
    }

    fn said(
        selected: &Selected,
        states: &[(&str, State)],
        host: Result<bool, &String>,
    ) -> ClusterAccessStatus {
        let found = |cluster: &ClusterName| {
            states.iter().find(|(name, _)| *name == cluster.as_str()).map(|(_, state)| state)
        };
        status(&ClusterAccess::default(), selected, found, host, "ns")
    }

    #[test]
    fn access_is_ready_when_host_and_every_member_have_it() {
        let granted = || [("m1", State::granted()), ("m2", State::granted())];
        let both = clusters(&["m1", "m2"], &[]);
        let reason = |status: ClusterAccessStatus| {
            let condition = &status.conditions[0];
            format!("{} {} {}", status.summary.unwrap(), condition.status, condition.reason)
        };
        assert_eq!(reason(said(&both, &granted(), Ok(true))), "2/2 True Granted");
        assert_eq!(reason(said(&both, &granted(), Ok(false))), "2/2 False Pending");
        assert_eq!(reason(said(&both, &granted(), Err(&"no".to_owned()))), "2/2 False HostFailed");
        assert_eq!(reason(said(&both, &granted()[..1], Ok(true))), "1/2 False NotGranted");
        assert_eq!(reason(said(&clusters(&["m1"], &["m9"]), &granted(), Ok(true))), "1/2 False NotGranted");
        assert_eq!(reason(said(&clusters(&[], &[]), &[], Ok(true))), "0/0 False NoneSelected");
        assert_eq!(reason(said(&Selected::Expired, &[], Ok(true))), "0/0 False Expired");
    }

    #[test]
    fn status_has_a_reason_for_each_member() {
        let states = [("m1", State::no("RoleNotBindable", "x".repeat(1000)))];
        let status = said(&clusters(&["m1", "m2"], &["m9"]), &states, Ok(true));
        let all: Vec<_> =
            status.clusters.iter().map(|one| format!("{} {} {}", one.name, one.status, one.reason)).collect();
        assert_eq!(all, ["m1 False RoleNotBindable", "m2 Unknown Pending", "m9 False NotRegistered"]);
        assert!(status.clusters[0].message.len() < 1000, "a thousand members fit into one object");
        assert_eq!(
            status.conditions[0].message,
            "not on: m1 (RoleNotBindable), m2 (Pending), m9 (NotRegistered)"
        );
    }

    #[test]
    fn one_of_several_sidecars_writes_the_status() {
        let mut access = ClusterAccess::default();
        let (some, none) = (clusters(&["m1"], &[]), clusters(&[], &[]));
        assert!(is_ours_to_say(&access, &none, "a"));
        access.status = Some(said(&none, &[], Ok(true)));
        assert!(is_ours_to_say(&access, &none, "ns"));
        assert!(is_ours_to_say(&access, &some, "a") && !is_ours_to_say(&access, &none, "a"));
        access.status = Some(said(&some, &[], Ok(true)));
        assert!(is_ours_to_say(&access, &none, "ns") && !is_ours_to_say(&access, &some, "a"));
    }

    #[test]
    fn unchanged_ready_condition_keeps_its_transition_time() {
        let at = Time("2026-01-01T00:00:00Z".parse().unwrap());
        let (mut access, granted) = (ClusterAccess::default(), State::granted());
        let ready = |access: &ClusterAccess, selected: &Selected| {
            status(access, selected, |_| Some(&granted), Ok(true), "ns").conditions.remove(0)
        };
        let first = ready(&access, &clusters(&["m1"], &[]));
        access.status = Some(ClusterAccessStatus {
            conditions: vec![Condition { last_transition_time: at.clone(), ..first }],
            ..ClusterAccessStatus::default()
        });
        assert_eq!(ready(&access, &clusters(&["m1"], &[])).last_transition_time, at);
        assert_ne!(ready(&access, &Selected::Expired).last_transition_time, at);
    }
}
