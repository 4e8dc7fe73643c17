//! Reads the sidecar's rules for identities from the flags of its Deployment on the host, if the caller may
//! read them. Otherwise it assumes the defaults and adds a note.

use kubectl_mc_api::access::sent;
use kubectl_mc_api::names::SIDECAR;
use serde_json::Value;

use crate::cluster::connection::{Connection, ConnectionError};
use crate::join::survey;

/// The flags of the sidecar that concern identities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    /// The built-in groups and those of `--admin-groups`.
    pub(super) admin_groups: Vec<String>,
    /// `--omit-extra`
    omitted_extra: Vec<String>,
    /// `--allow-privileged-identity`
    pub(super) privileged: bool,
    /// Whether the flags could not be read.
    assumed: bool,
}

impl Default for Rules {
    /// The sidecar's defaults.
    fn default() -> Self {
        let list = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
        Self {
            admin_groups: sent::admin_groups([]),
            omitted_extra: list(DEFAULT_OMITTED_EXTRA),
            privileged: false,
            assumed: true,
        }
    }
}

impl Rules {
    /// Reads the rules of the host's sidecar.
    pub(crate) async fn of(host: &Connection) -> Result<Self, ConnectionError> {
        let namespace = survey::namespace(host).await?;
        let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/{SIDECAR}");
        let deployment = host.readable(&path).await?;
        let args = deployment.as_ref().and_then(|deployment| {
            let args = deployment.pointer("/spec/template/spec/containers/0/args")?.as_array()?;
            Some(args.iter().filter_map(Value::as_str).collect::<Vec<_>>())
        });
        Ok(args.map_or_else(Self::default, |args| Self::of_args(&args)))
    }

    pub(super) fn of_args(args: &[&str]) -> Self {
        let mut rules = Self { assumed: false, ..Self::default() };
        if let Some(groups) = values(args, "--admin-groups") {
            rules.admin_groups = sent::admin_groups(groups);
        }
        if let Some(keys) = values(args, "--omit-extra") {
            rules.omitted_extra = keys;
        }
        rules.privileged = args.contains(&"--allow-privileged-identity");
        rules
    }

    /// Whether the sidecar forwards the extra of this key to members.
    pub(crate) fn sends_extra(&self, key: &str) -> bool {
        !self.omitted_extra.iter().any(|pattern| matches(pattern, key))
    }

    /// A note if the rules are assumed.
    pub(crate) fn note(&self) -> Option<&'static str> {
        self.assumed.then_some(
            "the sidecar's flags cannot be read (its Deployment on the host): its defaults are assumed for \
             --admin-groups, --omit-extra and --allow-privileged-identity\n",
        )
    }
}

/// All values of a list flag, `--flag=a,b` or `--flag a,b`, if the flag is present.
fn values(args: &[&str], flag: &str) -> Option<Vec<String>> {
    let next = args.iter().skip(1).chain(std::iter::once(&""));
    let given = args.iter().zip(next).filter_map(|(arg, next)| match arg.strip_prefix(flag)? {
        "" => Some(*next),
        rest => rest.strip_prefix('='),
    });
    let given: Vec<&str> = given.collect();
    let list = || given.iter().flat_map(|value| value.split(',')).map(str::to_owned);
    (!given.is_empty()).then(|| list().filter(|value| !value.is_empty()).collect())
}

/// `*` at either end matches any text.
fn matches(pattern: &str, key: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(_), Some(_)) => key.contains(pattern.trim_matches('*')),
        (Some(end), None) => key.ends_with(end),
        (None, Some(start)) => key.starts_with(start),
        (None, None) => pattern == key,
    }
}

/// The sidecar's default.
const DEFAULT_OMITTED_EXTRA: &[&str] =
    &["authentication.kubernetes.io/pod-*", "authentication.kubernetes.io/node-*", "*user-assertion*"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_as_the_sidecar_reads_them() {
        let rules = Rules::of_args(&[
            "serve",
            "--admin-groups=system:masters,platform",
            "--admin-groups",
            "root",
            "--omit-extra=*.example.com,scopes",
            "--allow-privileged-identity",
        ]);
        let builtin = ["system:masters", "kubeadm:cluster-admins", "system:cluster-admins"];
        assert_eq!(rules.admin_groups, [&builtin[..], &["platform", "root"]].concat());
        assert!(!rules.sends_extra("a.example.com") && !rules.sends_extra("scopes"));
        assert!(rules.sends_extra("scopes2") && rules.sends_extra("authentication.kubernetes.io/pod-name"));
        assert!(rules.privileged && rules.note().is_none());
    }

    #[test]
    fn absent_and_empty_flags_leave_the_defaults() {
        let rules = Rules::of_args(&["serve", "--secure-port=10250", "--admin-groups="]);
        assert!(rules.admin_groups == Rules::default().admin_groups && !rules.privileged);
        assert!(!rules.sends_extra("authentication.kubernetes.io/pod-name") && rules.sends_extra("scopes"));
        assert!(Rules::default().note().is_some_and(|note| note.contains("assumed")));
    }
}
