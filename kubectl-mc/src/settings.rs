//! What is meant, from what was typed: flags and environment resolved once. The commands see
//! neither of them.

use std::ffi::OsString;
use std::path::PathBuf;

use kubectl_mc_api::{ClusterName, InvalidClusterName};

use crate::cli::Flags;
use crate::env::{self, Env};
use crate::error::Explain;
use crate::exit::ExitStatus;

/// The choice of cluster and host.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Settings {
    /// The one cluster to run against.
    pub(crate) cluster: Option<ClusterName>,
    pub(crate) host: HostOptions,
}

/// Where the host's kubeconfig is, and which of its contexts is the host.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HostOptions {
    /// `--kubeconfig`: the only file that is read.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// `--context` or its variable; none is the current context.
    pub(crate) context: Option<String>,
}

impl Settings {
    pub(crate) fn resolve(flags: &Flags, env: &Env) -> Result<Self, SettingsError> {
        let Flags { cluster, cluster_selector, all_clusters, context: _, kubeconfig: _ } = flags;
        if cluster_selector.is_some() {
            return Err(SettingsError::NotYet("--cluster-selector".to_owned()));
        }
        if *all_clusters {
            return Err(SettingsError::NotYet("--all-clusters".to_owned()));
        }
        let (cluster, origin) = match cluster.as_slice() {
            [] => (text(env, env::CLUSTER)?, env::CLUSTER),
            [one] => (Some(one.clone()), "--cluster"),
            several => return Err(SettingsError::NotYet(format!("--cluster={}", several.join(",")))),
        };
        Ok(Self {
            cluster: cluster.map(|name| exact(name, origin)).transpose()?,
            host: Self::host_of(flags, env)?,
        })
    }

    /// The host alone.
    pub(crate) fn host_of(flags: &Flags, env: &Env) -> Result<HostOptions, SettingsError> {
        // An empty flag is an absent one, as for kubectl.
        let context = flags.context.clone().filter(|name| !name.is_empty());
        Ok(HostOptions {
            kubeconfig: flags.kubeconfig.clone().filter(|file| !file.is_empty()).map(PathBuf::from),
            context: match context {
                Some(context) => Some(context),
                None => text(env, env::CONTEXT)?,
            },
        })
    }
}

/// One exact name. What looks like a choice of several is told apart from a mistyped name.
fn exact(name: String, origin: &'static str) -> Result<ClusterName, SettingsError> {
    if name.contains([',', '*', '?', '[', '{', '!']) {
        return Err(SettingsError::NotYet(format!("{origin}={name}")));
    }
    ClusterName::try_from(name).map_err(|source| SettingsError::Name { origin, source })
}

fn text(env: &Env, name: &'static str) -> Result<Option<String>, SettingsError> {
    let Some(value) = env.var(name) else { return Ok(None) };
    value.to_owned().into_string().map(Some).map_err(|value| SettingsError::NotText { name, value })
}

#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum SettingsError {
    #[error("choosing several clusters is not possible yet: {0}")]
    NotYet(String),
    #[error("{origin}")]
    Name { origin: &'static str, source: InvalidClusterName },
    #[error("{name} is not UTF-8: {value:?}")]
    NotText { name: &'static str, value: OsString },
}

impl Explain for SettingsError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NotYet(_) => {
                Some("name one cluster: --cluster=NAME; `kubectl mc clusters` lists them".to_owned())
            }
            Self::Name { .. } => Some("`kubectl mc clusters` lists the clusters".to_owned()),
            Self::NotText { .. } => None,
        }
    }

    fn status(&self) -> ExitStatus {
        ExitStatus::Usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(clusters: &[&str]) -> Flags {
        Flags { cluster: clusters.iter().map(|&c| c.to_owned()).collect(), ..Flags::default() }
    }

    fn env(variables: &[(&str, &str)]) -> Env {
        variables.iter().copied().collect()
    }

    #[test]
    fn a_flag_wins_over_its_variable() {
        let env = env(&[(env::CLUSTER, "m2"), (env::CONTEXT, "from-env")]);
        let cluster = |flags: &Flags| Settings::resolve(flags, &env).unwrap().cluster.unwrap().to_string();
        assert_eq!(cluster(&flags(&["m1"])), "m1");
        assert_eq!(cluster(&flags(&[])), "m2");
        let context = |context: Option<&str>| {
            let flags = Flags { context: context.map(str::to_owned), ..Flags::default() };
            Settings::resolve(&flags, &env).unwrap().host.context
        };
        assert_eq!(context(Some("flag")).as_deref(), Some("flag"));
        assert_eq!(context(None).as_deref(), Some("from-env"));
    }

    #[test]
    fn nothing_given_is_nothing_chosen() {
        assert_eq!(Settings::resolve(&flags(&[]), &env(&[(env::CLUSTER, "")])).unwrap(), Settings::default());
    }

    #[test]
    fn several_clusters_are_refused_as_not_there_yet() {
        let all = Flags { all_clusters: true, ..Flags::default() };
        let selector = Flags { cluster_selector: Some("env=prod".to_owned()), ..Flags::default() };
        for flags in
            [flags(&["m1", "m2"]), flags(&["m1,m2"]), flags(&["eu-*"]), flags(&["!m1"]), all, selector]
        {
            let error = Settings::resolve(&flags, &env(&[])).unwrap_err();
            assert!(matches!(error, SettingsError::NotYet(_)), "{flags:?}: {error}");
            assert_eq!(error.status(), ExitStatus::Usage);
        }
        let error = Settings::resolve(&flags(&[]), &env(&[(env::CLUSTER, "a,b")])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "choosing several clusters is not possible yet: KUBECTL_MC_CLUSTER=a,b"
        );
    }

    #[test]
    fn fault_81_what_is_no_cluster_name_is_refused_by_name() {
        for name in ["", "..", "../m2", "m1/proxy", "M1", "m.1"] {
            let error = Settings::resolve(&flags(&[name]), &env(&[])).unwrap_err();
            let text = crate::error::Failure::from(error).to_string();
            assert!(text.starts_with(&format!("--cluster: invalid cluster name {name:?}: ")), "{text}");
        }
    }
}
