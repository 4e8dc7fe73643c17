//! Validates the flags of Karmada's own server behind the sidecar.

use kubectl_mc_api::Origin;

use super::error::Error;
use crate::endpoints::hub_server;
use crate::members::inventory::Inventories;
use crate::programs::args::KarmadaServer;

/// `None` if no server is given.
pub(super) fn parse(flags: KarmadaServer, of: &Inventories) -> Result<Option<hub_server::Config>, Error> {
    let KarmadaServer {
        karmada_server: Some(server),
        karmada_server_ca_file: Some(ca),
        karmada_server_client_certificate: Some(certificate),
        karmada_server_client_key: Some(key),
    } = flags
    else {
        return Ok(None);
    };
    match of.hub.as_ref().filter(|hub| hub.origin == Origin::Karmada) {
        Some(hub) => {
            Ok(Some(hub_server::Config { server, ca, certificate, key, namespace: hub.namespace.clone() }))
        }
        None => Err(Error::Flag("karmada-server: it needs karmada in --inventory".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::Config;
    use super::*;
    use crate::programs::args::{Cli, Command};

    const SERVER: &str = "--karmada-server=https://karmada-aggregated-apiserver.karmada-system.svc";
    const FILES: [&str; 3] = [
        "--karmada-server-ca-file=ca",
        "--karmada-server-client-certificate=crt",
        "--karmada-server-client-key=key",
    ];

    fn parsed(flags: &[&str]) -> Result<Option<hub_server::Config>, String> {
        let cli =
            Cli::try_parse_from(["mc-sidecar", "serve"].iter().chain(flags)).map_err(|e| e.to_string())?;
        let Command::Serve(serve) = cli.command else { unreachable!() };
        Config::try_from(*serve).map(|config| config.hub_server).map_err(|e| e.to_string())
    }

    #[test]
    fn karmada_server_needs_its_files_and_the_inventory() {
        assert_eq!(parsed(&[]), Ok(None));
        let with = |inventory| parsed(&[&[inventory, SERVER][..], &FILES].concat());
        let config = with("--inventory=membercluster,karmada").unwrap().unwrap();
        assert_eq!((config.namespace.as_str(), config.ca.to_str()), ("karmada-cluster", Some("ca")));
        let error = with("--inventory=membercluster").unwrap_err();
        assert_eq!(error, "--karmada-server: it needs karmada in --inventory");
        let error = parsed(&["--inventory=karmada", SERVER, FILES[0], FILES[1]]).unwrap_err();
        assert!(error.contains("--karmada-server-client-key"), "{error}");
    }
}
