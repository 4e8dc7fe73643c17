//! The plan of a bed: the command line's arguments, which are checked and completed before anything
//! starts.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::programs::{self, DEFAULT_VERSION};

/// The request, from the command line.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// m1 … mN.
    pub members: usize,
    /// `m2` or `m2=v1.30.0`: additional members, or other versions for those above.
    pub member: Vec<String>,
    /// Clusters that are not registered, in the same format as members.
    pub spares: Vec<String>,
    /// Clusters with a node.
    pub nodes: Vec<String>,
    /// Clusters with Karmada's aggregated API server.
    pub karmada: Vec<String>,
    pub sidecar: Option<PathBuf>,
    /// An archive of the sidecar's image for the nodes of spares. Without it, an image is packed
    /// from the program.
    pub sidecar_image: Option<PathBuf>,
    /// Use no network namespace, although one could be created.
    pub loopback: bool,
    /// Whether kube-apiservers and the sidecar export traces.
    pub tracing: bool,
}

/// The bed that will be started.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The host first.
    pub(crate) clusters: Vec<ClusterPlan>,
    pub(crate) sidecar: Option<PathBuf>,
    /// The sidecar's image for the nodes of spares.
    pub(crate) sidecar_image: Option<SidecarImage>,
    /// Parts of the request that are not possible, with the reason.
    pub(crate) skipped: Vec<String>,
    pub(crate) loopback: bool,
    pub(crate) tracing: bool,
}

#[derive(Debug, PartialEq)]
pub(crate) enum SidecarImage {
    /// An archive that exists.
    Archive(PathBuf),
    /// An image that is packed from the program.
    Of(PathBuf),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClusterPlan {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Its position among the bed's clusters, which determines its addresses and ports.
    pub(crate) index: u8,
    pub(crate) node: bool,
    /// Karmada's aggregated API server serves its Clusters.
    pub(crate) karmada: bool,
    /// It is not registered on the host.
    pub(crate) spare: bool,
}

impl ClusterPlan {
    /// Whether its Kubernetes is 1.MINOR or later.
    pub(crate) fn is_at_least(&self, minor: u32) -> bool {
        programs::minor(&self.version).is_none_or(|own| own >= minor)
    }
}

impl Plan {
    /// `namespaces`: whether this user may create network namespaces.
    pub(crate) fn new(wanted: &Wanted, namespaces: bool) -> Result<Self> {
        let Wanted { members, member, spares, nodes, karmada, sidecar, sidecar_image, loopback, tracing } =
            wanted;
        let mut versions = BTreeMap::new();
        for number in 1..=*members {
            versions.insert(format!("m{number}"), DEFAULT_VERSION.to_owned());
        }
        for word in member {
            let (name, version) = named(word)?;
            versions.insert(name, version);
        }
        let mut clusters = vec![(HOST.to_owned(), DEFAULT_VERSION.to_owned())];
        clusters.extend(versions);
        let first_spare = clusters.len();
        for word in spares {
            let spare = named(word)?;
            if clusters.iter().any(|(name, _)| *name == spare.0) {
                bail!("two clusters of one name: {}", spare.0);
            }
            clusters.push(spare);
        }
        if clusters.len() > MAX_CLUSTERS {
            bail!("too many clusters: {}: at most {MAX_CLUSTERS}", clusters.len());
        }
        let is_unknown = |wanted: &&String| !clusters.iter().any(|(name, _)| name == *wanted);
        if let Some(unknown) = nodes.iter().find(is_unknown) {
            bail!("a node for a cluster that is not there: {unknown}");
        }
        if let Some(unknown) = karmada.iter().find(is_unknown) {
            bail!("Karmada for a cluster that is not there: {unknown}");
        }

        let loopback = *loopback || !namespaces;
        let mut skipped = Vec::new();
        if loopback {
            skipped
                .push("a network of its own: without root on Linux everything listens on 127.0.0.1".into());
            skipped.extend(nodes.iter().map(|node| format!("the node of {node}: it needs root on Linux")));
        }
        let clusters = (0..).zip(clusters);
        let clusters = clusters
            .map(|(index, (name, version))| ClusterPlan {
                node: !loopback && nodes.contains(&name),
                karmada: karmada.contains(&name),
                spare: usize::from(index) >= first_spare,
                name,
                version,
                index,
            })
            .collect();
        let made = sidecar_image.clone().map(SidecarImage::Archive);
        let sidecar_image = made.or_else(|| sidecar.clone().map(SidecarImage::Of));
        Ok(Self { clusters, sidecar: sidecar.clone(), sidecar_image, skipped, loopback, tracing: *tracing })
    }

    /// The address at which others in the bed reach this machine.
    pub(crate) fn address(&self) -> IpAddr {
        if self.loopback { Ipv4Addr::LOCALHOST } else { BRIDGE }.into()
    }
}

impl ClusterPlan {
    /// The address of its apiserver on the bridge.
    pub(crate) fn bridge_address(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 88, 0, 10 + self.index)
    }

    /// The address of its node on the bridge.
    pub(crate) fn node_address(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 88, 0, 100 + self.index)
    }

    /// The address range of its pods for `host-local`, routed by the node.
    pub(crate) fn pod_range(&self) -> String {
        format!("10.89.{}.0/24", self.index)
    }
}

/// `NAME[=VERSION]`.
fn named(word: &str) -> Result<(String, String)> {
    let (name, version) = word.split_once('=').unwrap_or((word, DEFAULT_VERSION));
    check_name(name)?;
    Ok((name.to_owned(), version.to_owned()))
}

fn check_name(name: &str) -> Result<()> {
    let valid = !name.is_empty()
        && name.len() <= 20
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !name.starts_with('-')
        && !name.ends_with('-');
    if !valid || name == HOST {
        bail!(
            "not a name for a member: {name:?}: at most 20 lower case letters, digits and '-', and not `{HOST}`"
        );
    }
    Ok(())
}

/// The host cluster's name.
pub(crate) const HOST: &str = "host";
/// The bridge's own address, 10.88.0.1/16.
pub(crate) const BRIDGE: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 1);
/// The sidecar's address.
pub(crate) const SIDECAR: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 5);
/// There are no more addresses than this, and memory runs out long before.
const MAX_CLUSTERS: usize = 81;

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted() -> Wanted {
        Wanted { members: 2, ..Wanted::default() }
    }

    fn names(plan: &Plan) -> Vec<&str> {
        plan.clusters.iter().map(|cluster| cluster.name.as_str()).collect()
    }

    #[test]
    fn members_are_numbered_and_the_host_comes_first() {
        let plan = Plan::new(&wanted(), true).unwrap();
        assert_eq!(names(&plan), ["host", "m1", "m2"]);
        assert!(plan.clusters.iter().all(|cluster| cluster.version == DEFAULT_VERSION && !cluster.node));
        assert!(plan.skipped.is_empty());
    }

    #[test]
    fn member_can_have_another_version() {
        let plan = Plan::new(&Wanted { member: vec!["m2=v1.30.0".into()], ..wanted() }, true).unwrap();
        assert_eq!(names(&plan), ["host", "m1", "m2"]);
        assert_eq!(plan.clusters[2].version, "v1.30.0");
        let at_least_1_31 = plan.clusters.iter().map(|cluster| cluster.is_at_least(31));
        assert_eq!(at_least_1_31.collect::<Vec<_>>(), [true, true, false]);
        assert!(plan.clusters[2].is_at_least(30));
    }

    #[test]
    fn member_can_have_its_own_name() {
        let plan = Plan::new(&Wanted { member: vec!["paris".into()], ..wanted() }, true).unwrap();
        assert_eq!(names(&plan), ["host", "m1", "m2", "paris"]);
    }

    #[test]
    fn spares_come_last_and_differ_from_members() {
        let plan =
            Plan::new(&Wanted { spares: vec!["a".into(), "b=v1.30.0".into()], ..wanted() }, true).unwrap();
        assert_eq!(names(&plan), ["host", "m1", "m2", "a", "b"]);
        assert_eq!(
            plan.clusters.iter().map(|cluster| cluster.spare).collect::<Vec<_>>(),
            [false, false, false, true, true]
        );
        assert_eq!(plan.clusters[4].version, "v1.30.0");
        let twice = Plan::new(&Wanted { spares: vec!["m1".into()], ..wanted() }, true);
        assert_eq!(twice.unwrap_err().to_string(), "two clusters of one name: m1");
    }

    #[test]
    fn invalid_names_are_refused() {
        for name in ["", "=v1.30.0", "host", "M1", "-m", "a.b", "m/1"] {
            let refused = Plan::new(&Wanted { member: vec![name.into()], ..wanted() }, true);
            assert!(refused.is_err(), "{name:?}");
        }
    }

    #[test]
    fn node_needs_an_existing_cluster() {
        let plan = Plan::new(&Wanted { nodes: vec!["m2".into(), "host".into()], ..wanted() }, true).unwrap();
        assert_eq!(plan.clusters.iter().map(|cluster| cluster.node).collect::<Vec<_>>(), [true, false, true]);
        assert!(Plan::new(&Wanted { nodes: vec!["m7".into()], ..wanted() }, true).is_err());
    }

    #[test]
    fn karmada_needs_an_existing_cluster() {
        let spares = vec!["k3".into()];
        let plan = Plan::new(&Wanted { spares, karmada: vec!["k3".into()], ..wanted() }, true).unwrap();
        let karmada: Vec<_> = plan.clusters.iter().map(|cluster| cluster.karmada).collect();
        assert_eq!(karmada, [false, false, false, true]);
        let refused = Plan::new(&Wanted { karmada: vec!["k3".into()], ..wanted() }, true);
        assert_eq!(refused.unwrap_err().to_string(), "Karmada for a cluster that is not there: k3");
    }

    #[test]
    fn node_is_reported_as_skipped_without_namespaces() {
        let plan = Plan::new(&Wanted { nodes: vec!["m1".into()], ..wanted() }, false).unwrap();
        assert!(plan.loopback);
        assert!(!plan.clusters[1].node);
        assert!(plan.skipped.iter().any(|line| line.contains("node of m1")), "{:?}", plan.skipped);
    }

    #[test]
    fn every_cluster_has_unique_addresses() {
        let plan = Plan::new(&wanted(), true).unwrap();
        let mut addresses = plan.clusters.iter().map(ClusterPlan::bridge_address).collect::<Vec<_>>();
        addresses.extend(plan.clusters.iter().map(ClusterPlan::node_address));
        addresses.extend([BRIDGE, SIDECAR]);
        let count = addresses.len();
        addresses.sort();
        addresses.dedup();
        assert_eq!(addresses.len(), count);
    }

    #[test]
    fn sidecar_image_is_packed_unless_one_is_given() {
        let (program, archive) = (PathBuf::from("mc-sidecar"), PathBuf::from("mc-sidecar.tar"));
        let packed = Wanted { sidecar: Some(program.clone()), ..wanted() };
        let made = Wanted { sidecar_image: Some(archive.clone()), ..packed.clone() };
        let image = |wanted| Plan::new(&wanted, true).unwrap().sidecar_image;
        assert_eq!(image(packed), Some(SidecarImage::Of(program)));
        assert_eq!(image(made), Some(SidecarImage::Archive(archive)));
        assert_eq!(image(wanted()), None);
    }
}
