//! Defines the flags of `join` for members that the host cannot reach.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use kubectl_mc_api::enrollment::LONGEST;

use super::values::{duration, host_server, image, life};

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct AgentArgs {
    /// Run an agent on the member, which connects to the host: for members that the host cannot reach
    #[arg(long, conflicts_with = "all_expired")]
    pub(crate) agent: bool,
    /// With --agent: print one manifest for a member without a context in your kubeconfig; its agent sends CA and tokens to
    /// the host
    #[arg(long, requires = "agent")]
    pub(crate) enroll: bool,
    /// With --enroll: how long the manifest can be applied, at most 1h
    #[arg(long, value_name = "DURATION", requires = "enroll", default_value = "1h", value_parser = enrollment)]
    pub(crate) enroll_for: Duration,
    /// With --agent: image of mc-sidecar [default: that of --agent-values, else the image of this release]
    #[arg(long, value_name = "IMAGE", requires = "agent", value_parser = image)]
    pub(crate) agent_image: Option<String>,
    /// With --agent: file of values, with the names of the mc-agent chart's values.yaml; --agent-image overrides it
    #[arg(long, value_name = "FILE", requires = "agent")]
    pub(crate) agent_values: Option<PathBuf>,
    /// With --agent: URL of the host as the agent reaches it [default: that of the host's context]
    #[arg(long, value_name = "URL", requires = "agent", value_parser = host_server)]
    pub(crate) agent_server: Option<String>,
    /// With --agent: certificate authority of the host's serving certificate, in PEM; several during a rotation [default:
    /// that of the host's context; with --renew as it is]
    #[arg(long, value_name = "FILE", requires = "agent")]
    pub(crate) agent_server_ca: Option<OsString>,
    /// With --agent: verify the host by the root certificates of the agent's image, each of which can certify another
    /// server that then gets the agent's token
    #[arg(long, requires = "agent", conflicts_with = "agent_server_ca")]
    pub(crate) agent_trust_system_roots: bool,
    /// With --agent: server name for the verification of the host's certificate
    #[arg(long, value_name = "NAME", requires = "agent")]
    pub(crate) agent_tls_server_name: Option<String>,
    /// With --agent: URL of the proxy between the agent and the host (http, https, socks5)
    #[arg(long, value_name = "URL", requires = "agent", value_parser = proxy)]
    pub(crate) agent_proxy: Option<String>,
    /// With --agent: lifetime of the agent's token, which the host renews, or `forever` [default: as it is, else 720h]
    #[arg(long, value_name = "DURATION", requires = "agent", value_parser = token_life)]
    pub(crate) agent_token: Option<AgentTokenLife>,
}

/// The lifetime of an agent's token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AgentTokenLife {
    /// The host renews the token.
    For(Duration),
    /// The token is valid until it is deleted.
    Forever,
}

fn token_life(text: &str) -> Result<AgentTokenLife, String> {
    if text == "forever" { Ok(AgentTokenLife::Forever) } else { life(text).map(AgentTokenLife::For) }
}

/// The sidecar accepts no longer enrollment.
fn enrollment(text: &str) -> Result<Duration, String> {
    let life = duration(text)?;
    if life > LONGEST { Err("an enrollment is open for 1h at most".to_owned()) } else { Ok(life) }
}

fn proxy(text: &str) -> Result<String, &'static str> {
    let uri = text.parse::<http::Uri>().ok().filter(|uri| uri.authority().is_some());
    match uri.as_ref().and_then(http::Uri::scheme_str) {
        Some("http" | "https" | "socks5") => Ok(text.to_owned()),
        _ => Err("expected http://, https:// or socks5://HOST[:PORT]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_lifetime_is_a_duration_or_unlimited() {
        assert_eq!(token_life("forever"), Ok(AgentTokenLife::Forever));
        assert_eq!(token_life("24h"), Ok(AgentTokenLife::For(Duration::from_secs(86_400))));
        assert!(token_life("9m").is_err() && token_life("").is_err() && token_life("Forever").is_err());
    }

    #[test]
    fn enrollment_stays_open_for_at_most_an_hour() {
        assert_eq!(enrollment("1h"), Ok(Duration::from_secs(3600)));
        assert_eq!(enrollment("90s"), Ok(Duration::from_secs(90)));
        assert!(enrollment("3601s").is_err() && enrollment("0s").is_err() && enrollment("x").is_err());
    }

    #[test]
    fn proxy_scheme_is_one_that_the_agent_supports() {
        assert!(proxy("http://user:pass@proxy:3128").is_ok() && proxy("socks5://proxy:1080").is_ok());
        assert!(proxy("proxy:3128").is_err() && proxy("ftp://proxy").is_err() && proxy("http://").is_err());
    }
}
