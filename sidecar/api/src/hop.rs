//! Defines the hops of a request between a caller and a member, and the response header in which the
//! sidecar names the hop that sent the response.

use std::fmt;

/// The response header that only the sidecar sets: [`Hop::Member`] on every response of a member, and
/// the hop of the error on the sidecar's own errors. The sidecar removes the header from a member's
/// responses, so a client can trust it. A response without it comes from the host, or from a
/// proxy in front of the host.
pub const HEADER: &str = "x-kubectl-mc-hop";

/// The step of a request from which a response comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hop {
    /// The host does not answer. Only the plugin sees this.
    HostUnreachable,
    /// The host serves no such API. Only the plugin sees this.
    SidecarMissing,
    /// The host cannot reach the sidecar. Only the plugin sees this.
    SidecarUnavailable,
    /// The hub of another project. Only the plugin sees this.
    Hub,
    /// The sidecar refuses the request itself, such as its path or its headers.
    Request,
    HostAuthentication,
    HostAuthorization,
    /// The sidecar is overloaded, is starting or stopping, or has failed.
    Sidecar,
    /// Karmada's aggregated API server, for its own objects.
    KarmadaServer,
    ClusterUnknown,
    ProxyOff,
    /// The member's agent has no tunnel, or its tunnel does not work.
    Agent,
    MemberUnreachable,
    MemberAuthentication,
    MemberImpersonation,
    /// The member's own response, whether a success or an error.
    Member,
}

impl Hop {
    /// Every hop, in the order in which a request passes them.
    pub const ALL: [Self; 16] = [
        Self::HostUnreachable,
        Self::SidecarMissing,
        Self::SidecarUnavailable,
        Self::Hub,
        Self::Request,
        Self::HostAuthentication,
        Self::HostAuthorization,
        Self::Sidecar,
        Self::KarmadaServer,
        Self::ClusterUnknown,
        Self::ProxyOff,
        Self::Agent,
        Self::MemberUnreachable,
        Self::MemberAuthentication,
        Self::MemberImpersonation,
        Self::Member,
    ];

    /// The hop's name on the wire, in metrics and in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HostUnreachable => "host unreachable",
            Self::SidecarMissing => "sidecar not installed",
            Self::SidecarUnavailable => "sidecar not available",
            Self::Hub => "hub",
            Self::Request => "request",
            Self::HostAuthentication => "host authentication",
            Self::HostAuthorization => "host authorization",
            Self::Sidecar => "sidecar",
            Self::KarmadaServer => "karmada-aggregated-apiserver",
            Self::ClusterUnknown => "cluster unknown",
            Self::ProxyOff => "proxy off",
            Self::Agent => "agent",
            Self::MemberUnreachable => "member unreachable",
            Self::MemberAuthentication => "member authentication",
            Self::MemberImpersonation => "member impersonation",
            Self::Member => "member",
        }
    }

    /// The hop that a value of [`HEADER`] names.
    pub fn from_wire(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|hop| hop.as_str() == name)
    }
}

impl fmt::Display for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn hop_is_parsed_from_its_name() {
        for hop in Hop::ALL {
            assert_eq!(Hop::from_wire(hop.as_str()), Some(hop));
        }
        assert_eq!(Hop::ALL.map(Hop::as_str).iter().collect::<HashSet<_>>().len(), Hop::ALL.len());
    }

    #[test]
    fn unknown_names_are_no_hop() {
        for other in ["", "Member", "member ", "member gone", "host", "member unreachable, member"] {
            assert_eq!(Hop::from_wire(other), None, "{other:?}");
        }
    }
}
