//! Builds the manifest that makes a cluster a member: the member's side, the agent with its token, and the
//! agent's right to enroll.

use jiff::Timestamp;
use kubectl_mc_api::ClusterName;
use serde_json::Value;

use crate::apply::diff::documents;
use crate::cli::JoinArgs;
use crate::error::Failure;
use crate::join::agent::plan::AgentPlan;
use crate::join::objects::MemberSide;
use crate::join::{manifest, token_policy};

/// All values of the manifest except the token.
pub(super) struct Manifest<'a> {
    plan: &'a AgentPlan,
    head: String,
    before: Vec<Value>,
    after: Vec<Value>,
}

impl<'a> Manifest<'a> {
    pub(super) fn new(
        name: &ClusterName,
        arguments: &JoinArgs,
        plan: &'a AgentPlan,
        host_uid: &str,
        until: Timestamp,
    ) -> Result<Self, Failure> {
        let roles = arguments.bindable_roles.clone().unwrap_or_default();
        let side = MemberSide::unread(name, Some(host_uid).filter(|uid| !uid.is_empty()), arguments, &roles);
        let (validating, mut before): (Vec<_>, Vec<_>) = side
            .objects(manifest::member()?)
            .into_iter()
            .partition(|object| object["kind"].as_str().is_some_and(|kind| kind.starts_with("Validating")));
        let (pods, agent): (Vec<_>, Vec<_>) =
            plan.objects()?.into_iter().partition(|object| object["kind"] == "Deployment");
        before.extend(agent);
        before.extend(manifest::enrollment()?);
        let mut after = validating;
        after
            .iter_mut()
            .filter(|object| token_policy::is_policy(object))
            .for_each(token_policy::set_enrolled);
        after.extend(pods);
        Ok(Self { plan, head: head(name, &plan.host.server, until), before, after })
    }

    /// The YAML documents, with the agent's token in its Secret.
    pub(super) fn text(&self, token: &str) -> String {
        let secret = self.plan.host.secret_in_clear(token);
        let all = self.before.iter().chain([&secret]).chain(&self.after);
        format!("{}{}", self.head, documents(all))
    }
}

fn head(name: &ClusterName, server: &str, until: Timestamp) -> String {
    format!(
        "# Makes a cluster member {name} of the host {server}, if it is applied before {until}. An administrator of the\n\
         # cluster runs: kubectl apply --server-side -f FILE. To remove everything again: kubectl delete -f FILE\n\
         #\n\
         # - It has the token of the cluster's agent. Treat it as a credential, and apply it once.\n\
         # - Before Kubernetes 1.30 kubectl reports errors for the documents of a Validating… kind and applies all others.\n\
         # - In a cluster that is a member of another host, do not apply it.\n\
         # - In a cluster that was a member before, copy its refused names into ConfigMap and ValidatingAdmissionPolicy\n\
         #   kubectl-mc-manager below: the manifest replaces both, and their bindable roles.\n"
    )
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;
    use kube::config::Cluster;

    use super::*;

    fn text(flags: &[&str]) -> String {
        use clap::Args;
        let words = [&["join", "m1", "--agent", "--enroll", "--agent-image=i"], flags].concat();
        let parsed = JoinArgs::augment_args(clap::Command::new("join")).get_matches_from(words);
        let arguments = JoinArgs::from_arg_matches(&parsed).unwrap();
        let (name, until) = ("m1".parse().unwrap(), "2026-11-24T14:05:00Z".parse().unwrap());
        let host = Some(("https://h:6443", &Cluster::default()));
        let plan = AgentPlan::of(&name, &arguments.by_agent, host).unwrap();
        let plan = plan.enrolling(until, arguments.token_life());
        Manifest::new(&name, &arguments, &plan, "uid-of-host", until).unwrap().text("the-token")
    }

    fn objects(text: &str) -> Vec<Value> {
        serde_saphyr::from_multiple(text).unwrap()
    }

    fn names(objects: &[Value]) -> Vec<String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        objects
            .iter()
            .map(|one| format!("{} {}", text(&one["kind"]), text(&one["metadata"]["name"])))
            .collect()
    }

    #[test]
    fn manifest_has_both_parts_and_the_right_to_enroll() {
        let text = text(&[]);
        assert!(text.starts_with("# Makes a cluster member m1 of the host https://h:6443, if it is applied before 2026-11-24T14:05:00Z"));
        assert!(text.contains("copy its refused names into ConfigMap and ValidatingAdmissionPolicy\n"));
        let objects = objects(&text);
        let names = names(&objects);
        for name in [
            "ServiceAccount kubectl-mc-impersonator",
            "ServiceAccount kubectl-mc-manager",
            "ClusterRoleBinding kubectl-mc:host-admins",
            "Secret mc-agent",
            "RoleBinding mc-agent-enrollment",
            "ClusterRoleBinding mc-agent-enrollment",
            "Role kubectl-mc-audiences",
            "ValidatingAdmissionPolicyBinding kubectl-mc-manager-tokens",
        ] {
            assert!(names.contains(&name.to_owned()), "{name}: {names:?}");
        }
        assert_eq!(names[0], "Namespace kubectl-mc-system");
        assert_eq!(names.last().unwrap(), "Deployment mc-agent", "it starts when all else is there");
        let secret = objects.iter().find(|object| object["kind"] == "Secret").unwrap();
        assert_eq!(secret["stringData"]["token"], "the-token");
        let args = objects.last().unwrap()["spec"]["template"]["spec"]["containers"][0]["args"].to_string();
        assert!(args.contains("--enroll-until=2026-11-24T14:05:00Z"), "{args}");
        assert!(args.contains("--enroll-token-duration=2592000s"), "{args}");
        assert_eq!(objects[0]["metadata"]["annotations"]["fleet.kubectl-mc.dev/host"], "uid-of-host");
    }

    #[test]
    fn flags_of_a_join_reach_the_manifest() {
        let objects = objects(&text(&["--no-host-admins", "--bindable-roles=view", "--token-duration=24h"]));
        assert!(!names(&objects).contains(&"ClusterRoleBinding kubectl-mc:host-admins".to_owned()));
        let all = objects.iter().map(Value::to_string).collect::<String>();
        assert!(all.contains("kubectl-mc-bound:view") && all.contains("--enroll-token-duration=86400s"));
        let policy = objects.iter().find(|object| token_policy::is_policy(object)).unwrap();
        let variables = &policy["spec"]["variables"];
        assert_eq!(variables[1]["expression"], "129600");
        let audiences = variables[0]["expression"].as_str().unwrap();
        assert!(audiences.contains("authorizer") && audiences.ends_with(": ['']"), "{audiences}");
    }
}
