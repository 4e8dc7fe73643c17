//! Names the kinds of hubs, their resources and their paths.

use std::fmt;
use std::str::FromStr;

use super::segment::Segment;
use super::template::{InvalidTemplate, OtherServer, Template};
use crate::path;

/// A kind of hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// kubectl-mc's own sidecar.
    #[default]
    Own,
    Karmada,
    KubeAdmiral,
    Clusternet,
    ClusterGateway,
    Rancher,
    /// kubectl-mc's own sidecar, whose members are listed from ClusterProfiles: of all namespaces, or of one.
    ClusterProfile(Option<Segment>),
    /// The user server of OCM's cluster-proxy, which the context names. It has no list.
    Ocm,
    /// A path that the user gives. It has no list.
    Template(Template),
}

/// The API resource in which a hub lists its clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    pub group: &'static str,
    pub version: &'static str,
    /// The plural.
    pub name: &'static str,
}

impl Dialect {
    /// The hubs of other projects, in the order in which discovery looks for them.
    pub const HUBS: [Self; 5] =
        [Self::Karmada, Self::KubeAdmiral, Self::Clusternet, Self::ClusterGateway, Self::Rancher];
    /// The dialects that discovery does not look for; the user names them.
    pub const NAMED: [Self; 2] = [Self::ClusterProfile(None), Self::Ocm];

    /// The value of a flag.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Karmada => "karmada",
            Self::KubeAdmiral => "kubeadmiral",
            Self::Clusternet => "clusternet",
            Self::ClusterGateway => "cluster-gateway",
            Self::Rancher => "rancher",
            Self::ClusterProfile(_) => CLUSTER_PROFILE,
            Self::Ocm => "ocm",
            Self::Template(_) => "template",
        }
    }

    /// The name of the project, for messages.
    pub fn title(&self) -> &'static str {
        match self {
            Self::Own => "kubectl-mc",
            Self::Karmada => "Karmada",
            Self::KubeAdmiral => "KubeAdmiral",
            Self::Clusternet => "Clusternet",
            Self::ClusterGateway => "cluster-gateway",
            Self::Rancher => "Rancher",
            Self::ClusterProfile(_) => "ClusterProfiles",
            Self::Ocm => "OCM's cluster-proxy",
            Self::Template(_) => "the template",
        }
    }

    pub fn is_own(&self) -> bool {
        *self == Self::Own
    }

    /// The first hub whose API is among the groups that a host serves; kubectl-mc's own is the first of all.
    /// `server` is the URL of the host: Rancher's members have some of its CRDs too, but only Rancher's own
    /// server has its paths.
    pub fn found_in<'a>(groups: impl IntoIterator<Item = &'a str>, server: &str) -> Option<Self> {
        let groups: Vec<_> = groups.into_iter().collect();
        let is_served = |hub: &Self| hub.resource().is_some_and(|resource| groups.contains(&resource.group));
        let is_hub = |hub: &Self| *hub != Self::Rancher || before_rancher_cluster(server).is_some();
        [Self::Own].into_iter().chain(Self::HUBS).find(|hub| is_served(hub) && is_hub(hub))
    }

    /// The resource in which the hub lists its clusters; `None` for OCM and a template.
    pub fn resource(&self) -> Option<Resource> {
        let (group, version, name) = match self {
            Self::Own => (path::PROXY_GROUP, path::PROXY_VERSION, path::CLUSTERS),
            Self::Karmada => ("cluster.karmada.io", "v1alpha1", "clusters"),
            Self::KubeAdmiral => ("core.kubeadmiral.io", "v1alpha1", "federatedclusters"),
            Self::Clusternet => ("clusters.clusternet.io", "v1beta1", "managedclusters"),
            Self::ClusterGateway => ("cluster.core.oam.dev", "v1alpha1", "clustergateways"),
            Self::Rancher => ("management.cattle.io", "v3", "clusters"),
            Self::ClusterProfile(_) => ("multicluster.x-k8s.io", "v1alpha1", "clusterprofiles"),
            Self::Ocm | Self::Template(_) => return None,
        };
        Some(Resource { group, version, name })
    }

    /// The path of the list of clusters below the hub's server. Namespaced objects are listed over all
    /// namespaces, unless the dialect names one.
    pub fn list_path(&self) -> Option<String> {
        let Resource { group, version, name } = self.resource()?;
        // Rancher's own objects are in the cluster that Rancher runs in.
        let root = if *self == Self::Rancher { "/k8s/clusters/local" } else { "" };
        let place = match self {
            Self::ClusterProfile(Some(namespace)) => format!("namespaces/{namespace}/"),
            _ => String::new(),
        };
        Some(format!("{root}/apis/{group}/{version}/{place}{name}"))
    }

    /// Whether the hub selects clusters by labels. cluster-gateway's list has none and ignores a selector.
    pub fn has_labels(&self) -> bool {
        !matches!(self, Self::ClusterGateway | Self::Ocm | Self::Template(_))
    }

    /// Whether the list can be watched object by object, because the name of an object is that of its
    /// cluster.
    pub fn has_watch(&self) -> bool {
        matches!(self, Self::Own | Self::Karmada | Self::KubeAdmiral)
    }

    /// Whether paths contain an id instead of the name, so that the path of a named cluster needs the list.
    pub fn has_ids(&self) -> bool {
        matches!(self, Self::Clusternet | Self::Rancher)
    }

    /// Whether a named cluster can be reached only with the list.
    pub fn needs_list(&self) -> bool {
        self.has_ids() || matches!(self, Self::ClusterProfile(_))
    }

    /// Whether kubectl-mc's own sidecar may be behind the path. It marks its own responses and those of
    /// members.
    pub fn may_be_sidecar(&self) -> bool {
        matches!(self, Self::ClusterProfile(_) | Self::Template(_))
    }

    /// The text before and after the cluster in the path of its API.
    pub(super) fn around(&self) -> (&str, &str) {
        match self {
            Self::Own | Self::ClusterProfile(_) => {
                ("/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/", "/proxy")
            }
            Self::Karmada => ("/apis/cluster.karmada.io/v1alpha1/clusters/", "/proxy"),
            Self::KubeAdmiral => ("/apis/aggregated.kubeadmiral.io/v1alpha1/aggregations/", "/proxy"),
            Self::Clusternet => ("/apis/proxies.clusternet.io/v1alpha1/sockets/", "/proxy/direct"),
            Self::ClusterGateway => ("/apis/cluster.core.oam.dev/v1alpha1/clustergateways/", "/proxy"),
            Self::Rancher => ("/k8s/clusters/", ""),
            Self::Ocm => ("/", ""),
            Self::Template(template) => template.around(),
        }
    }

    /// The plural and the group of the objects below which a cluster's path is; `None` if the path is not in
    /// an API group.
    pub fn proxied(&self) -> Option<(&str, &str)> {
        let (before, _) = self.around();
        let mut segments = before.strip_prefix("/apis/")?.split('/');
        let (group, _version, name) = (segments.next()?, segments.next()?, segments.next()?);
        segments.next().is_some().then_some((name, group))
    }

    /// Whether an error about this API group is the hub's own.
    pub fn has_group(&self, group: &str) -> bool {
        let lists = self.resource().is_some_and(|resource| resource.group == group);
        lists || self.proxied().is_some_and(|(_, of_proxy)| of_proxy == group)
    }

    /// The path of a cluster's API root below the hub's server, without a trailing slash.
    pub fn root(&self, cluster: &Segment) -> String {
        let (before, after) = self.around();
        format!("{before}{cluster}{after}")
    }

    /// The cluster of a path below the hub's server, and the rest, which is a path of the cluster's API: the
    /// reverse of [`Self::root`].
    pub fn split<'a>(&self, path: &'a str) -> Option<(Segment, &'a str)> {
        let (before, after) = self.around();
        let (in_segment, after) = after.split_at(after.find('/').unwrap_or(after.len()));
        let path = path.strip_prefix(before)?;
        let (segment, rest) = path.split_at(path.find('/').unwrap_or(path.len()));
        let rest = rest.strip_prefix(after)?;
        let cluster = segment.strip_suffix(in_segment)?.parse().ok()?;
        (rest.is_empty() || rest.starts_with('/')).then_some((cluster, rest))
    }

    /// The server below which the paths of this hub are: the host's URL, for Rancher without a suffix
    /// `/k8s/clusters/ID`.
    ///
    /// # Errors
    ///
    /// A template names another server, which must not see the host's credential.
    pub fn base<'a>(&self, server: &'a str) -> Result<&'a str, OtherServer> {
        match self {
            Self::Rancher => Ok(before_rancher_cluster(server).unwrap_or(server)),
            Self::Template(template) => template.base(server),
            _ => Ok(server),
        }
    }
}

/// The part of a server's URL before a suffix `/k8s/clusters/ID`.
fn before_rancher_cluster(server: &str) -> Option<&str> {
    let (before, cluster) = server.rsplit_once('/')?;
    cluster.parse::<Segment>().ok()?;
    before.strip_suffix("/k8s/clusters")
}

impl FromStr for Dialect {
    type Err = InvalidDialect;

    fn from_str(text: &str) -> Result<Self, InvalidDialect> {
        if let Some(template) = text.strip_prefix("template=") {
            return Ok(Self::Template(template.parse()?));
        }
        if let Some(namespace) = text.strip_prefix(CLUSTER_PROFILE).and_then(|rest| rest.strip_prefix('=')) {
            let namespace = namespace.parse().map_err(|_| InvalidDialect::Namespace)?;
            return Ok(Self::ClusterProfile(Some(namespace)));
        }
        let known =
            [Self::Own].into_iter().chain(Self::HUBS).chain(Self::NAMED).find(|hub| hub.word() == text);
        known.ok_or_else(|| InvalidDialect::Unknown(text.to_owned()))
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Template(template) => write!(f, "template={template}"),
            Self::ClusterProfile(Some(namespace)) => write!(f, "{CLUSTER_PROFILE}={namespace}"),
            _ => f.write_str(self.word()),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDialect {
    #[error("unknown hub {0:?}")]
    Unknown(String),
    #[error("clusterprofile=NAMESPACE needs the name of a namespace")]
    Namespace,
    #[error(transparent)]
    Template(#[from] InvalidTemplate),
}

const CLUSTER_PROFILE: &str = "clusterprofile";
