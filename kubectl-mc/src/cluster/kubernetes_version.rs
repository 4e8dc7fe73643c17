//! Defines the oldest supported versions of Kubernetes for a host and a member.

use std::fmt;

/// A version such as `1.36`. A cluster's `gitVersion` also has a patch level and a vendor suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KubernetesVersion {
    major: u32,
    minor: u32,
}

/// The first version with ValidatingAdmissionPolicies, which limit the use of a stolen credential of the
/// sidecar.
pub(crate) const HOST_MINIMUM: KubernetesVersion = KubernetesVersion { major: 1, minor: 30 };
/// The oldest supported member, which the tests cover. An older one joins with a warning.
pub(crate) const MEMBER_MINIMUM: KubernetesVersion = KubernetesVersion { major: 1, minor: 30 };
/// The oldest member that may join: the first with server-side apply, which the join uses, and
/// `Impersonate-Uid`, with which the sidecar forwards the uids of callers.
pub(crate) const MEMBER_ADMITTED: KubernetesVersion = KubernetesVersion { major: 1, minor: 22 };

impl KubernetesVersion {
    pub(crate) const fn of(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// Parses a `gitVersion` such as `v1.29.4-gke.100`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.strip_prefix('v').unwrap_or(text).split('.');
        let major = numbers.next()?.parse().ok()?;
        let minor = numbers.next()?;
        let digits = minor.find(|c: char| !c.is_ascii_digit()).unwrap_or(minor.len());
        Some(Self { major, minor: minor[..digits].parse().ok()? })
    }
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vendor_suffix_of_a_version_is_ignored() {
        for text in ["v1.29.4", "v1.29.4-gke.100", "v1.29.4+k3s1", "v1.29", "1.29+", "v1.29.0-rc.1"] {
            assert_eq!(
                KubernetesVersion::parse(text).map(|version| version.to_string()).as_deref(),
                Some("1.29")
            );
        }
        for text in ["", "v1", "of an unknown version", "vx.y"] {
            assert_eq!(KubernetesVersion::parse(text), None, "{text}");
        }
    }

    #[test]
    fn minor_versions_are_numbers() {
        assert!(KubernetesVersion::parse("v1.9.0") < Some(HOST_MINIMUM));
        assert!(KubernetesVersion::parse("v1.30.0") >= Some(HOST_MINIMUM));
        assert!(KubernetesVersion::parse("v2.0.0") >= Some(HOST_MINIMUM));
    }

    #[test]
    fn chart_refuses_the_same_hosts() {
        let chart = include_str!("../../../sidecar/deploy/chart/Chart.yaml");
        assert!(chart.contains(&format!("kubeVersion: \">= {HOST_MINIMUM}.0-0\"")), "{chart}");
    }

    #[test]
    fn chart_of_the_agent_admits_the_same_members() {
        let chart = include_str!("../../../sidecar/deploy/agent-chart/Chart.yaml");
        assert!(chart.contains(&format!("kubeVersion: \">= {MEMBER_ADMITTED}.0-0\"")), "{chart}");
    }

    #[test]
    fn oldest_supported_versions_are_tested_end_to_end() {
        let bed = include_str!("../../../tests/e2e.sh");
        for flag in [format!("--member m2=v{MEMBER_MINIMUM}.0 "), format!("--spare s3=v{HOST_MINIMUM}.0 ")] {
            assert!(bed.contains(&flag), "{flag} is not in {bed}");
        }
    }
}
