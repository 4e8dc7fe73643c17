//! Validates the flags of the inventories.

use kubectl_mc_api::Origin;

use super::Error;
use crate::members::inventory::Inventories;
use crate::members::inventory::hub::Hub;

/// `namespaces` contain the Secrets of each hub's members.
pub(super) fn parse(
    order: Vec<Origin>,
    namespaces: [(Origin, String); 2],
    allow_refs: bool,
) -> Result<Inventories, Error> {
    if allow_refs && !order.contains(&Origin::Karmada) {
        return Err(Error::Flag("inventory-allow-refs: it needs karmada in --inventory".to_owned()));
    }
    let hub = Origin::hub_of(&order).map_err(|error| Error::Flag(format!("inventory: {error}")))?;
    let named = namespaces.into_iter().find(|&(origin, _)| Some(origin) == hub);
    let hub = named.map(|(origin, namespace)| Hub { origin, namespace, allow_refs });
    Ok(Inventories { order: order.into(), hub })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::Config;
    use super::*;
    use crate::args::{Cli, Command};

    fn config(flags: &[&str]) -> Result<Config, Error> {
        let cli = Cli::try_parse_from(["mc-sidecar", "serve"].iter().chain(flags)).unwrap();
        let Command::Serve(serve) = cli.command else { unreachable!() };
        Config::try_from(*serve)
    }

    #[test]
    fn hub_inventory_gets_its_namespace_and_grants() {
        assert_eq!(config(&[]).unwrap().inventories, Inventories::default());
        for (flags, origin, namespace) in [
            (&["--inventory=membercluster,karmada"][..], Origin::Karmada, "karmada-cluster"),
            (&["--inventory=karmada", "--karmada-namespace=k"], Origin::Karmada, "k"),
            (&["--inventory=kubeadmiral,membercluster"], Origin::KubeAdmiral, "kube-admiral-system"),
            (&["--inventory=kubeadmiral", "--kubeadmiral-namespace=k"], Origin::KubeAdmiral, "k"),
        ] {
            let config = config(flags).unwrap();
            let hub = Hub { origin, namespace: namespace.to_owned(), allow_refs: false };
            assert_eq!(config.inventories.hub, Some(hub), "{flags:?}");
            assert_eq!(config.authorization.hub, Some(origin), "{flags:?}");
        }
    }

    #[test]
    fn references_are_allowed_for_karmada_only() {
        let flags = ["--inventory=membercluster,karmada", "--inventory-allow-refs"];
        assert!(config(&flags).unwrap().inventories.hub.unwrap().allow_refs);
        for inventory in ["--inventory=membercluster", "--inventory=kubeadmiral"] {
            let error = config(&[inventory, "--inventory-allow-refs"]).unwrap_err().to_string();
            assert_eq!(error, "--inventory-allow-refs: it needs karmada in --inventory", "{inventory}");
        }
    }

    #[test]
    fn two_hubs_are_refused() {
        let error = config(&["--inventory=karmada,kubeadmiral"]).unwrap_err().to_string();
        assert!(error.starts_with("--inventory: karmada and kubeadmiral are"), "{error}");
    }
}
