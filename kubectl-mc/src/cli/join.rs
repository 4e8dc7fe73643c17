//! The flags of `join` and `unjoin`.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use kubectl_mc_api::ClusterName;
use kubectl_mc_api::go_duration::parse_flag;

#[derive(Debug, Args)]
#[command(after_help = JOIN_EXAMPLES)]
pub(crate) struct JoinArgs {
    /// The name that the cluster gets on the host
    #[arg(value_name = "NAME")]
    pub(crate) name: ClusterName,
    #[command(flatten)]
    pub(crate) member: MemberArgs,
    /// Labels of the cluster, for --cluster-selector
    #[arg(long, value_name = "KEY=VALUE,...", value_delimiter = ',', value_parser = label)]
    pub(crate) labels: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    /// Do not make the host's administrators administrators of the member
    #[arg(long)]
    pub(crate) no_host_admins: bool,
    /// How long the member's tokens live before the sidecar has to renew them
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = token_life)]
    pub(crate) token_duration: Duration,
    /// Check both sides and say what would be made
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print what to run on the member and on the host, for who may touch only one of them
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) print: bool,
    /// Go on where a check warns, without asking
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    /// How long to wait for the sidecar to reach the member, and then for it to be ready
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    pub(crate) timeout: Duration,
}

/// Which kubeconfig context is the member.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct MemberArgs {
    /// The kubeconfig context of the member, as its administrator
    #[arg(long, value_name = "NAME")]
    pub(crate) member_context: Option<String>,
    /// The kubeconfig file of the member [default: that of the host]
    #[arg(long, value_name = "FILE")]
    pub(crate) member_kubeconfig: Option<OsString>,
}

/// What differs from the member's kubeconfig for the sidecar.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ConnectionArgs {
    /// The member's server as the sidecar reaches it
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// The authority of the member's serving certificate
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate_authority: Option<OsString>,
    /// The proxy that the sidecar takes to the member (http, https, socks5)
    #[arg(long, value_name = "URL")]
    pub(crate) proxy_url: Option<String>,
    /// The name that the member's certificate is checked for
    #[arg(long, value_name = "NAME")]
    pub(crate) tls_server_name: Option<String>,
    /// Do not check the member's certificate: whoever is between sees and changes everything
    #[arg(long)]
    pub(crate) insecure_skip_tls_verify: bool,
}

#[derive(Debug, Args)]
#[command(after_help = UNJOIN_EXAMPLES)]
pub(crate) struct UnjoinArgs {
    /// The cluster to take away
    #[arg(value_name = "NAME")]
    pub(crate) name: ClusterName,
    #[command(flatten)]
    pub(crate) member: MemberArgs,
    /// Take it away from the host only, because the member is gone
    #[arg(long)]
    pub(crate) force: bool,
    /// Say what would be deleted
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask
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

/// One that ends.
fn duration(text: &str) -> Result<Duration, String> {
    match parse_flag(text)? {
        Duration::ZERO => Err("it must be longer than nothing".to_owned()),
        duration => Ok(duration),
    }
}

/// Kubernetes gives no token for less.
fn token_life(text: &str) -> Result<Duration, String> {
    let life = duration(text)?;
    if life < Duration::from_secs(600) { Err("a token lives for 10m at least".to_owned()) } else { Ok(life) }
}

const JOIN_EXAMPLES: &str = "\
Examples:
  # The cluster of context m1-admin becomes m1 behind the current context
  kubectl mc join m1 --member-context=m1-admin --labels=env=prod,region=eu

  # Its kubeconfig names an address that the sidecar cannot reach
  kubectl mc join m1 --member-context=kind-m1 --server=https://m1-control-plane:6443

  # Somebody else administers the host
  kubectl mc join m1 --member-context=m1-admin --print";

const UNJOIN_EXAMPLES: &str = "\
Examples:
  # Take away what join made, on both sides
  kubectl mc unjoin m1 --member-context=m1-admin

  # The member is gone
  kubectl mc unjoin m1 --force";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_lives_for_some_time() {
        assert_eq!(duration("24h").unwrap(), Duration::from_secs(86_400));
        assert!(duration("0s").is_err() && token_life("9m").is_err() && token_life("10m").is_ok());
    }

    #[test]
    fn a_label_is_a_key_with_a_value() {
        assert_eq!(label("env=prod").unwrap(), ("env".to_owned(), "prod".to_owned()));
        assert!(label("env").is_err() && label("=prod").is_err());
    }
}
