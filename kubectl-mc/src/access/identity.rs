//! Predicts the caller's identity on the host and on a member, with the sidecar's rules
//! (docs/explanation/request-path.md).

use std::borrow::Cow;
use std::collections::BTreeMap;

use kubectl_mc_api::access::builtin;
use kubectl_mc_api::access::sent::{self, AUTHENTICATED, service_account_groups};
use kubectl_mc_api::access::subject::service_account;
use kubectl_mc_api::member_cluster::ServiceAccounts;
use serde_json::{Value, json};

use super::rules::Rules;

/// A user as an API server identifies them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) user: String,
    pub(crate) groups: Vec<String>,
    pub(crate) uid: Option<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    /// The user of `--as` and `--as-group`, with the groups that the host adds.
    pub(crate) fn named(user: &str, groups: &[String]) -> Self {
        let mut groups = groups.to_vec();
        if groups.is_empty()
            && let Some((namespace, _)) = service_account(user)
        {
            groups.extend(service_account_groups(namespace));
        }
        if user != "system:anonymous" && !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        Self { user: user.to_owned(), groups, ..Self::default() }
    }

    /// The `userInfo` of a SelfSubjectReview.
    pub(crate) fn of_review(info: &Value) -> Self {
        let texts = |value: &Value| -> Vec<String> {
            let list = value.as_array().into_iter().flatten();
            list.filter_map(|text| text.as_str().map(str::to_owned)).collect()
        };
        let extra = info["extra"].as_object().into_iter().flatten();
        Self {
            user: info["username"].as_str().unwrap_or_default().to_owned(),
            groups: texts(&info["groups"]),
            uid: info["uid"].as_str().map(str::to_owned),
            extra: extra.map(|(key, values)| (key.clone(), texts(values))).collect(),
        }
    }

    /// Whether a member's settings decide under which name it sees this identity.
    pub(crate) fn depends_on_member(&self) -> bool {
        let omit = ServiceAccounts::Omit;
        matches!(sent::identity(&[], omit, &self.user, &self.groups), Err(sent::NotSent::Account(_)))
    }

    /// The identity that the member receives; the error is the reason why the sidecar forwards none.
    pub(crate) fn on_member(&self, rules: &Rules, accounts: ServiceAccounts) -> Result<Self, String> {
        let refused_group =
            |group: &&String| !rules.admin_groups.contains(group) && builtin::is_privileged_group(group);
        let refused = match builtin::is_privileged_user(&self.user) {
            true => Some(&self.user),
            false => self.groups.iter().find(refused_group),
        };
        if let Some(name) = refused
            && !rules.privileged
        {
            return Err(format!("{name:?} is an identity of the host's control plane or of the sidecar"));
        }
        let sent = sent::identity(&rules.admin_groups, accounts, &self.user, &self.groups);
        let sent = sent.map_err(|error| error.to_string())?;
        let extra = self.extra.iter().filter(|(key, values)| rules.sends_extra(key) && !values.is_empty());
        Ok(Self {
            uid: self.uid.clone().filter(|_| !sent.is_members_account()),
            user: sent.user.into_owned(),
            groups: sent.groups.into_iter().map(Cow::into_owned).collect(),
            extra: extra.map(|(key, values)| (key.clone(), values.clone())).collect(),
        })
    }

    /// The rights on a member that are needed to impersonate this identity, each as attributes of a
    /// review.
    pub(crate) fn rights(&self) -> Vec<Value> {
        let right = |group: &str, resource: &str, subresource: &str, namespace: &str, name: &str| {
            json!({
                "verb": "impersonate", "group": group, "resource": resource, "subresource": subresource,
                "namespace": namespace, "name": name,
            })
        };
        let mut rights = vec![match service_account(&self.user) {
            Some((namespace, name)) => right("", "serviceaccounts", "", namespace, name),
            None => right("", "users", "", "", &self.user),
        }];
        rights.extend(self.groups.iter().map(|group| right("", "groups", "", "", group)));
        const AUTHENTICATION: &str = "authentication.k8s.io";
        rights.extend(self.uid.iter().map(|uid| right(AUTHENTICATION, "uids", "", "", uid)));
        for (key, values) in &self.extra {
            rights.extend(values.iter().map(|value| right(AUTHENTICATION, "userextras", key, "", value)));
        }
        rights
    }

    /// A SubjectAccessReview for this identity. The member itself adds the groups that it adds to every
    /// caller.
    pub(crate) fn review(&self, attributes: &Value) -> Value {
        let mut spec = attributes.clone();
        let mut groups = self.groups.clone();
        if groups.is_empty()
            && let Some((namespace, _)) = service_account(&self.user)
        {
            groups.extend(service_account_groups(namespace));
        }
        if self.user != "system:anonymous" && !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        spec["user"] = self.user.as_str().into();
        spec["groups"] = json!(groups);
        if let Some(uid) = &self.uid {
            spec["uid"] = uid.as_str().into();
        }
        if !self.extra.is_empty() {
            spec["extra"] = json!(self.extra);
        }
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec})
    }

    /// `jane (dev, ops)`
    pub(crate) fn in_words(&self) -> String {
        let groups: Vec<&str> =
            self.groups.iter().map(String::as_str).filter(|group| *group != AUTHENTICATED).collect();
        if groups.is_empty() { self.user.clone() } else { format!("{} ({})", self.user, groups.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(user: &str, groups: &[&str]) -> Identity {
        let groups: Vec<String> = groups.iter().map(|&group| group.to_owned()).collect();
        Identity::named(user, &groups)
    }

    fn resources(identity: &Identity) -> Vec<String> {
        let rights = identity.rights();
        rights
            .iter()
            .map(|right| {
                format!("{}/{}", right["resource"].as_str().unwrap(), right["name"].as_str().unwrap())
            })
            .collect()
    }

    #[test]
    fn user_keeps_name_and_groups_on_the_member() {
        let there = named("jane", &["dev"]).on_member(&Rules::default(), ServiceAccounts::Same).unwrap();
        assert_eq!(there.groups, ["dev"]);
        assert_eq!(resources(&there), ["users/jane", "groups/dev"]);
        assert_eq!(there.review(&json!({}))["spec"]["groups"], json!(["dev", "system:authenticated"]));
    }

    #[test]
    fn host_administrator_is_recognized() {
        let there =
            named("root", &["system:masters"]).on_member(&Rules::default(), ServiceAccounts::Same).unwrap();
        assert_eq!(there.groups, ["kubectl-mc:host-admins"]);
    }

    #[test]
    fn admin_groups_flag_adds_to_the_builtin_groups() {
        let rules = Rules::of_args(&["serve", "--admin-groups=platform", "--allow-privileged-identity"]);
        let there =
            named("root", &["system:masters", "platform"]).on_member(&rules, ServiceAccounts::Same).unwrap();
        assert_eq!(there.groups, ["kubectl-mc:host-admins"]);
        assert!(named("system:kube-scheduler", &["x"]).on_member(&rules, ServiceAccounts::Same).is_ok());
    }

    #[test]
    fn service_account_maps_to_the_same_name_on_the_member() {
        let there = named("system:serviceaccount:ci:deployer", &[])
            .on_member(&Rules::default(), ServiceAccounts::Same)
            .unwrap();
        assert_eq!(resources(&there), ["serviceaccounts/deployer"]);
        assert_eq!(there.rights()[0]["namespace"], "ci");
        let groups = there.review(&json!({}))["spec"]["groups"].clone();
        assert_eq!(
            groups,
            json!(["system:serviceaccounts", "system:serviceaccounts:ci", "system:authenticated"])
        );
    }

    #[test]
    fn prefixed_account_needs_the_rights_of_a_user() {
        let account = named("system:serviceaccount:ci:deployer", &[]);
        let there = account.on_member(&Rules::default(), ServiceAccounts::Prefixed).unwrap();
        let expected = [
            "users/kubectl-mc:host:serviceaccount:ci:deployer",
            "groups/kubectl-mc:host:serviceaccounts",
            "groups/kubectl-mc:host:serviceaccounts:ci",
        ];
        assert_eq!(resources(&there), expected);
        let review = there.review(&json!({}));
        assert_eq!(review["spec"]["user"], "kubectl-mc:host:serviceaccount:ci:deployer");
        assert!(
            review["spec"]["groups"]
                .as_array()
                .unwrap()
                .iter()
                .all(|group| group != "system:serviceaccounts")
        );
        let refused = account.on_member(&Rules::default(), ServiceAccounts::Omit).unwrap_err();
        assert!(refused.contains("spec.impersonation.serviceAccounts"), "{refused}");
    }

    #[test]
    fn control_plane_user_is_refused() {
        for (user, groups) in [
            ("system:kube-scheduler", vec![]),
            ("x", vec!["system:nodes"]),
            ("system:bootstrap:abcdef", vec!["system:bootstrappers"]),
            ("x", vec!["system:bootstrappers:kubeadm:default-node-token"]),
            ("system:serviceaccount:kube-system:x", vec![]),
        ] {
            assert!(
                named(user, &groups)
                    .on_member(&Rules::default(), ServiceAccounts::Same)
                    .unwrap_err()
                    .contains("control plane"),
                "{user}"
            );
        }
    }

    #[test]
    fn extra_is_sent_without_omitted_keys() {
        let review = json!({
            "username": "jane", "uid": "1", "groups": ["system:authenticated"],
            "extra": {
                "scopes": ["a", "b"],
                "authentication.kubernetes.io/pod-name": ["p"],
                "authentication.kubernetes.io/credential-id": ["X509SHA256=1"],
            },
        });
        let there = Identity::of_review(&review).on_member(&Rules::default(), ServiceAccounts::Same).unwrap();
        assert_eq!(
            resources(&there),
            ["users/jane", "uids/1", "userextras/X509SHA256=1", "userextras/a", "userextras/b"]
        );
    }
}
