//! Renders the additional objects and flags of an installation that serves members of a hub's inventory.

use serde_json::Value;

use super::{Error, LABELS, Parameters, labelled};
use crate::Origin;
use crate::origin::{KARMADA_NAMESPACE, KUBEADMIRAL_NAMESPACE};

impl Parameters {
    /// The rights for a hub's registrations and their Secrets, if the installation uses the hub's inventory.
    pub(super) fn hub_rights(&self) -> Result<Vec<Value>, Error> {
        let mut objects = Vec::new();
        for (hub, rights, default, namespace) in [
            (Origin::Karmada, KARMADA, KARMADA_NAMESPACE, &self.values.karmada_namespace),
            (Origin::KubeAdmiral, KUBEADMIRAL, KUBEADMIRAL_NAMESPACE, &self.values.kubeadmiral_namespace),
        ] {
            if self.values.inventory.contains(&hub) {
                objects.extend(self.all(&rights.replace(default, namespace))?);
            }
        }
        Ok(objects)
    }

    /// The APIService of a hub's own group, if the sidecar serves that group.
    pub(super) fn hub_registration(&self) -> Result<Option<Value>, Error> {
        self.served_hub().map(|_| self.registered(KUBEADMIRAL_REGISTRATION)).transpose()
    }

    /// The hub whose group the sidecar serves.
    pub fn served_hub(&self) -> Option<Origin> {
        self.values.inventory.iter().copied().find(|origin| origin.has_served_group())
    }

    /// The sidecar's flags for its inventories, if they differ from the defaults.
    pub(super) fn inventory_flags(&self) -> impl Iterator<Item = String> {
        let inventory = &self.values.inventory;
        let names: Vec<_> = inventory.iter().map(|origin| origin.as_str()).collect();
        let inventory =
            (**inventory != [Origin::MemberCluster]).then(|| format!("--inventory={}", names.join(",")));
        let namespaces = [
            ("karmada", &self.values.karmada_namespace, KARMADA_NAMESPACE),
            ("kubeadmiral", &self.values.kubeadmiral_namespace, KUBEADMIRAL_NAMESPACE),
        ];
        let namespaces = namespaces.into_iter().filter(|(_, namespace, default)| *namespace != default);
        let namespaces = namespaces.map(|(hub, namespace, _)| format!("--{hub}-namespace={namespace}"));
        let writes = self.values.karmada_member_rbac && self.values.inventory.contains(&Origin::Karmada);
        let rbac = writes.then(|| "--karmada-member-rbac".to_owned());
        inventory.into_iter().chain(namespaces).chain(rbac)
    }

    /// The same parameters with the inventory of every hub, to find the names of their objects.
    #[must_use]
    pub fn with_hubs(mut self) -> Self {
        self.values.inventory = Origin::ALL.to_vec();
        self
    }

    /// The objects of hubs' inventories that this installation does not use, so that they can be removed.
    pub fn without_hubs(&self) -> Result<Vec<Value>, Error> {
        let mut others = self.clone();
        others.values.inventory =
            Origin::ALL.into_iter().filter(|origin| !self.values.inventory.contains(origin)).collect();
        let mut objects = others.hub_rights()?;
        objects.extend(others.hub_registration()?);
        Ok(labelled(objects, &LABELS))
    }
}

const KARMADA: &str = include_str!("../../../deploy/karmada.yaml");
const KUBEADMIRAL: &str = include_str!("../../../deploy/kubeadmiral.yaml");
const KUBEADMIRAL_REGISTRATION: &str = include_str!("../../../deploy/kubeadmiral-apiservice.yaml");

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
        let is_of_hub =
            |arg: &&str| ["inventory", "karmada", "kubeadmiral"].iter().any(|word| arg.contains(word));
        args.filter(is_of_hub).map(str::to_owned).collect()
    }

    #[test]
    fn rights_for_a_hub_come_with_its_inventory() {
        for hub in ["karmada", "kubeadmiral"] {
            let has = |parameters: &Parameters, kind: &str| {
                let objects = parameters.host().unwrap();
                objects.into_iter().filter(|object| object["kind"] == kind).any(|object| {
                    let metadata = &object["metadata"];
                    metadata["name"] == format!("mc-sidecar-{hub}") || metadata["namespace"] == "members"
                })
            };
            let of_hub = with(&format!("inventory: [membercluster, {hub}]\n{hub}Namespace: members"));
            for kind in ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"] {
                assert!(has(&of_hub, kind) && !has(&with(""), kind), "{hub} {kind}");
            }
            let expected = [format!("--inventory=membercluster,{hub}"), format!("--{hub}-namespace=members")];
            assert_eq!(flags(&of_hub), expected);
        }
        assert!(flags(&with("")).is_empty());
        let writes = with("inventory: [karmada]\nkarmadaMemberRbac: true");
        assert_eq!(flags(&writes), ["--inventory=karmada", "--karmada-member-rbac"]);
        assert!(flags(&with("karmadaMemberRbac: true")).is_empty(), "the sidecar would refuse to start");
    }

    #[test]
    fn unused_inventories_have_objects_to_remove() {
        assert_eq!(with("").without_hubs().unwrap().len(), 4 + 5);
        assert_eq!(with("inventory: [karmada]").without_hubs().unwrap().len(), 5);
        assert_eq!(with("inventory: [kubeadmiral]").without_hubs().unwrap().len(), 4);
        assert!(with("").with_hubs().without_hubs().unwrap().is_empty());
    }

    #[test]
    fn group_of_kubeadmiral_is_registered_before_the_own_group() {
        let registrations = |values: &str| -> Vec<Value> {
            let objects = with(values).host().unwrap();
            objects.into_iter().skip_while(|object| object["kind"] != "APIService").collect()
        };
        assert_eq!(registrations("inventory: [membercluster, karmada]").len(), 1);
        let both = registrations("inventory: [kubeadmiral]\ncertificates: CertManager");
        let names: Vec<_> = both.iter().map(|object| &object["metadata"]["name"]).collect();
        assert_eq!(names, ["v1alpha1.aggregated.kubeadmiral.io", "v1alpha1.proxy.kubectl-mc.dev"]);
        for registration in &both {
            let annotations = &registration["metadata"]["annotations"];
            assert_eq!(annotations["cert-manager.io/inject-ca-from"], "kubectl-mc-system/mc-sidecar");
            assert_eq!(registration["spec"]["service"], both[0]["spec"]["service"]);
        }
        assert_eq!(both[0]["metadata"]["name"], Origin::KubeAdmiral.api_service());
    }
}
