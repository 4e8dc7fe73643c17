//! Checks the packages that a bed needs on the machine. Missing packages are reported, but never
//! installed from here.

use std::path::Path;

use anyhow::{Result, bail};

use crate::images;
use crate::plan::Plan;

/// If Debian packages are missing, fails with all of them at once.
pub(crate) fn check(plan: &Plan) -> Result<()> {
    let node = plan.clusters.iter().any(|cluster| cluster.node);
    let missing = missing(!plan.loopback, node, &|path| Path::new(path).exists());
    if !missing.is_empty() {
        bail!("Debian packages are needed that are not here: {}: run `make setup`", missing.join(" "));
    }
    Ok(())
}

fn missing(network: bool, node: bool, exists: &dyn Fn(&str) -> bool) -> Vec<&'static str> {
    let wanted = NETWORK.iter().filter(|_| network).chain(NODE.iter().filter(|_| node));
    let missing = wanted.filter(|(_, paths)| !paths.iter().any(|path| exists(path)));
    missing.map(|(package, _)| *package).collect()
}

/// A package, and the paths where its program may be.
type Package = (&'static str, &'static [&'static str]);

const NETWORK: &[Package] = &[
    ("iproute2", &["/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip", "/bin/ip"]),
    ("util-linux", &["/usr/bin/nsenter"]),
];
const NODE: &[Package] = &[
    ("containerd", &["/usr/bin/containerd"]),
    ("runc", &["/usr/sbin/runc", "/usr/bin/runc"]),
    ("containernetworking-plugins", &["/usr/lib/cni/ptp"]),
    ("nftables", &["/usr/sbin/nft"]),
    ("busybox-static", &[images::BUSYBOX_PROGRAM]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_missing_packages_are_named_at_once() {
        let found =
            |path: &str| path.ends_with("/ip") || path.ends_with("/nsenter") || path.ends_with("/runc");
        let node = ["containerd", "containernetworking-plugins", "nftables", "busybox-static"];
        assert_eq!(missing(true, true, &found), node);
        assert!(missing(true, false, &found).is_empty());
    }

    #[test]
    fn bed_without_a_network_needs_no_package() {
        assert!(missing(false, false, &|_| false).is_empty());
    }
}
