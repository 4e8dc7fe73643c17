//! Suggests the known name that is nearest to a mistyped one.

/// The known name that is most like `given`, if any is like it at all.
pub(crate) fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = |name: &str| match strsim::osa_distance(given, name) {
        // Jaro-Winkler finds no swapped letters in short words.
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

/// One letter is missing, added, another, or in the place of its neighbor.
const ONE_EDIT: f64 = 0.81;

/// clap's own bound for its suggestions.
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
