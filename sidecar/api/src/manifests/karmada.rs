//! What an installation has besides, where it serves members of Karmada's inventory.

use serde_json::Value;

use super::{Error, LABELS, Parameters, labelled};
use crate::Origin;
use crate::origin::KARMADA_NAMESPACE;

impl Parameters {
    /// The rights for Karmada's Clusters and their Secrets, if its inventory counts.
    pub(super) fn karmada(&self) -> Result<Vec<Value>, Error> {
        if !self.values.inventory.contains(&Origin::Karmada) {
            return Ok(Vec::new());
        }
        self.all(&RIGHTS.replace(KARMADA_NAMESPACE, &self.values.karmada_namespace))
    }

    /// The sidecar's flags for its inventories, if they differ from the defaults.
    pub(super) fn inventory_flags(&self) -> impl Iterator<Item = String> {
        let (inventory, namespace) = (&self.values.inventory, &self.values.karmada_namespace);
        let names: Vec<_> = inventory.iter().map(|origin| origin.as_str()).collect();
        let inventory =
            (**inventory != [Origin::MemberCluster]).then(|| format!("--inventory={}", names.join(",")));
        let namespace = (namespace != KARMADA_NAMESPACE).then(|| format!("--karmada-namespace={namespace}"));
        [inventory, namespace].into_iter().flatten()
    }

    /// The same with Karmada's inventory, for the names of its objects.
    #[must_use]
    pub fn with_karmada(mut self) -> Self {
        self.values.inventory = vec![Origin::MemberCluster, Origin::Karmada];
        self
    }

    /// All objects that an installation with Karmada's inventory has and this one has not, for their removal.
    pub fn without_karmada(&self) -> Result<Vec<Value>, Error> {
        if self.values.inventory.contains(&Origin::Karmada) {
            return Ok(Vec::new());
        }
        Ok(labelled(self.clone().with_karmada().karmada()?, &LABELS))
    }
}

const RIGHTS: &str = include_str!("../../../deploy/karmada.yaml");

#[cfg(test)]
mod tests {
    use super::super::Values;
    use super::*;

    fn with(values: &str) -> Parameters {
        Parameters { values: Values::parse(values).unwrap(), ..Parameters::new("image") }
    }

    fn flags(parameters: &Parameters) -> Vec<String> {
        let objects = parameters.host().unwrap();
        let deployment = objects.iter().find(|object| object["kind"] == "Deployment").unwrap();
        let args = deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
        let args = args.iter().filter_map(|arg| arg.as_str());
        args.filter(|arg| arg.contains("inventory") || arg.contains("karmada")).map(str::to_owned).collect()
    }

    #[test]
    fn rights_for_karmada_come_with_its_inventory() {
        let has = |parameters: &Parameters, kind: &str| {
            let objects = parameters.host().unwrap();
            objects.into_iter().filter(|object| object["kind"] == kind).any(|object| {
                let metadata = &object["metadata"];
                metadata["name"] == "mc-sidecar-karmada" || metadata["namespace"] == "members"
            })
        };
        let karmada = with("inventory: [membercluster, karmada]\nkarmadaNamespace: members");
        for kind in ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"] {
            assert!(has(&karmada, kind) && !has(&with(""), kind), "{kind}");
        }
        assert_eq!(flags(&karmada), ["--inventory=membercluster,karmada", "--karmada-namespace=members"]);
        assert!(flags(&with("")).is_empty());
        assert!(karmada.without_karmada().unwrap().is_empty());
        assert_eq!(with("").without_karmada().unwrap().len(), 4);
    }
}
