//! Reads the user's configuration: `$XDG_CONFIG_HOME/kubectl-mc/config.yaml`, else
//! `~/.config/kubectl-mc/config.yaml`. An unknown key is an error with the nearest known key as a hint,
//! because a mistyped set would choose other clusters.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kubectl_mc_api::go_duration::parse_flag;
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};

use crate::cli::{Color, HubChoice, RouteChoice};
use crate::env::{self, Env};
use crate::error::Failure;
use crate::log::Log;
use crate::suggestion;

/// The configuration of kubectl-mc.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ConfigFile {
    /// The kubeconfig context of the host, when neither --context nor KUBECTL_MC_CONTEXT names one.
    pub(crate) host: Option<String>,
    /// The project of the host's hub, as for --hub: auto, own, karmada, kubeadmiral, clusternet, cluster-gateway, rancher, ocm, clusterprofile[=NAMESPACE] or template=/PATH/{cluster}.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) hub: Option<HubChoice>,
    /// Sets of clusters: `--cluster=@NAME` chooses one.
    #[serde(default, deserialize_with = "sets")]
    #[cfg_attr(test, schemars(with = "BTreeMap<String, SetForm>"))]
    pub(crate) sets: BTreeMap<String, ClusterSet>,
    /// What flags default to.
    #[serde(default)]
    pub(crate) defaults: Defaults,
}

/// Clusters that belong together.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ClusterSet {
    /// Names, globs, /regexes/, @sets and !exclusions, as for --cluster; after context: contexts of the kubeconfig. Absent: all that the selector and `where` choose.
    #[serde(default)]
    pub(crate) clusters: Vec<String>,
    /// A label selector, as for --cluster-selector; it narrows what `clusters` chooses.
    pub(crate) selector: Option<String>,
    /// Requirements on fields, as for --where; they narrow what `clusters` and `selector` choose.
    pub(crate) r#where: Option<String>,
}

impl ClusterSet {
    /// Refuses a set that would choose all clusters because a list or a selector is left empty.
    fn check(&self) -> Result<(), &'static str> {
        let Self { clusters, selector, r#where } = self;
        if selector.as_ref().is_some_and(|selector| selector.trim().is_empty()) {
            return Err("has an empty selector; `clusters: ['*']` chooses all clusters");
        }
        match clusters.is_empty() && selector.is_none() && r#where.is_none() {
            true => Err("is empty; `clusters: ['*']` chooses all clusters"),
            false => Ok(()),
        }
    }
}

/// How a set is written.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "read by the generator of the schema")]
enum SetForm {
    /// The clusters alone, as in `clusters`.
    Clusters(Vec<String>),
    Set(ClusterSet),
}

/// What flags default to.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Defaults {
    /// --cluster-concurrency
    pub(crate) cluster_concurrency: Option<NonZeroUsize>,
    /// --cluster-timeout, as in 30s
    #[serde(default, deserialize_with = "duration")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) cluster_timeout: Option<Duration>,
    /// --color
    pub(crate) color: Option<Color>,
    /// --route
    pub(crate) route: Option<RouteChoice>,
    /// --kubeconfig-dir: folders, globs or files, relative to the folder of this file; ~/ is the home folder.
    #[serde(default)]
    pub(crate) kubeconfig_dir: Vec<String>,
}

impl ConfigFile {
    /// Reads the file; a missing file equals an empty one.
    pub(crate) fn load(env: &Env) -> Result<Self, Failure> {
        let Some(file) = path(env) else { return Ok(Self::default()) };
        let text = std::fs::read_to_string(&file);
        if text.is_ok() {
            Log::new(env).decision("Read configuration", &[("file", &file.display())]);
        }
        match text {
            Ok(text) => Self::parse(&text).map_err(|error| invalid(&file, &error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(Failure::usage(format!("cannot read {}", file.display())).because(&error)),
        }
    }

    fn parse(text: &str) -> Result<Self, serde_saphyr::Error> {
        if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
            return Ok(Self::default());
        }
        serde_saphyr::from_str(text)
    }
}

/// The path of the file.
pub(crate) fn path(env: &Env) -> Option<PathBuf> {
    let base = match env.var(env::XDG_CONFIG_HOME).map(Path::new).filter(|base| base.is_absolute()) {
        Some(base) => base.to_owned(),
        None => env.home()?.join(".config"),
    };
    Some(base.join("kubectl-mc").join("config.yaml"))
}

fn invalid(file: &Path, error: &serde_saphyr::Error) -> Failure {
    let error = error.without_snippet();
    let failure = Failure::usage(format!("cannot use {}: {error}", file.display()));
    let nearest = match error {
        serde_saphyr::Error::SerdeUnknownField { field, expected, .. } => {
            suggestion::nearest(field, expected.iter().copied())
        }
        _ => None,
    };
    match nearest {
        Some(nearest) => failure.with_hint(format!("did you mean `{nearest}`?")),
        None => failure,
    }
}

/// Parses sets. A set is a map or a list of its clusters. An untagged enum would hide which key of a map is
/// invalid.
fn sets<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, ClusterSet>, D::Error> {
    struct Set(ClusterSet);
    struct Forms;

    impl<'de> Deserialize<'de> for Set {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_any(Forms).map(Self)
        }
    }

    impl<'de> Visitor<'de> for Forms {
        type Value = ClusterSet;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of clusters, or a map with clusters, selector or where")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<ClusterSet, A::Error> {
            let clusters = Vec::deserialize(SeqAccessDeserializer::new(list))?;
            Ok(ClusterSet { clusters, ..ClusterSet::default() })
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ClusterSet, A::Error> {
            ClusterSet::deserialize(MapAccessDeserializer::new(map))
        }
    }

    let sets = BTreeMap::<String, Set>::deserialize(deserializer)?;
    let sets: BTreeMap<_, _> = sets.into_iter().map(|(name, Set(set))| (name, set)).collect();
    for (name, set) in &sets {
        set.check().map_err(|reason| serde::de::Error::custom(format!("the set @{name} {reason}")))?;
    }
    Ok(sets)
}

fn duration<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| parse_flag(&text).map_err(serde::de::Error::custom)).transpose()
}

#[cfg(test)]
mod tests;
