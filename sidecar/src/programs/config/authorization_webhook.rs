//! Validates the flags of the authorization webhook.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use kubectl_mc_api::ownership::Layout;

use super::error::{Error, read};
use crate::identity::trust::Trust;
use crate::programs::args;

/// The authorization webhook for Karmada's agents.
#[derive(Debug)]
pub struct AuthorizationWebhook {
    pub address: SocketAddr,
    /// Which client certificates are accepted. `None`: the host's front proxy.
    pub clients: Option<Trust>,
    pub layout: Layout,
}

impl AuthorizationWebhook {
    /// `None` without a port.
    pub(super) fn parse(
        flags: args::AuthorizationWebhook,
        address: IpAddr,
        layout: Layout,
    ) -> Result<Option<Self>, Error> {
        let port = flags.authorization_webhook_port;
        let client = flags.authorization_webhook_client_ca_file.zip(flags.authorization_webhook_client_name);
        let clients = match client {
            None => None,
            Some((file, name)) => {
                let flag = "authorization-webhook-client-ca-file";
                let ca = read(flag, &file)?;
                if !ca.contains("-----BEGIN CERTIFICATE-----") {
                    return Err(Error::Flag(format!("{flag}: no PEM certificate: {}", file.display())));
                }
                let data = BTreeMap::from([
                    ("requestheader-client-ca-file".to_owned(), ca),
                    ("requestheader-allowed-names".to_owned(), serde_json::json!([name]).to_string()),
                ]);
                let trust = Trust::parse(&data);
                Some(trust.map_err(|error| Error::Flag(format!("{flag}: {}: {error}", file.display())))?)
            }
        };
        Ok(port.map(|port| Self { address: SocketAddr::new(address, port), clients, layout }))
    }
}

/// `cluster_namespace` is that of the clusters' Secrets and heartbeat Leases.
pub(super) fn layout(flags: &args::AuthorizationWebhook, cluster_namespace: &str) -> Result<Layout, Error> {
    let layout = Layout {
        cluster_namespace: cluster_namespace.to_owned(),
        agent_namespace: flags.karmada_agent_namespace.clone(),
        agents_list_clusters: flags.agents_list_clusters == args::ListClusters::Allow,
    };
    layout
        .checked()
        .map_err(|error| Error::Flag(format!("karmada-namespace, --karmada-agent-namespace: {error}")))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::programs::args::{Cli, Command};

    fn parse(flags: &[&str]) -> Result<Option<AuthorizationWebhook>, Error> {
        let cli = Cli::try_parse_from(["mc-sidecar", "serve"].iter().chain(flags)).unwrap();
        let Command::Serve(serve) = cli.command else { unreachable!() };
        let layout = layout(&serve.authorization_webhook, &serve.inventory.karmada_namespace)?;
        AuthorizationWebhook::parse(serve.authorization_webhook, [0, 0, 0, 0].into(), layout)
    }

    #[test]
    fn webhook_is_off_by_default_and_strict_when_on() {
        assert!(parse(&[]).unwrap().is_none());
        let webhook = parse(&["--authorization-webhook-port=10270"]).unwrap().unwrap();
        assert_eq!(webhook.address.port(), 10270);
        assert!(webhook.clients.is_none() && !webhook.layout.agents_list_clusters);
        let webhook = parse(&["--authorization-webhook-port=1", "--agents-list-clusters=Allow"]).unwrap();
        assert!(webhook.unwrap().layout.agents_list_clusters);
    }

    #[test]
    fn layout_with_colliding_names_is_refused() {
        let error = parse(&["--karmada-agent-namespace=karmada-cluster"]).unwrap_err().to_string();
        assert!(error.contains("need two namespaces"), "{error}");
    }

    #[test]
    fn ca_file_without_a_certificate_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let flag = format!("--authorization-webhook-client-ca-file={}", file.path().display());
        let error = parse(&[&flag, "--authorization-webhook-client-name=x"]).unwrap_err().to_string();
        assert!(error.starts_with("--authorization-webhook-client-ca-file: no PEM certificate"), "{error}");
    }

    #[test]
    fn client_name_needs_its_ca() {
        let flags = ["mc-sidecar", "serve", "--authorization-webhook-client-name=x"];
        assert!(Cli::try_parse_from(flags).is_err());
    }
}
