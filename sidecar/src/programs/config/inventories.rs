//! Validates the flags of the inventories.

use kubectl_mc_api::Origin;

use super::error::Error;
use crate::members::inventory::Inventories;
use crate::members::inventory::hub::{Hub, KarmadaFlags};
use crate::programs::args;

pub(super) fn parse(flags: args::Inventory) -> Result<Inventories, Error> {
    let (order, karmada) = (
        flags.inventory,
        KarmadaFlags { allow_refs: flags.inventory_allow_refs, member_rbac: flags.karmada_member_rbac },
    );
    if !order.contains(&Origin::Karmada) {
        for (flag, is_set) in
            [("inventory-allow-refs", karmada.allow_refs), ("karmada-member-rbac", karmada.member_rbac)]
        {
            if is_set {
                return Err(Error::Flag(format!("{flag}: it needs karmada in --inventory")));
            }
        }
    }
    let hub = Origin::hub_of(&order).map_err(|error| Error::Flag(format!("inventory: {error}")))?;
    let hub = hub.map(|origin| {
        let namespace = match origin {
            Origin::KubeAdmiral => flags.kubeadmiral_namespace,
            Origin::Karmada | Origin::MemberCluster => flags.karmada_namespace,
        };
        Hub { origin, namespace, karmada }
    });
    Ok(Inventories { order: order.into(), hub })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::Config;
    use super::*;
    use crate::programs::args::{Cli, Command};

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
            let hub = Hub { origin, namespace: namespace.to_owned(), karmada: KarmadaFlags::default() };
            assert_eq!(config.inventories.hub, Some(hub), "{flags:?}");
            assert_eq!(config.authorization.hub, Some(origin), "{flags:?}");
        }
    }

    #[test]
    fn references_and_rights_on_members_are_for_karmada_only() {
        for (flag, karmada) in [
            ("--inventory-allow-refs", KarmadaFlags { allow_refs: true, member_rbac: false }),
            ("--karmada-member-rbac", KarmadaFlags { allow_refs: false, member_rbac: true }),
        ] {
            let flags = ["--inventory=membercluster,karmada", flag];
            assert_eq!(config(&flags).unwrap().inventories.hub.unwrap().karmada, karmada);
            for inventory in ["--inventory=membercluster", "--inventory=kubeadmiral"] {
                let error = config(&[inventory, flag]).unwrap_err().to_string();
                assert_eq!(error, format!("{flag}: it needs karmada in --inventory"), "{inventory}");
            }
        }
    }

    #[test]
    fn two_hubs_are_refused() {
        let error = config(&["--inventory=karmada,kubeadmiral"]).unwrap_err().to_string();
        assert!(error.starts_with("--inventory: karmada and kubeadmiral are"), "{error}");
    }
}
