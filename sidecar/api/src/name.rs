//! Parses cluster names. A name is a DNS label (RFC 1123), because it becomes a path segment, the name of
//! a Secret (`<name>.member`) and a kubeconfig context.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The name of a member cluster: a DNS label of at most 63 bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClusterName(String);

impl ClusterName {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of the Secret that holds the member's connection and credential.
    pub fn member_secret(&self) -> String {
        format!("{self}{MEMBER_SECRET_SUFFIX}")
    }

    /// The member of a Secret of this name, if it is a Secret with a member's connection.
    pub fn of_member_secret(secret: &str) -> Option<Self> {
        secret.strip_suffix(MEMBER_SECRET_SUFFIX)?.parse().ok()
    }

    /// The name of the Secret with the identity that maintains the member's grant and tokens.
    pub fn manager_secret(&self) -> String {
        format!("{self}{MANAGER_SECRET_SUFFIX}")
    }

    /// The member of a Secret of this name, if it is a Secret with a manager's identity.
    pub fn of_manager_secret(secret: &str) -> Option<Self> {
        secret.strip_suffix(MANAGER_SECRET_SUFFIX)?.parse().ok()
    }

    /// The name of the ConfigMap with the observed users of the member, whom no binding names.
    pub fn learnt_config_map(&self) -> String {
        format!("{self}{LEARNT_CONFIG_MAP_SUFFIX}")
    }

    /// The member of a ConfigMap of this name, if it is a ConfigMap of observed users.
    pub fn of_learnt_config_map(config_map: &str) -> Option<Self> {
        config_map.strip_suffix(LEARNT_CONFIG_MAP_SUFFIX)?.parse().ok()
    }
}

/// Whether a text is a DNS label (RFC 1123), as the names of namespaces are.
pub fn is_label(text: &str) -> bool {
    text.len() <= MAX_LABEL && is_part(text)
}

/// Whether a text is a DNS subdomain as Kubernetes defines it, as the names of most objects are.
pub fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_part)
}

fn is_part(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.bytes().all(|byte| is_letter(byte) || byte == b'-')
        && text.bytes().next().is_some_and(is_letter)
        && text.bytes().last().is_some_and(is_letter)
}

impl FromStr for ClusterName {
    type Err = InvalidClusterName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::try_from(name.to_owned())
    }
}

impl TryFrom<String> for ClusterName {
    type Error = InvalidClusterName;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        let reason = if name.is_empty() {
            "it is empty"
        } else if name.len() > MAX_LABEL {
            "it is longer than 63 characters"
        } else if !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
            "only lower case letters, digits and '-' are allowed"
        } else if name.starts_with('-') || name.ends_with('-') {
            "it must start and end with a letter or a digit"
        } else {
            return Ok(Self(name));
        };
        Err(InvalidClusterName { name, reason })
    }
}

impl From<ClusterName> for String {
    fn from(name: ClusterName) -> Self {
        name.0
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for ClusterName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// Why a cluster name is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid cluster name {name:?}: {reason}")]
pub struct InvalidClusterName {
    name: String,
    /// The rule of DNS labels that the name breaks.
    pub reason: &'static str,
}

const MAX_LABEL: usize = 63;
const MEMBER_SECRET_SUFFIX: &str = ".member";
const MANAGER_SECRET_SUFFIX: &str = ".manager";
const LEARNT_CONFIG_MAP_SUFFIX: &str = ".learnt";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dns_labels_are_cluster_names() {
        for name in ["m", "m1", "eu-prod-1", "0", &"a".repeat(63)] {
            assert_eq!(name.parse::<ClusterName>().unwrap().as_str(), name);
        }
    }

    #[test]
    fn invalid_cluster_name_is_refused_and_quoted() {
        for name in [
            "",
            "..",
            ".",
            "../m2",
            "m1/proxy",
            "M1",
            "m_1",
            "m.1",
            "-m",
            "m-",
            "m%2f",
            "mé",
            &"a".repeat(64),
        ] {
            let error = name.parse::<ClusterName>().unwrap_err();
            assert!(error.to_string().contains(&format!("{name:?}")), "{error}");
        }
    }

    #[test]
    fn member_secret_name_identifies_its_cluster() {
        let m1: ClusterName = "m1".parse().unwrap();
        assert_eq!(m1.member_secret(), "m1.member");
        assert_eq!(ClusterName::of_member_secret("m1.member"), Some(m1));
        for other in ["m1", "m1.manager", ".member", "a.b.member", "m1.member.member"] {
            assert_eq!(ClusterName::of_member_secret(other), None, "{other}");
        }
    }

    #[test]
    fn manager_secret_name_identifies_its_cluster() {
        let m1: ClusterName = "m1".parse().unwrap();
        assert_eq!(m1.manager_secret(), "m1.manager");
        assert_eq!(ClusterName::of_manager_secret("m1.manager"), Some(m1));
        for other in ["m1", "m1.member", ".manager", "a.b.manager", "m1.manager.manager"] {
            assert_eq!(ClusterName::of_manager_secret(other), None, "{other}");
        }
    }
}
