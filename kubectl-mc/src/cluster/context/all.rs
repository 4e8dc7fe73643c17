//! Loads all contexts of a kubeconfig, each as a separate cluster. An unusable context does not affect the
//! others.

use std::collections::HashMap;

use kube::config::{Context, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext};

use super::cluster_context::{CLUSTER, ClusterContext, EXTENSION};
use super::error::HostError;
use super::options::HostOptions;
use super::{islands, load};
use crate::cluster::cluster_id::KubeconfigContext;
use crate::env::Env;

/// The contexts to choose from.
#[derive(Debug, Default)]
pub(crate) struct Contexts {
    /// Sorted by name.
    pub(crate) all: Vec<KubeconfigContext>,
    /// The files of `--kubeconfig-dir` that are not kubeconfigs, each with the reason.
    pub(crate) skipped: Vec<String>,
    /// Why contexts of the files of the host are missing.
    pub(crate) unusable: Vec<HostError>,
}

impl Contexts {
    /// A note about each file and context that is missing.
    pub(crate) fn notes(&self) -> impl Iterator<Item = String> {
        let skipped = self.skipped.iter().map(|skipped| format!("note: {skipped}"));
        skipped.chain(self.unusable.iter().map(|error| format!("note: left out: {error}")))
    }
}

/// The contexts in the files of `options` and `env`. It is an error if no file exists.
pub(crate) fn contexts(options: &HostOptions, env: &Env) -> Result<Contexts, HostError> {
    if !options.kubeconfig_dirs.is_empty() {
        return islands::contexts(&options.kubeconfig_dirs);
    }
    let files = load::files(options, env);
    if !files.is_empty() && files.iter().all(|file| !file.exists()) && options.kubeconfig.is_none() {
        return Err(HostError::NoContexts { files });
    }
    let Kubeconfig { clusters, auth_infos, contexts, .. } =
        load::merged(&files, options.kubeconfig.is_some())?;
    let entries = Entries::of(clusters, auth_infos);
    let (mut all, mut unusable) = (Vec::new(), Vec::new());
    for NamedContext { name, context, .. } in contexts {
        let Some(context) = context.filter(|context| !is_of_overlay(context)) else { continue };
        let kubeconfig = entries.alone(&name, &context);
        match ClusterContext::from_context(name.clone(), context, kubeconfig, files.clone()) {
            Ok(mut cluster) => {
                cluster.kubeconfig_flag.clone_from(&options.kubeconfig);
                all.push(KubeconfigContext::new(&name, cluster));
            }
            Err(error) => unusable.push(error.in_role(CLUSTER)),
        }
    }
    all.sort_by(|a, b| a.raw_name().cmp(b.raw_name()));
    Ok(Contexts { all, skipped: Vec::new(), unusable })
}

/// Whether the context belongs to an overlay of the plugin, whose cluster has its own context or host.
pub(super) fn is_of_overlay(context: &Context) -> bool {
    let mut extensions = context.extensions.iter().flatten();
    let mark = extensions.find(|extension| extension.name == EXTENSION);
    mark.is_some_and(|mark| mark.extension.get("cluster").is_none())
}

/// The clusters and users to which contexts refer.
pub(super) struct Entries {
    clusters: HashMap<String, NamedCluster>,
    users: HashMap<String, NamedAuthInfo>,
}

impl Entries {
    pub(super) fn of(clusters: Vec<NamedCluster>, users: Vec<NamedAuthInfo>) -> Self {
        Self {
            clusters: clusters.into_iter().map(|entry| (entry.name.clone(), entry)).collect(),
            users: users.into_iter().map(|entry| (entry.name.clone(), entry)).collect(),
        }
    }

    /// The kubeconfig with only this context. Keeping all entries in each copy would need quadratic
    /// memory.
    pub(super) fn alone(&self, name: &str, context: &Context) -> Kubeconfig {
        let user = context.user.as_ref().and_then(|user| self.users.get(user));
        Kubeconfig {
            clusters: self.clusters.get(&context.cluster).cloned().into_iter().collect(),
            auth_infos: user.cloned().into_iter().collect(),
            contexts: vec![NamedContext {
                name: name.to_owned(),
                context: Some(context.clone()),
                ..NamedContext::default()
            }],
            current_context: Some(name.to_owned()),
            ..Kubeconfig::default()
        }
    }
}
