//! Loads the cluster of a kubeconfig context with kubectl's rules (client-go:
//! `ClientConfigLoadingRules`), or the cluster of the pod's service account.

mod all;
pub(in crate::cluster) mod cluster_context;
mod collisions;
mod config;
mod document;
mod error;
mod fields;
mod in_cluster;
mod island;
mod islands;
mod load;
mod options;
mod parse;
mod piped;

use std::path::Path;

pub(crate) use all::{Contexts, contexts};
use cluster_context::HOST;
pub(crate) use cluster_context::{ClusterContext, EXTENSION, User};
pub(crate) use collisions::{Collision, collisions, kept_apart};
pub(crate) use config::INTERACTIVE_MODE;
pub(crate) use document::json as read_yaml;
pub(crate) use error::HostError;
use kube::config::Context;
pub(crate) use options::HostOptions;
pub(crate) use parse::parsed as read_kubeconfig;
pub(crate) use piped::Piped;

use crate::argv::Scanned;
use crate::cluster::hub::Hub;
use crate::env::Env;
use crate::log::{Log, without_credential};

impl ClusterContext {
    /// Finds the host in the files of `options` and `env`, or else in the pod.
    pub(crate) fn load(options: &HostOptions, env: &Env) -> Result<Self, HostError> {
        Self::load_for(&Scanned::default(), options, env)
    }

    /// Finds the host for a command of kubectl, whose flags may name another user or credential.
    pub(crate) fn load_for(scanned: &Scanned, options: &HostOptions, env: &Env) -> Result<Self, HostError> {
        let mut host = Self::load_with(options, env, Path::new(in_cluster::SERVICE_ACCOUNT))?;
        host.kubeconfig_flag.clone_from(&options.kubeconfig);
        let (hub, base) = Hub::of(&options.hub, &host.server, env)?;
        (host.hub, host.server) = (hub, base);
        let files = host.files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(",");
        Log::new(env).decision(
            "Chose cluster of kubeconfig",
            &[
                ("context", &host.context.as_deref().unwrap_or_default()),
                ("server", &without_credential(&host.server)),
                ("files", &files),
            ],
        );
        if !CREDENTIAL_FLAGS.iter().any(|flag| scanned.value(flag).is_some()) {
            host.check_user()?;
        }
        Ok(host)
    }

    /// Without a user entry, kubectl would send anonymous requests.
    fn check_user(&self) -> Result<(), HostError> {
        let User::Named(Some(user)) = &self.user else { return Ok(()) };
        if self.kubeconfig.auth_infos.iter().any(|entry| entry.name == *user) {
            return Ok(());
        }
        let context = self.context.clone().unwrap_or_default();
        Err(HostError::NoUser { role: HOST, context, user: user.clone(), files: self.files.clone() })
    }

    fn load_with(options: &HostOptions, env: &Env, service_account: &Path) -> Result<Self, HostError> {
        let files = load::files(options, env);
        let kubeconfig = load::merged(&files, options.kubeconfig.is_some())?;
        let Some(mut name) = options.context.clone().or_else(|| kubeconfig.current_context.clone()) else {
            return in_cluster::host(env, service_account).ok_or(HostError::NoContext { files });
        };
        let context = |name: &str| {
            let entry = kubeconfig.contexts.iter().find(|entry| entry.name == name);
            entry.and_then(|entry| entry.context.clone())
        };
        let mut found = context(&name);
        match found.as_ref().and_then(overlay_host) {
            Some(OverlayHost::Pod) => {
                return in_cluster::host(env, service_account).ok_or(HostError::NoContext { files });
            }
            Some(OverlayHost::Context(host)) => {
                found = context(&host);
                name = host;
            }
            None => {}
        }
        match found {
            Some(context) => Self::from_context(name, context, kubeconfig, files),
            None => Err(HostError::UnknownContext { role: HOST, name, files }),
        }
    }
}

/// The host of an overlay's context.
enum OverlayHost {
    Pod,
    Context(String),
}

fn overlay_host(context: &Context) -> Option<OverlayHost> {
    let extensions = context.extensions.as_deref()?;
    let extension = extensions.iter().find(|extension| extension.name == EXTENSION)?;
    let host = extension.extension.get("context").and_then(|context| context.as_str());
    Some(host.map_or(OverlayHost::Pod, |host| OverlayHost::Context(host.to_owned())))
}

/// The flags of kubectl that replace the context's user.
const CREDENTIAL_FLAGS: &[&str] = &["user", "token", "username", "client-certificate"];

#[cfg(test)]
mod tests;
