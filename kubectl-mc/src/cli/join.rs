//! The flags of `join` and `unjoin`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use kubectl_mc_api::go_duration::parse_flag;

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
    /// Do not grant the host's administrators cluster-admin on the member
    #[arg(long)]
    pub(crate) no_host_admins: bool,
    /// ClusterRoles of the member that a ClusterAccess may bind, as in view,edit; empty for none [default: those that the
    /// member lists]
    #[arg(long, value_name = "ROLE,...", value_parser = roles)]
    pub(crate) bindable_roles: Option<BTreeSet<String>>,
    /// Lifetime of the sidecar's token, which it renews; the token that renews it lives half as long again
    #[arg(long, value_name = "DURATION", default_value = "720h", value_parser = life)]
    pub(crate) token_duration: Duration,
    /// Only give new tokens to a cluster that is joined already
    #[arg(long, conflicts_with_all = ["labels", "no_host_admins", "bindable_roles", "dry_run", "print"])]
    pub(crate) renew: bool,
    /// Give new tokens to every member that needs them, through its context in the kubeconfig
    #[arg(long, conflicts_with_all = ["name", "renew", "member_context", "labels", "no_host_admins", "bindable_roles", "dry_run", "print"])]
    pub(crate) all_expired: bool,
    /// Validate both sides with a server-side dry run; change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the commands for the member and for the host, for two administrators
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) print: bool,
    /// Continue after warnings without asking for confirmation
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    /// Timeout for the sidecar to reach the member, and then for the member to become ready
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    pub(crate) timeout: Duration,
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
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// Certificate authority of the member's serving certificate
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate_authority: Option<OsString>,
    /// URL of the proxy between the sidecar and the member (http, https, socks5)
    #[arg(long, value_name = "URL")]
    pub(crate) proxy_url: Option<String>,
    /// Server name for the verification of the member's certificate
    #[arg(long, value_name = "NAME")]
    pub(crate) tls_server_name: Option<String>,
    /// Do not verify the member's certificate, which allows man-in-the-middle attacks
    #[arg(long)]
    pub(crate) insecure_skip_tls_verify: bool,
}

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

/// The names of ClusterRoles; each is a line of a ConfigMap and a segment of a path.
fn roles(text: &str) -> Result<BTreeSet<String>, String> {
    if text.is_empty() {
        return Ok(BTreeSet::new());
    }
    text.split(',').map(role).collect()
}

fn role(name: &str) -> Result<String, String> {
    if name.is_empty() {
        Err("a role needs a name".to_owned())
    } else if name.chars().count() > 200 {
        Err(format!("{name:?} is longer than 200 characters"))
    } else if matches!(name, "." | "..") || name.contains(|c: char| c.is_control() || "/%".contains(c)) {
        Err(format!("invalid name of a role: {name:?}"))
    } else {
        Ok(name.to_owned())
    }
}

/// One that ends.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    match parse_flag(text)? {
        Duration::ZERO => Err("it must be longer than nothing".to_owned()),
        duration => Ok(duration),
    }
}

/// Kubernetes gives no token for less.
fn life(text: &str) -> Result<Duration, String> {
    let life = duration(text)?;
    if life < Duration::from_secs(600) { Err("a token lives for 10m at least".to_owned()) } else { Ok(life) }
}

const JOIN_EXAMPLES: &str = "\
Examples:
  # The cluster of context m1-admin becomes m1 behind the current context
  kubectl mc join m1 --member-context=m1-admin --labels=env=prod,region=eu

  # Let the host's ClusterAccesses bind view and edit there
  kubectl mc join m1 --member-context=m1-admin --bindable-roles=view,edit

  # The kubeconfig has an address that the sidecar cannot reach
  kubectl mc join m1 --member-context=m1 --server=https://m1-control-plane:6443

  # Another person administers the host
  kubectl mc join m1 --member-context=m1-admin --print

  # The host was off for longer than the tokens live
  kubectl mc join --all-expired";

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
    fn a_token_lives_for_some_time() {
        assert_eq!(duration("24h").unwrap(), Duration::from_secs(86_400));
        assert!(duration("0s").is_err() && life("9m").is_err() && life("10m").is_ok());
    }

    #[test]
    fn role_names_are_checked() {
        assert_eq!(roles("view,edit").unwrap().into_iter().collect::<Vec<_>>(), ["edit", "view"]);
        assert!(roles("").unwrap().is_empty());
        assert!(roles("system:aggregate-to-view").is_ok());
        for text in ["view,", ",", "a\nb", "a/b", "..", &"x".repeat(201)] {
            assert!(roles(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn default_life_is_the_shared_one() {
        use clap::FromArgMatches;
        let parsed = JoinArgs::augment_args(clap::Command::new("join")).get_matches_from(["join", "m1"]);
        let arguments = JoinArgs::from_arg_matches(&parsed).unwrap();
        assert_eq!(arguments.token_duration, kubectl_mc_api::token_life::DEFAULT);
    }

    #[test]
    fn a_label_is_a_key_with_a_value() {
        assert_eq!(label("env=prod").unwrap(), ("env".to_owned(), "prod".to_owned()));
        assert!(label("env").is_err() && label("=prod").is_err());
    }
}
