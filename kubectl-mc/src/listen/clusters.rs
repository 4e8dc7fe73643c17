//! The clusters of the listener: the host name of each, and how to reach it.

use std::sync::Arc;

use kubectl_mc_api::ClusterName;

use super::session::Session;
use crate::cluster::cluster_id::ClusterId;
use crate::cluster::context::ClusterContext;
use crate::env::Env;
use crate::error::{CommandLine, Failure};

/// A cluster of the listener.
pub(super) struct Served {
    pub(super) name: String,
    /// The namespace of its context.
    pub(super) namespace: Option<String>,
    pub(super) session: Arc<Session>,
    /// The path of the cluster's API below the server of the session; empty for a context.
    pub(super) root: String,
}

/// The clusters of the listener, in the order of the selection.
pub(super) struct Clusters(Vec<Served>);

impl Clusters {
    /// The chosen clusters, each with the context that reaches it. Members of one host share its connections.
    pub(super) fn new(reached: &[(&ClusterContext, &ClusterId)], env: &Env) -> Result<Self, Failure> {
        let mut clusters: Vec<Served> = Vec::new();
        let mut host: Option<Arc<Session>> = None;
        for (through, cluster) in reached {
            let name = match cluster {
                ClusterId::Member(name) => name.to_string(),
                ClusterId::Context(context) => context.raw_name().to_owned(),
            };
            if name.parse::<ClusterName>().is_err() {
                return Err(Failure::usage(format!(
                    "context {cluster} cannot be part of a host name: only lower case letters, digits and '-' are allowed, at most 63"
                ))
                .with_hint(CommandLine::new("kubectl config rename-context OLD NEW").after("rename it")));
            }
            if clusters.iter().any(|served| served.name == name) {
                return Err(Failure::usage(format!(
                    "a member and a context are both named {name}, and would have the same host name"
                ))
                .with_hint("start a listener for each of them"));
            }
            let session = || Arc::new(Session::new((*through).clone(), env.clone()));
            let session = match cluster {
                ClusterId::Member(_) => Arc::clone(host.get_or_insert_with(session)),
                ClusterId::Context(_) => session(),
            };
            let (namespace, root) = (through.namespace.clone(), cluster.root(through));
            clusters.push(Served { name, namespace, session, root });
        }
        Ok(Self(clusters))
    }

    #[cfg(test)]
    pub(super) fn of(served: Vec<Served>) -> Self {
        Self(served)
    }

    pub(super) fn find(&self, name: &str) -> Option<&Served> {
        self.0.iter().find(|served| served.name == name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Served> {
        self.0.iter()
    }

    /// The names, for messages.
    pub(super) fn names(&self) -> String {
        let names: Vec<_> = self.0.iter().take(MOST_NAMED).map(|served| served.name.as_str()).collect();
        let more = self.0.len() - names.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{more}", names.join(", "))
    }
}

/// Enough for a message.
const MOST_NAMED: usize = 20;
