//! Defines the flags of `access`.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::values::duration;
use crate::argv::KUBECTL_VERBS;

#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct AccessArgs {
    #[command(subcommand)]
    pub(crate) command: AccessCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AccessCommand {
    /// Grant a user, a group or a service account access to clusters, and a role there
    #[command(override_usage = "kubectl mc access grant [CLUSTER] ROLE [OPTIONS]", after_help = GRANT_EXAMPLES)]
    Grant(GrantArgs),
    /// Revoke what grant has granted, by the same flags
    #[command(override_usage = "kubectl mc access revoke [CLUSTER] ROLE [OPTIONS]", after_help = REVOKE_EXAMPLES)]
    Revoke(GrantArgs),
    /// List the grants: subjects, roles and clusters
    #[command(after_help = LIST_EXAMPLES)]
    List(AccessListArgs),
    /// Show which rights of the sidecar are missing or surplus on a cluster, and why
    #[command(after_help = DIFF_EXAMPLES)]
    Diff(DiffArgs),
    /// Explain hop by hop whether a request would be allowed on a cluster, and what is missing
    #[command(override_usage = "kubectl mc access explain [CLUSTER] VERB RESOURCE [OBJECT] [OPTIONS]", after_help = EXPLAIN_EXAMPLES)]
    Explain(ExplainArgs),
}

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct GrantArgs {
    /// Clusters, unless chosen by a flag, then the ClusterRole there: view, edit, admin or any other; role/NAME is the Role of
    /// a namespace, with -n
    #[arg(value_name = "[CLUSTER] ROLE")]
    pub(crate) role: Option<String>,
    #[arg(hide = true)]
    after_role: Option<String>,
    #[command(flatten)]
    pub(crate) who: WhoArgs,
    /// Namespace on the cluster [default: all namespaces]
    #[arg(long, short = 'n', value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Time after which the access ends, as in 8h; written as a ClusterAccess
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    pub(crate) duration: Option<Duration>,
    /// Name of the ClusterAccess to write or to delete [default: from role, subjects and clusters]
    #[arg(long, value_name = "NAME", value_parser = access_name)]
    pub(crate) name: Option<String>,
    /// Also let them read all their clusters as one (clusters/*/proxy); grants nothing on a cluster
    #[arg(long)]
    pub(crate) fleet: bool,
    /// Validate with a server-side dry run; change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

impl GrantArgs {
    /// Separates the cluster, which precedes the role.
    pub(crate) fn split(&self) -> (Option<String>, Self) {
        match self.after_role.clone() {
            Some(role) => (self.role.clone(), Self { role: Some(role), after_role: None, ..self.clone() }),
            None => (None, self.clone()),
        }
    }
}

/// Parses a DNS subdomain.
fn access_name(name: &str) -> Result<String, String> {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    match name.len() <= 200 && name.split('.').all(is_label) {
        true => Ok(name.to_owned()),
        false => Err("lower case letters, digits, '-' and '.', 200 characters at most".to_owned()),
    }
}

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct AccessListArgs {
    /// Output format
    #[arg(long, short = 'o', value_name = "FORMAT")]
    pub(crate) output: Option<AccessFormat>,
    /// Omit the line of column names
    #[arg(long)]
    pub(crate) no_headers: bool,
}

/// The output formats of `access list`; a table when none is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AccessFormat {
    Wide,
    Json,
    Yaml,
    Name,
}

#[derive(Clone, Debug, Default, Args)]
#[group(multiple = true)]
pub(crate) struct WhoArgs {
    /// User name on the host
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Vec<String>,
    /// Group on the host
    #[arg(long, value_name = "NAME")]
    pub(crate) group: Vec<String>,
    /// Service account of the host
    #[arg(long, value_name = "NAMESPACE:NAME")]
    pub(crate) serviceaccount: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// Name of the cluster, unless given by -C
    #[arg(value_name = "CLUSTER")]
    pub(crate) name: Option<String>,
}

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ExplainArgs {
    /// User to explain the access of [default: yourself]
    #[arg(long = "as", value_name = "USER")]
    pub(crate) user: Option<String>,
    /// Group of that user; may be repeated. Without it, a right that no rule gives the user by name is unknown
    #[arg(long = "as-group", value_name = "GROUP", requires = "user")]
    pub(crate) groups: Vec<String>,
    /// Namespace on the cluster [default: the context's, then default]
    #[arg(long, short = 'n', value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Ask for all namespaces
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,
    /// Cluster, unless given by -C, then a verb of RBAC or a command of kubectl: get, list, create, exec, rollout restart …
    #[arg(value_name = "[CLUSTER] VERB")]
    pub(crate) verb: String,
    /// Resource (pods, deployments.apps, pods/log), object (pod/web), a pod (for exec, logs …) or a path such as /healthz
    #[arg(value_name = "RESOURCE")]
    pub(crate) resource: String,
    /// Name of the object
    #[arg(value_name = "OBJECT")]
    pub(crate) object: Option<String>,
    #[arg(hide = true)]
    pub(crate) after_object: Option<String>,
    /// Further words of a command of kubectl.
    #[arg(hide = true)]
    pub(crate) rest: Vec<String>,
}

impl ExplainArgs {
    /// Separates the cluster, which precedes the verb. A first word that is a verb is no cluster, unless no flag names one
    /// and the second word is a verb too. With a flag, three words without a verb are a verb, a resource and an object.
    pub(crate) fn split(&self, is_flag_given: bool) -> (Option<String>, Self) {
        let Self { verb, resource, object: Some(object), after_object, .. } = self else {
            return (None, self.clone());
        };
        let is_verb = |word: &String| KUBECTL_VERBS.iter().chain(RBAC_VERBS).any(|verb| verb == word);
        let is_request = match (is_verb(verb), is_verb(resource)) {
            (true, second) => is_flag_given || !second,
            (false, second) => is_flag_given && !second && after_object.is_none(),
        };
        if is_request {
            return (None, self.clone());
        }
        let mut further = self.rest.iter().cloned();
        let rest = Self {
            verb: resource.clone(),
            resource: object.clone(),
            object: after_object.clone(),
            after_object: further.next(),
            rest: further.collect(),
            ..self.clone()
        };
        (Some(verb.clone()), rest)
    }
}

const RBAC_VERBS: &[&str] =
    &["list", "watch", "update", "deletecollection", "impersonate", "bind", "escalate"];

const GRANT_EXAMPLES: &str = "\
Examples:
  # jane may read everything in m1 except Secrets
  kubectl mc access grant view --user=jane -C m1

  # The group dev may edit one namespace of m1
  kubectl mc access grant edit --group=dev -n shop -C m1

  # The Role deployer of one namespace of m1
  kubectl mc access grant role/deployer --user=jane -n shop -C m1

  # m1 and m2, also as one cluster
  kubectl mc access grant view --user=jane -C m1,m2 --fleet

  # A service account of the host
  kubectl mc access grant m1 edit --serviceaccount=ci:deployer -n shop

  # All clusters with a label, also those that join later
  kubectl mc access grant view --group=dev --cluster-selector=env=prod

  # For a working day
  kubectl mc access grant edit --user=jane -C 'eu-*' --for=8h

Clusters by name or pattern get the access at once, with your own rights
there. --cluster-selector, --all-clusters, --for and --name write a
ClusterAccess. The sidecar then maintains the access, for the roles that each
cluster lists: see `kubectl mc join --bindable-roles`.";

const REVOKE_EXAMPLES: &str = "\
Examples:
  kubectl mc access revoke m1 view --user=jane
  kubectl mc access revoke view --group=dev --cluster-selector=env=prod

  # A ClusterAccess by its name
  kubectl mc access revoke --name=on-call";

const LIST_EXAMPLES: &str = "\
Examples:
  kubectl mc access list
  kubectl mc access list -C m1,m2 -o wide";

const DIFF_EXAMPLES: &str = "\
Examples:
  kubectl mc access diff m1";

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  # May I?
  kubectl mc access explain m1 get pods -n shop

  # May I open a shell in this pod?
  kubectl mc access explain -C m1 exec web -n shop

  # May I restart this Deployment?
  kubectl mc access explain -C m1 rollout restart deploy/web -n shop

  # May jane, who is in the group dev?
  kubectl mc access explain m1 create deploy -n shop --as=jane --as-group=dev";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_cluster_access_is_a_dns_subdomain() {
        for name in ["on-call", "a.b", "0"] {
            assert!(access_name(name).is_ok(), "{name}");
        }
        for name in ["", "On-call", "a/b", "a..b", "-a", &"x".repeat(201)] {
            assert!(access_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn cluster_precedes_the_words_of_the_request() {
        for (line, is_flag_given, expected) in [
            ("m1 get pods", false, "m1: get pods"),
            ("m1 custom widgets", false, "m1: custom widgets"),
            ("m1 get pods web", false, "m1: get pods web"),
            ("get pods", true, "get pods"),
            ("get pods web", true, "get pods web"),
            ("m1 get pods", true, "m1: get pods"),
            ("m1 get pods web", true, "m1: get pods web"),
            ("get get pods", true, "get get pods"),
            ("custom widgets w", true, "custom widgets w"),
            ("exec web ls", false, "exec web ls"),
            ("rollout restart deploy web", true, "rollout restart deploy"),
            ("m1 rollout restart deploy web", true, "m1: rollout restart deploy"),
        ] {
            let mut words = line.split(' ').map(str::to_owned);
            let arguments = ExplainArgs {
                verb: words.next().unwrap(),
                resource: words.next().unwrap(),
                object: words.next(),
                after_object: words.next(),
                rest: words.collect(),
                ..ExplainArgs::default()
            };
            let (cluster, ExplainArgs { verb, resource, object, .. }) = arguments.split(is_flag_given);
            let cluster = cluster.map(|cluster| format!("{cluster}: ")).unwrap_or_default();
            let object = object.map(|object| format!(" {object}")).unwrap_or_default();
            assert_eq!(format!("{cluster}{verb} {resource}{object}"), expected, "{line}");
        }
    }
}
