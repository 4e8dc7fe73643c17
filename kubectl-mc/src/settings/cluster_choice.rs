//! Resolves the clusters of a plugin verb that accepts the whole choice: names and patterns, in an
//! argument or in `--cluster`, or a label selector that the host stores.

use crate::cli::Flags;
use crate::error::{Context, Failure, Hint, list_clusters};
use crate::multi::selection::{Choice, FieldFilter};

/// The chosen clusters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ClusterChoice {
    /// Resolved immediately: names, patterns, sets and filters, with exclusions.
    Now(Choice),
    /// All clusters that match a label selector, including future ones; without a selector, all clusters.
    Selector(Option<String>),
}

/// The choice of the argument and the flags; `None` if there is none.
pub(crate) fn cluster_choice(
    argument: Option<&str>,
    flags: &Flags,
) -> Result<Option<ClusterChoice>, Failure> {
    let Flags { cluster, cluster_selector, r#where, all_clusters, exclude, retry_failed, .. } = flags;
    if *retry_failed {
        return Err(takes_no_retry());
    }
    let terms = match argument {
        Some(argument) if !cluster.is_empty() && cluster.join(",") != argument => {
            let flag = cluster.join(",");
            return Err(choose(format!(
                "the argument {argument} and --cluster={flag} name different clusters"
            )));
        }
        Some(argument) => vec![argument.to_owned()],
        None => cluster.clone(),
    };
    let kept = match (cluster_selector, all_clusters) {
        (Some(_), true) => return Err(contradict("--cluster-selector", "--all-clusters")),
        (Some(_), false) => Some("--cluster-selector"),
        (None, true) => Some("--all-clusters"),
        (None, false) => None,
    };
    let Some(flag) = kept else {
        let choice = Choice::parse(&terms, exclude, None, false);
        let choice = choice.map_err(|failure| match argument {
            Some(_) => failure,
            None => failure.within("--cluster"),
        })?;
        let filter = FieldFilter::parse(r#where).context(|| "--where")?;
        // An exclusion alone would select all other clusters.
        return match terms.is_empty() && filter.is_empty() {
            true if !exclude.is_empty() => {
                Err(Failure::usage("--exclude needs names or patterns of clusters to exclude from")
                    .with_hint("for example: -C '*' --exclude=NAME"))
            }
            true => Ok(None),
            false => Ok(Choice::filtered(choice, filter).map(ClusterChoice::Now)),
        };
    };
    if !terms.is_empty() {
        return Err(contradict(flag, "names of clusters"));
    }
    if !exclude.is_empty() {
        let failure =
            Failure::usage(format!("--exclude cannot be combined with {flag} in a maintained grant"));
        return Err(failure.with_hint(
            "exclude by a label: --cluster-selector='NAME!=VALUE'; or choose by patterns: -C '*' --exclude=NAME",
        ));
    }
    if !r#where.is_empty() {
        return Err(Failure::usage(format!(
            "--where cannot be combined with {flag} in a maintained grant, which selects by labels only"
        ))
        .with_hint(
            "--where alone grants on the clusters that match now: --where='metadata.labels.NAME=VALUE,ready=True'",
        ));
    }
    Ok(Some(ClusterChoice::Selector(cluster_selector.clone())))
}

/// The failure of a command that needs clusters but got none.
pub(crate) fn no_cluster() -> Failure {
    choose("no cluster named")
}

/// The failure of a command that cannot be used with a retry.
pub(crate) fn takes_no_retry() -> Failure {
    choose("the command takes no --retry-failed")
}

fn contradict(one: &str, other: &str) -> Failure {
    choose(format!("{one} and {other} contradict each other"))
}

fn choose(text: impl Into<String>) -> Failure {
    let ways = "choose clusters by an argument, by -C NAMES, by --cluster-selector=LABELS, by --where=FIELDS or by --all-clusters";
    Failure::usage(text).with_hint(Hint::from(ways).and(list_clusters()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::ExitStatus;

    fn flags(clusters: &[&str]) -> Flags {
        Flags { cluster: clusters.iter().map(|&name| name.to_owned()).collect(), ..Flags::default() }
    }

    #[test]
    fn names_and_patterns_become_an_immediate_choice() {
        let now =
            |text: &str| Some(ClusterChoice::Now(Choice::parse(&[text], &[], None, false).unwrap().unwrap()));
        assert_eq!(cluster_choice(Some("m1"), &flags(&[])).unwrap(), now("m1"));
        assert_eq!(cluster_choice(Some("m1,m2"), &flags(&["m1", "m2"])).unwrap(), now("m1,m2"));
        assert_eq!(cluster_choice(None, &flags(&["eu-*,!eu-9"])).unwrap(), now("eu-*,!eu-9"));
        assert_eq!(cluster_choice(None, &flags(&[])).unwrap(), None);
        assert!(cluster_choice(Some("m1"), &flags(&["m2"])).is_err());
        assert!(cluster_choice(Some(""), &flags(&[])).is_err());
    }

    #[test]
    fn labels_and_all_clusters_become_a_selector() {
        let kept = |selector: Option<&str>, all_clusters| {
            let flags =
                Flags { cluster_selector: selector.map(str::to_owned), all_clusters, ..Flags::default() };
            cluster_choice(None, &flags).unwrap()
        };
        assert_eq!(kept(Some("env=prod"), false), Some(ClusterChoice::Selector(Some("env=prod".to_owned()))));
        assert_eq!(kept(None, true), Some(ClusterChoice::Selector(None)));
    }

    #[test]
    fn filter_becomes_an_immediate_choice() {
        let flags = |clusters: &[&str]| Flags { r#where: vec!["ready=True".to_owned()], ..flags(clusters) };
        let now = |choice| {
            let filter = FieldFilter::parse(&["ready=True"]).unwrap();
            Some(ClusterChoice::Now(Choice::filtered(choice, filter).unwrap()))
        };
        assert_eq!(cluster_choice(None, &flags(&[])).unwrap(), now(None));
        let m1 = Choice::parse(&["m1"], &[], None, false).unwrap();
        assert_eq!(cluster_choice(Some("m1"), &flags(&[])).unwrap(), now(m1.clone()));
        assert_eq!(cluster_choice(None, &flags(&["m1"])).unwrap(), now(m1));
    }

    #[test]
    fn contradictions_are_refused() {
        let (exclude, filter) = (vec!["m2".to_owned()], vec!["ready=True".to_owned()]);
        for (flags, said) in [
            (Flags { all_clusters: true, ..flags(&["m1"]) }, "contradict"),
            (Flags { all_clusters: true, exclude: exclude.clone(), ..Flags::default() }, "--exclude"),
            (Flags { exclude, ..Flags::default() }, "--exclude needs"),
            (Flags { r#where: filter.clone(), all_clusters: true, ..Flags::default() }, "--where cannot"),
            (Flags { r#where: vec!["x=1".to_owned()], ..flags(&["m1"]) }, "--where"),
            (Flags { retry_failed: true, ..Flags::default() }, "--retry-failed"),
            (
                Flags { all_clusters: true, cluster_selector: Some("a=b".to_owned()), ..Flags::default() },
                "contradict",
            ),
        ] {
            let error = cluster_choice(None, &flags).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
            assert_eq!(error.status, ExitStatus::Usage);
        }
    }
}
