//! Resolves the exact cluster names of a plugin verb: in an argument or in `--cluster`.

use kubectl_mc_api::{ClusterName, InvalidClusterName};

use crate::cli::Flags;
use crate::error::{Explain, Hint, list_clusters, mc};
use crate::exit::ExitStatus;

/// The clusters in the argument or the flag. Both are allowed if they agree.
fn cluster_names(argument: Option<&str>, flags: &Flags) -> Result<Vec<ClusterName>, ClusterNamesError> {
    let Flags { cluster, cluster_selector, r#where, all_clusters, exclude, retry_failed, .. } = flags;
    let by_list = cluster_selector.is_some() || !r#where.is_empty() || *all_clusters;
    if by_list || !exclude.is_empty() || *retry_failed {
        return Err(ClusterNamesError::ByName);
    }
    let by_flag = names(cluster.iter().map(String::as_str)).collect::<Result<Vec<_>, _>>();
    let by_flag = by_flag.map_err(ClusterNamesError::Flag)?;
    let by_argument = names(argument).collect::<Result<Vec<_>, _>>().map_err(ClusterNamesError::Argument)?;
    match (by_argument.is_empty(), by_flag.is_empty()) {
        (true, true) => Err(ClusterNamesError::NoCluster),
        (false, false) if by_argument != by_flag => {
            let text =
                |names: &[ClusterName]| names.iter().map(ClusterName::as_str).collect::<Vec<_>>().join(",");
            Err(ClusterNamesError::Different { argument: text(&by_argument), flag: text(&by_flag) })
        }
        (true, false) => Ok(by_flag),
        (false, _) => Ok(by_argument),
    }
}

/// The single cluster in the argument or the flag.
pub(crate) fn cluster_name(argument: Option<&str>, flags: &Flags) -> Result<ClusterName, ClusterNamesError> {
    let [name] = cluster_names(argument, flags)?.try_into().map_err(|_| ClusterNamesError::OneCluster)?;
    Ok(name)
}

/// The name of a cluster to create.
pub(crate) fn new_cluster_name(
    argument: Option<&str>,
    flags: &Flags,
) -> Result<ClusterName, ClusterNamesError> {
    cluster_name(argument, flags).map_err(|error| ClusterNamesError::New(Box::new(error)))
}

fn names<'a>(
    lists: impl IntoIterator<Item = &'a str>,
) -> impl Iterator<Item = Result<ClusterName, InvalidClusterName>> {
    lists.into_iter().flat_map(|names| names.split(',')).map(str::parse)
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ClusterNamesError {
    #[error("no cluster named")]
    NoCluster,
    #[error("the command takes exactly one cluster")]
    OneCluster,
    #[error("the command takes exact cluster names, and no other choice of clusters")]
    ByName,
    #[error("the argument {argument} and --cluster={flag} name different clusters")]
    Different { argument: String, flag: String },
    #[error("--cluster")]
    Flag(#[source] InvalidClusterName),
    #[error(transparent)]
    Argument(InvalidClusterName),
    #[error(transparent)]
    New(Box<Self>),
}

impl Explain for ClusterNamesError {
    fn hint(&self) -> Option<Hint> {
        if let Self::New(_) = self {
            return Some(mc("join m1 --member-context=NAME").after("for example"));
        }
        Some(Hint::from("name the cluster as an argument or by -C NAME").and(list_clusters()))
    }

    fn status(&self) -> ExitStatus {
        ExitStatus::Usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_and_flag_name_the_same_clusters() {
        for (argument, flags, expected) in [
            (Some("m1"), &[][..], "m1"),
            (None, &["m1"], "m1"),
            (Some("m1"), &["m1"], "m1"),
            (Some("m1,m2"), &["m1", "m2"], "m1 m2"),
            (Some("m1"), &["m2"], "the argument m1 and --cluster=m2 name different clusters"),
            (Some("m1"), &["m1,m2"], "the argument m1 and --cluster=m1,m2 name different clusters"),
            (None, &[], "no cluster named"),
            (None, &["m*"], "--cluster"),
            (Some(""), &[], "invalid cluster name \"\": it is empty"),
        ] {
            let flags =
                Flags { cluster: flags.iter().map(|&name| name.to_owned()).collect(), ..Flags::default() };
            let said = match cluster_names(argument, &flags) {
                Ok(names) => names.iter().map(ClusterName::as_str).collect::<Vec<_>>().join(" "),
                Err(error) => error.to_string(),
            };
            assert_eq!(said, expected, "{argument:?} {flags:?}");
        }
        assert!(cluster_name(Some("m1,m2"), &Flags::default()).is_err());
        for flags in [
            Flags { exclude: vec!["m2".to_owned()], ..Flags::default() },
            Flags { all_clusters: true, ..Flags::default() },
            Flags { r#where: vec!["ready=True".to_owned()], ..Flags::default() },
        ] {
            let error = cluster_names(Some("m1"), &flags).unwrap_err();
            assert!(matches!(error, ClusterNamesError::ByName), "{error}");
        }
    }
}
