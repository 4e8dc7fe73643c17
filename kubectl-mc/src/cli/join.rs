//! Defines the flags of `join` and `unjoin`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use kubectl_mc_api::ClusterName;
use kubectl_mc_api::cluster_access::RoleRef;
use kubectl_mc_api::member_cluster::ServiceAccounts;
use kubectl_mc_api::token_life;

use super::agent::AgentArgs;
use super::values::{duration, life};

#[derive(Debug, Args)]
#[command(after_help = JOIN_EXAMPLES)]
pub(crate) struct JoinArgs {
    /// Name of the cluster on the host, unless given by -C
    #[arg(value_name = "CLUSTER")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) member: MemberArgs,
    /// Labels of the cluster, for --cluster-selector
    #[arg(long, value_name = "KEY=VALUE,...", value_delimiter = ',', value_parser = label)]
    pub(crate) labels: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) by_agent: AgentArgs,
    /// Do not grant the host's administrators cluster-admin on the member
    #[arg(long)]
    pub(crate) no_host_admins: bool,
    /// Roles of the member that a ClusterAccess may bind: ClusterRoles and Roles, as in view,NAMESPACE/NAME; empty for none
    /// [default: those that the member lists]
    #[arg(long, value_name = "ROLE,...", value_parser = roles)]
    pub(crate) bindable_roles: Option<BTreeSet<String>>,
    /// How the host's service accounts act on the member: as its own account of the same namespace and name, as users
    /// kubectl-mc:host:serviceaccount:NAMESPACE:NAME, or not at all [default: as it is; same for a new member]
    #[arg(long, value_name = "same|prefixed|omit", value_parser = service_accounts)]
    pub(crate) service_accounts: Option<ServiceAccounts>,
    /// Lifetime of the sidecar's token, which it renews; the token that renews it lives 1.5 times as long [default: 720h;
    /// with --renew and --all-expired as it is]
    #[arg(long, value_name = "DURATION", value_parser = life)]
    pub(crate) token_duration: Option<Duration>,
    /// Only give new tokens to a cluster that is joined already, and to its agent; with --agent also another CA of the host
    #[arg(long, conflicts_with_all = ["labels", "no_host_admins", "bindable_roles", "service_accounts", "dry_run", "print", "agent_image", "agent_values", "agent_server", "agent_tls_server_name", "agent_proxy"])]
    pub(crate) renew: bool,
    /// Give new tokens to every member that needs them, through its context in the kubeconfig
    #[arg(long, conflicts_with_all = ["name", "renew", "member_context", "labels", "no_host_admins", "bindable_roles", "service_accounts", "dry_run", "print"])]
    pub(crate) all_expired: bool,
    /// Write back the MemberClusters that the host has lost, and their definitions, of the records on the members' Secrets
    #[arg(long, conflicts_with_all = RESTORE_ALONE)]
    pub(crate) restore: bool,
    /// Validate both sides with a server-side dry run; change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the commands for the member and for the host, for two administrators
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) print: bool,
    /// Continue after warnings without asking for confirmation
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    /// Timeout for the sidecar to reach the member, and then for the member to become ready [default: 60s; with --agent
    /// 180s, which includes the pull of its image]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
}

impl JoinArgs {
    /// The lifetime of a new member's tokens.
    pub(crate) fn token_life(&self) -> Duration {
        self.token_duration.unwrap_or(token_life::DEFAULT)
    }

    /// The value of the flag; the default depends on whether there is an agent.
    pub(crate) fn timeout(&self, by_agent: bool) -> Duration {
        self.timeout.unwrap_or(if by_agent { AGENT_TIMEOUT } else { TIMEOUT })
    }
}

/// Which kubeconfig context is the member.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct MemberArgs {
    /// Kubeconfig context of the member, with an administrator's credential
    #[arg(long, value_name = "NAME")]
    pub(crate) member_context: Option<String>,
    /// Kubeconfig file of the member [default: that of the host]
    #[arg(long, value_name = "FILE")]
    pub(crate) member_kubeconfig: Option<OsString>,
}

/// What differs from the member's kubeconfig for the sidecar.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ConnectionArgs {
    /// URL of the member as the sidecar reaches it
    #[arg(long, value_name = "URL", conflicts_with_all = OTHER_WAYS)]
    pub(crate) server: Option<String>,
    /// Certificate authority of the member's serving certificate
    #[arg(long, value_name = "FILE", conflicts_with_all = OTHER_WAYS)]
    pub(crate) certificate_authority: Option<OsString>,
    /// URL of the proxy between the sidecar and the member (http, https, socks5)
    #[arg(long, value_name = "URL", conflicts_with_all = OTHER_WAYS)]
    pub(crate) proxy_url: Option<String>,
    /// Certificate authority of an https proxy [default: the system's where the sidecar runs]
    #[arg(long, value_name = "FILE", conflicts_with_all = OTHER_WAYS)]
    pub(crate) proxy_certificate_authority: Option<OsString>,
    /// Client certificate that the sidecar shows an https proxy
    #[arg(long, value_name = "FILE", conflicts_with_all = OTHER_WAYS)]
    pub(crate) proxy_client_certificate: Option<OsString>,
    /// Private key of that client certificate, stored in the member's Secrets
    #[arg(long, value_name = "FILE", conflicts_with_all = OTHER_WAYS)]
    pub(crate) proxy_client_key: Option<OsString>,
    /// Server name for the verification of the member's certificate
    #[arg(long, value_name = "NAME", conflicts_with_all = OTHER_WAYS)]
    pub(crate) tls_server_name: Option<String>,
    /// Do not verify the member's certificate, which allows man-in-the-middle attacks
    #[arg(long, conflicts_with_all = OTHER_WAYS)]
    pub(crate) insecure_skip_tls_verify: bool,
}

/// The flags of a join that leave the connection as it is, or make it through an agent.
const OTHER_WAYS: [&str; 3] = ["renew", "all_expired", "agent"];

#[derive(Debug, Args)]
#[command(after_help = UNJOIN_EXAMPLES)]
pub(crate) struct UnjoinArgs {
    /// Name of the cluster, unless given by -C
    #[arg(value_name = "CLUSTER")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) member: MemberArgs,
    /// Remove it from the host only, because the member no longer exists
    #[arg(long)]
    pub(crate) force: bool,
    /// Validate with a server-side dry run; delete nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Delete without asking for confirmation
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
}

fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| "a label is KEY=VALUE".to_owned())?;
    if key.is_empty() {
        Err("a label needs a key".to_owned())
    } else {
        Ok((key.to_owned(), value.to_owned()))
    }
}

fn service_accounts(text: &str) -> Result<ServiceAccounts, String> {
    match text {
        "same" => Ok(ServiceAccounts::Same),
        "prefixed" => Ok(ServiceAccounts::Prefixed),
        "omit" => Ok(ServiceAccounts::Omit),
        _ => Err("it is same, prefixed or omit".to_owned()),
    }
}

/// Parses names of ClusterRoles, and of Roles with their namespaces. Each becomes a line of a ConfigMap.
fn roles(text: &str) -> Result<BTreeSet<String>, String> {
    if text.is_empty() {
        return Ok(BTreeSet::new());
    }
    text.split(',').map(role).collect()
}

fn role(entry: &str) -> Result<String, String> {
    let (RoleRef { name, .. }, namespace) = RoleRef::from_entry(entry);
    // A namespace is a DNS label, like a cluster's name.
    if namespace.is_some_and(|namespace| namespace.parse::<ClusterName>().is_err()) {
        return Err(format!("invalid namespace of a role: {entry:?}"));
    }
    if name.is_empty() {
        Err("a role needs a name".to_owned())
    } else if name.chars().count() > 200 {
        Err(format!("{name:?} is longer than 200 characters"))
    } else if matches!(name.as_str(), "." | "..")
        || name.contains(|c: char| c.is_control() || "/%".contains(c))
    {
        Err(format!("invalid name of a role: {name:?}"))
    } else {
        Ok(entry.to_owned())
    }
}

/// The flags that say how a member is joined, which a restore does not change.
const RESTORE_ALONE: [&str; 20] = [
    "member_context",
    "member_kubeconfig",
    "labels",
    "server",
    "certificate_authority",
    "proxy_url",
    "proxy_certificate_authority",
    "proxy_client_certificate",
    "proxy_client_key",
    "tls_server_name",
    "insecure_skip_tls_verify",
    "agent",
    "no_host_admins",
    "bindable_roles",
    "token_duration",
    "renew",
    "all_expired",
    "print",
    "enroll",
    "timeout",
];
const TIMEOUT: Duration = Duration::from_secs(60);
const AGENT_TIMEOUT: Duration = Duration::from_secs(180);

const JOIN_EXAMPLES: &str = "\
Examples:
  # The cluster of context m1-admin becomes m1 behind the current context
  kubectl mc join m1 --member-context=m1-admin --labels=env=prod,region=eu

  # Let the host's ClusterAccesses bind a ClusterRole and a Role there
  kubectl mc join m1 --member-context=m1-admin --bindable-roles=view,shop/ci

  # The kubeconfig has an address that the sidecar cannot reach
  kubectl mc join m1 --member-context=m1 --server=https://m1.example:6443

  # The host cannot reach the member, but the member reaches the host
  kubectl mc join m1 --member-context=m1-admin --agent

  # Another person administers the member; the manifest is a credential
  kubectl mc join m1 --agent --enroll

  # Another person administers the host
  kubectl mc join m1 --member-context=m1-admin --print

  # The host was off for longer than the tokens live
  kubectl mc join --all-expired

  # The CA of the host changes: FILE has the old one and the new one
  kubectl mc join m1 --agent --renew --agent-server-ca=FILE

  # The MemberClusters were deleted, and their Secrets are still there
  kubectl mc join --restore";

const UNJOIN_EXAMPLES: &str = "\
Examples:
  # Remove what join has created, on both sides
  kubectl mc unjoin m1 --member-context=m1-admin

  # The member no longer exists
  kubectl mc unjoin m1 --force";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn role_names_are_checked() {
        assert_eq!(roles("view,edit").unwrap().into_iter().collect::<Vec<_>>(), ["edit", "view"]);
        assert!(roles("").unwrap().is_empty());
        assert!(roles("system:aggregate-to-view").is_ok());
        assert!(roles("shop/deployer").is_ok());
        for text in ["view,", ",", "a\nb", "Shop/a", "/a", "a/", "a/b/c", "..", &"x".repeat(201)] {
            assert!(roles(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn default_token_lifetime_is_that_of_the_help() {
        use clap::FromArgMatches;
        let mut join = JoinArgs::augment_args(clap::Command::new("join"));
        let parsed = join.clone().get_matches_from(["join", "m1"]);
        let arguments = JoinArgs::from_arg_matches(&parsed).unwrap();
        assert_eq!((arguments.token_duration, arguments.token_life()), (None, duration("720h").unwrap()));
        assert!(join.render_help().to_string().contains("[default: 720h;"));
    }

    #[test]
    fn label_is_a_key_with_a_value() {
        assert_eq!(label("env=prod").unwrap(), ("env".to_owned(), "prod".to_owned()));
        assert!(label("env").is_err() && label("=prod").is_err());
    }
}
