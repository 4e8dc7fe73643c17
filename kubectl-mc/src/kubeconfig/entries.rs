//! Builds the cluster and the context of each member as kubeconfig entries. Both carry a mark, so that a
//! later run changes only the plugin's entries.

use kube::config::NamedExtension;
use kubectl_mc_api::ClusterName;
use serde_json::{Value, json};

use crate::cluster::context::{self, ClusterContext};
use crate::error::{Context, Failure};
use crate::kubectl::overlay;

/// The entries of one member.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MemberEntry {
    /// The name of the cluster and of the context.
    pub(super) name: String,
    /// `{cluster: …, name: …}`
    pub(super) cluster: Value,
    /// `{context: …, name: …}`
    pub(super) context: Value,
}

/// The entries of these clusters, in order.
pub(super) fn entries(
    host: &ClusterContext,
    clusters: &[ClusterName],
    prefix: &str,
) -> Result<Vec<MemberEntry>, Failure> {
    let entry = |cluster: &ClusterName| {
        let name = format!("{prefix}{cluster}");
        let (mut named, mut context) = overlay::entries(host, &cluster.clone().into(), name.clone());
        let mark = |extensions: &mut Option<Vec<NamedExtension>>| {
            let extensions = extensions.get_or_insert_default();
            extensions.retain(|extension| extension.name != context::EXTENSION);
            extensions.push(NamedExtension {
                name: context::EXTENSION.to_owned(),
                extension: json!({"context": host.context, "cluster": cluster.as_str()}),
            });
        };
        if let Some(cluster) = &mut named.cluster {
            mark(&mut cluster.extensions);
        }
        if let Some(context) = &mut context.context {
            mark(&mut context.extensions);
        }
        let mut context = serde_json::to_value(context)?;
        if context["context"]["user"] == "" {
            // Without a user there is no credential, as for the host.
            context["context"].as_object_mut().map(|context| context.remove("user"));
        }
        Ok(MemberEntry { name, cluster: serde_json::to_value(named)?, context })
    };
    clusters
        .iter()
        .map(entry)
        .collect::<Result<_, serde_json::Error>>()
        .context(|| "cannot write the kubeconfig")
}

/// The mark of an entry that the plugin created.
#[derive(Debug, PartialEq)]
pub(crate) struct Mark {
    /// The host's context; `None` in a pod.
    host: Option<String>,
    pub(super) cluster: String,
}

impl Mark {
    /// Reads the mark from the extensions of a cluster or a context.
    pub(crate) fn find(entry: &Value) -> Option<Self> {
        let mut extensions = entry.get("extensions")?.as_array()?.iter();
        let mark = extensions.find(|extension| extension["name"] == context::EXTENSION)?.get("extension")?;
        let text = |key: &str| mark.get(key).and_then(Value::as_str).map(str::to_owned);
        Some(Self { host: text("context"), cluster: text("cluster")? })
    }

    /// Whether the entry belongs to a member of this host.
    pub(crate) fn is_of(&self, host: &ClusterContext) -> bool {
        self.host == host.context
    }
}

/// Refuses names that another entry of the user's kubeconfig has: tools use the first of two
/// entries with the same name.
pub(super) fn check_names(entries: &[MemberEntry], host: &ClusterContext) -> Result<(), Failure> {
    let kubeconfig = &host.kubeconfig;
    let is_foreign = |extensions: Option<&[NamedExtension]>| {
        let entry = json!({"extensions": extensions});
        !Mark::find(&entry).is_some_and(|mark| mark.is_of(host))
    };
    for MemberEntry { name, .. } in entries {
        let cluster = kubeconfig.clusters.iter().find(|entry| entry.name == *name);
        let cluster = cluster.and_then(|entry| entry.cluster.as_ref());
        let context = kubeconfig.contexts.iter().find(|entry| entry.name == *name);
        let context = context.and_then(|entry| entry.context.as_ref());
        let kind = if context.is_some_and(|context| is_foreign(context.extensions.as_deref())) {
            "context"
        } else if cluster.is_some_and(|cluster| is_foreign(cluster.extensions.as_deref())) {
            "cluster"
        } else {
            continue;
        };
        return Err(foreign(kind, name));
    }
    Ok(())
}

/// Another program or the user created the entry.
pub(super) fn foreign(kind: &str, name: &str) -> Failure {
    Failure::usage(format!(
        "your kubeconfig has a {kind} {name:?} that is not one of the plugin for this host"
    ))
    .with_hint("choose other names by --context-prefix, as in --context-prefix=mc/")
}
