//! Filters clusters by typed text: fuzzily by name, else by a substring of the labels.

use std::cmp::Reverse;

use nucleo_matcher::pattern::{Atom, AtomKind, CaseMatching, Normalization};
use nucleo_matcher::{Config, Matcher, Utf32Str};

use super::super::selected_clusters::SelectedCluster;

/// The positions of the matching clusters, the best match first; all clusters for an empty text.
pub(super) fn filter(all: &[SelectedCluster], text: &str) -> Vec<usize> {
    if text.is_empty() {
        return (0..all.len()).collect();
    }
    // Names are lower case.
    let name = text.to_ascii_lowercase();
    let atom = Atom::new(&name, CaseMatching::Respect, Normalization::Never, AtomKind::Fuzzy, false);
    let mut config = Config::DEFAULT;
    config.prefer_prefix = true;
    let mut matcher = Matcher::new(config);
    let mut buffer = Vec::new();
    let mut score = |cluster: &SelectedCluster| {
        let name = Utf32Str::new(cluster.name.as_str(), &mut buffer);
        let score = atom.score(name, &mut matcher);
        // Labels must contain the text, because a fuzzy match of labels would surprise.
        score.or_else(|| labels(cluster).contains(text).then_some(0))
    };
    let mut found: Vec<_> =
        all.iter().enumerate().filter_map(|(at, cluster)| Some((score(cluster)?, at))).collect();
    // Equal scores keep the order of the list.
    found.sort_by_key(|(score, _)| Reverse(*score));
    found.into_iter().map(|(_, at)| at).collect()
}

/// Unescaped labels such as `env=prod,tier=one`.
pub(super) fn labels(cluster: &SelectedCluster) -> String {
    let labels = cluster.listed.iter().flat_map(|listed| &listed.labels);
    labels.map(|(key, value)| format!("{}={}", key.raw(), value.raw())).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_match_fuzzily_and_labels_by_substring() {
        let list = json!({"items": [
            {"metadata": {"name": "eu-prod-1", "labels": {"tier": "one"}}},
            {"metadata": {"name": "eu-test-1", "labels": {"tier": "two"}}},
            {"metadata": {"name": "prod-eu"}}]});
        let all = SelectedCluster::of_list(&list);
        let found = |text: &str| {
            let names = filter(&all, text).into_iter().map(|at| all[at].name.as_str());
            names.collect::<Vec<_>>().join(" ")
        };
        for (text, expected) in [
            ("", "eu-prod-1 eu-test-1 prod-eu"),
            ("eu1", "eu-prod-1 eu-test-1"),
            ("EUP", "eu-prod-1"),
            ("prod", "prod-eu eu-prod-1"),
            ("tier=two", "eu-test-1"),
            ("tirtwo", ""),
            ("x", ""),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }
}
