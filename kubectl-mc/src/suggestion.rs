//! Suggests the known name that is most similar to a mistyped one.

/// The known name that is most similar to `given`, if any is similar enough.
pub(crate) fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = |name: &str| match strsim::osa_distance(given, name) {
        // Jaro-Winkler does not detect swapped letters in short words.
        1 if given.chars().count() > 2 => strsim::jaro_winkler(given, name).max(ONE_EDIT),
        _ => strsim::jaro_winkler(given, name),
    };
    known
        .into_iter()
        .map(|name| (likeness(name), name))
        .filter(|(likeness, _)| *likeness > LIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// The score of one missing, additional, different or swapped letter.
const ONE_EDIT: f64 = 0.81;

/// clap's own threshold for suggestions.
const LIKE: f64 = 0.8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_similar_names_are_suggested() {
        assert_eq!(nearest("eu-pord-1", ["eu-prod-1", "us-prod-1", "m1"]), Some("eu-prod-1"));
        assert_eq!(nearest("gte", ["set", "get"]), Some("get"));
        assert_eq!(nearest("x", ["eu-prod-1", "m1"]), None);
    }
}
