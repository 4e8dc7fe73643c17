//! Loads all contexts of a kubeconfig, each as a separate cluster. An unusable context does not affect the
//! others.

use std::collections::HashMap;

use kube::config::{Context, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext};

use super::{ClusterContext, EXTENSION, HostError, HostOptions, load};
use crate::cluster::cluster_id::KubeconfigContext;
use crate::env::Env;

/// The contexts in the files of `options` and `env`, sorted by name. Contexts without a server are omitted. That no file
/// exists is an error.
pub(crate) fn contexts(options: &HostOptions, env: &Env) -> Result<Vec<KubeconfigContext>, HostError> {
    let files = load::files(options, env);
    if !files.is_empty() && files.iter().all(|file| !file.exists()) && options.kubeconfig.is_none() {
        return Err(HostError::NoContexts { files });
    }
    let Kubeconfig { clusters, auth_infos, contexts, .. } =
        load::merged(&files, options.kubeconfig.is_some())?;
    let clusters: HashMap<_, _> = clusters.into_iter().map(|entry| (entry.name.clone(), entry)).collect();
    let users: HashMap<_, _> = auth_infos.into_iter().map(|entry| (entry.name.clone(), entry)).collect();
    let mut all: Vec<_> = contexts
        .into_iter()
        .filter_map(|NamedContext { name, context, .. }| {
            let context = context.filter(|context| !is_of_overlay(context))?;
            let kubeconfig = alone(&name, &context, &clusters, &users);
            let mut cluster =
                ClusterContext::from_context(name.clone(), context, kubeconfig, files.clone()).ok()?;
            cluster.kubeconfig_flag.clone_from(&options.kubeconfig);
            Some(KubeconfigContext::new(&name, cluster))
        })
        .collect();
    all.sort_by(|a, b| a.raw_name().cmp(b.raw_name()));
    Ok(all)
}

/// Whether the context belongs to an overlay of the plugin, whose cluster has its own context or host.
fn is_of_overlay(context: &Context) -> bool {
    let mut extensions = context.extensions.iter().flatten();
    let mark = extensions.find(|extension| extension.name == EXTENSION);
    mark.is_some_and(|mark| mark.extension.get("cluster").is_none())
}

/// The kubeconfig with this context only. Keeping all entries in each copy would need quadratic memory.
fn alone(
    name: &str,
    context: &Context,
    clusters: &HashMap<String, NamedCluster>,
    users: &HashMap<String, NamedAuthInfo>,
) -> Kubeconfig {
    let user = context.user.as_ref().and_then(|user| users.get(user));
    Kubeconfig {
        clusters: clusters.get(&context.cluster).cloned().into_iter().collect(),
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
