//! The exact clusters of a verb of the plugin: as an argument or by `--cluster`.

use kubectl_mc_api::{ClusterName, InvalidClusterName};

use crate::cli::Flags;
use crate::error::Explain;
use crate::exit::ExitStatus;

/// The clusters that the argument or the flag names. Both may be given when they say the same.
fn cluster_names(argument: Option<&str>, flags: &Flags) -> Result<Vec<ClusterName>, ClusterNamesError> {
    let Flags { cluster, cluster_selector, r#where, all_clusters, exclude, retry_failed, .. } = flags;
    let by_list = cluster_selector.is_some() || !r#where.is_empty() || *all_clusters;
    if by_list || !exclude.is_empty() || *retry_failed {
        return Err(ClusterNamesError::ByName);
    }
    let by_flag = parse("--cluster", cluster.iter().map(String::as_str))?;
    let by_argument = parse("argument", argument)?;
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

/// The one cluster that the argument or the flag names.
pub(crate) fn cluster_name(argument: Option<&str>, flags: &Flags) -> Result<ClusterName, ClusterNamesError> {
    let [name] = cluster_names(argument, flags)?.try_into().map_err(|_| ClusterNamesError::OneCluster)?;
    Ok(name)
}

fn parse<'a>(
    origin: &'static str,
    lists: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<ClusterName>, ClusterNamesError> {
    let names = lists.into_iter().flat_map(|names| names.split(','));
    names.map(|name| name.parse().map_err(|source| ClusterNamesError::Invalid { origin, source })).collect()
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
    #[error("{origin}")]
    Invalid { origin: &'static str, source: InvalidClusterName },
}

impl Explain for ClusterNamesError {
    fn hint(&self) -> Option<String> {
        Some(
            "name the cluster as an argument or by -C NAME; `kubectl mc clusters` lists the clusters"
                .to_owned(),
        )
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
            (Some(""), &[], "argument"),
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
