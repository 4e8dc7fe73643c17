//! The agent's configuration: plain data, validated before the first dial.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use http::uri::Authority;
use jiff::Timestamp;
use kubectl_mc_api::ClusterName;

use crate::programs::args;
use crate::programs::args::LogFormat;

/// The agent's configuration.
#[derive(Debug)]
pub struct Config {
    pub cluster: ClusterName,
    /// A folder with one file for each key of a connection.
    pub connection_dir: Option<PathBuf>,
    /// Files for single keys, which override those of the folder.
    pub files: BTreeMap<&'static str, PathBuf>,
    /// Values for single keys, which override all files.
    pub values: BTreeMap<&'static str, String>,
    /// Namespace and name of the Secret that stores renewed tokens.
    pub token_secret: Option<(String, String)>,
    /// The kubeconfig of the member's API; by default the pod's account.
    pub kubeconfig: Option<PathBuf>,
    /// When the enrollment ends, if the agent enrolls.
    pub enroll_until: Option<Timestamp>,
    pub enroll_token_duration: Duration,
    pub target: Authority,
    pub tunnels: usize,
    pub max_streams: u32,
    pub stream_window: u32,
    pub admin_address: SocketAddr,
    pub log_format: LogFormat,
}

impl TryFrom<args::Agent> for Config {
    type Error = Error;

    fn try_from(args: args::Agent) -> Result<Self, Error> {
        let args::Agent {
            cluster,
            connection_dir,
            server,
            server_ca_file,
            tls_server_name,
            token_file,
            client_certificate,
            client_key,
            proxy_url,
            token_secret,
            kubeconfig,
            enroll_until,
            enroll_token_duration,
            target,
            tunnels,
            max_streams,
            stream_window,
            admin_bind_address,
            log_format,
        } = args;
        if connection_dir.is_none() && server.is_none() {
            return Err(Error::NoServer);
        }
        let files = [
            ("ca.crt", server_ca_file),
            ("token", token_file),
            ("tls.crt", client_certificate),
            ("tls.key", client_key),
        ];
        let values = [("server", server), ("tls-server-name", tls_server_name), ("proxy-url", proxy_url)];
        let target: Authority = target.parse().map_err(|_| Error::Target(target.clone()))?;
        if target.port_u16().is_none() || target.as_str().contains('@') {
            return Err(Error::Target(target.to_string()));
        }
        let token_secret = match token_secret {
            None => None,
            Some(text) => match text.split_once('/') {
                Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
                    Some((namespace.to_owned(), name.to_owned()))
                }
                _ => return Err(Error::TokenSecret(text)),
            },
        };
        Ok(Self {
            cluster: cluster.parse().map_err(|_| Error::Cluster(cluster))?,
            connection_dir,
            files: files.into_iter().filter_map(|(key, file)| Some((key, file?))).collect(),
            values: values.into_iter().filter_map(|(key, value)| Some((key, value?))).collect(),
            token_secret,
            kubeconfig,
            enroll_until,
            enroll_token_duration,
            target,
            tunnels: tunnels.into(),
            max_streams,
            stream_window: bytes(&stream_window)
                .filter(|window| (64 * 1024..=16 * 1024 * 1024).contains(window))
                .filter(|window| window.checked_mul(max_streams).is_some_and(|sum| sum <= MAX_WINDOW))
                .ok_or(Error::Window(stream_window))?,
            admin_address: admin_bind_address,
            log_format,
        })
    }
}

/// RFC 9113, 6.9.1
const MAX_WINDOW: u32 = (1 << 31) - 1;

/// Parses a number of bytes in Kubernetes' format: `512Ki`, `1Mi`.
fn bytes(text: &str) -> Option<u32> {
    let (number, unit) = match (text.strip_suffix("Ki"), text.strip_suffix("Mi")) {
        (Some(number), _) => (number, 1024),
        (_, Some(number)) => (number, 1024 * 1024),
        _ => (text, 1),
    };
    number.parse::<u32>().ok()?.checked_mul(unit)
}

/// A flag has an invalid value.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("set --connection-dir or --server")]
    NoServer,
    #[error("--cluster: {0:?} is not a valid cluster name")]
    Cluster(String),
    #[error("--target: {0:?} is not HOST:PORT")]
    Target(String),
    #[error("--token-secret: {0:?} is not NAMESPACE/NAME")]
    TokenSecret(String),
    #[error(
        "--stream-window: {0:?} is not a size from 64Ki to 16Mi, of which --max-streams are less than 2Gi"
    )]
    Window(String),
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::programs::args::{Cli, Command};

    fn config(flags: &[&str]) -> Result<Config, Error> {
        let flags = ["mc-sidecar", "agent", "--cluster=m1"].iter().chain(flags);
        match Cli::try_parse_from(flags).unwrap().command {
            Command::Agent(agent) => Config::try_from(*agent),
            _ => unreachable!(),
        }
    }

    #[test]
    fn invalid_flag_values_are_named() {
        let with = |flag: &str| config(&["--server=https://h", flag]).map(drop);
        assert_eq!(config(&[]).map(drop), Err(Error::NoServer));
        assert_eq!(with("--target=kubernetes"), Err(Error::Target("kubernetes".to_owned())));
        assert_eq!(with("--token-secret=name"), Err(Error::TokenSecret("name".to_owned())));
        for window in ["1Ki", "32Mi", "x", "99999999999Mi", ""] {
            let flag = format!("--stream-window={window}");
            assert_eq!(with(&flag), Err(Error::Window(window.to_owned())));
        }
        assert_eq!(with("--stream-window=1Mi"), Ok(()));
        let many = config(&["--server=https://h", "--stream-window=4Mi", "--max-streams=512"]).map(drop);
        assert_eq!(many, Err(Error::Window("4Mi".to_owned())));
    }

    #[test]
    fn defaults_suit_a_pod_in_the_member() {
        let config = config(&["--connection-dir=/etc/mc-agent"]).unwrap();
        assert_eq!(config.target.as_str(), "kubernetes.default.svc:443");
        assert_eq!((config.tunnels, config.max_streams, config.stream_window), (2, 512, 512 * 1024));
    }
}
