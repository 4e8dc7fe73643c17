//! The flags of the inventories, checked.

use kubectl_mc_api::Origin;

use super::Error;
use crate::members::inventory::Inventories;
use crate::members::inventory::hub::Hub;

/// `namespaces` are those of the Secrets of each hub's registrations.
pub(super) fn parse(order: Vec<Origin>, namespaces: [(Origin, String); 2]) -> Result<Inventories, Error> {
    let named: Vec<_> = namespaces.into_iter().filter(|(hub, _)| order.contains(hub)).collect();
    let hub = match <[_; 1]>::try_from(named) {
        Ok([(origin, namespace)]) => Some(Hub { origin, namespace }),
        Err(named) if named.is_empty() => None,
        Err(_) => {
            let why = "karmada and kubeadmiral are inventories of different hosts: name one of them";
            return Err(Error::Flag(format!("inventory: {why}")));
        }
    };
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
    fn hub_has_its_namespace_and_its_grants() {
        assert_eq!(config(&[]).unwrap().inventories, Inventories::default());
        for (flags, origin, namespace) in [
            (&["--inventory=membercluster,karmada"][..], Origin::Karmada, "karmada-cluster"),
            (&["--inventory=karmada", "--karmada-namespace=k"], Origin::Karmada, "k"),
            (&["--inventory=kubeadmiral,membercluster"], Origin::KubeAdmiral, "kube-admiral-system"),
            (&["--inventory=kubeadmiral", "--kubeadmiral-namespace=k"], Origin::KubeAdmiral, "k"),
        ] {
            let config = config(flags).unwrap();
            let hub = Hub { origin, namespace: namespace.to_owned() };
            assert_eq!(config.inventories.hub, Some(hub), "{flags:?}");
            assert_eq!(config.authorization.hub, Some(origin), "{flags:?}");
        }
    }

    #[test]
    fn two_hubs_are_refused() {
        let error = config(&["--inventory=karmada,kubeadmiral"]).unwrap_err().to_string();
        assert!(error.starts_with("--inventory: karmada and kubeadmiral are"), "{error}");
    }
}
