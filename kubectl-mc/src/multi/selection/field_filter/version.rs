//! Compares Kubernetes versions by their numbers: `v1.34` matches every v1.34.x, and suffixes (`-gke.1`,
//! `+k3s1`) have no order (component-base: `version.ParseGeneric`).

use std::cmp::Ordering;

/// A version such as `v1.34`, `1.34.2` or `v1.34.2+k3s1`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Version {
    /// Two or three numbers.
    numbers: Vec<u32>,
    suffix: String,
}

impl Version {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (numbers, suffix) = text.split_at(end);
        let numbers = numbers.split('.').map(str::parse).collect::<Result<Vec<_>, _>>().ok()?;
        let is_version =
            matches!(numbers.len(), 2 | 3) && (suffix.is_empty() || suffix.starts_with(['-', '+']));
        is_version.then(|| Self { numbers, suffix: suffix.to_owned() })
    }

    pub(super) fn has_suffix(&self) -> bool {
        !self.suffix.is_empty()
    }

    /// The version without its suffix.
    pub(super) fn numbers(&self) -> String {
        let numbers: Vec<_> = self.numbers.iter().map(ToString::to_string).collect();
        format!("v{}", numbers.join("."))
    }

    /// The order compared by as many numbers as `wanted` has: v1.34.2 equals v1.34.
    pub(super) fn compare(&self, wanted: &Self) -> Ordering {
        let length = wanted.numbers.len().min(self.numbers.len());
        self.numbers[..length].cmp(&wanted.numbers[..])
    }

    /// Whether `other` matches this version: it starts with these numbers, and has the same suffix if one is
    /// given.
    pub(super) fn includes(&self, other: &Self) -> bool {
        match self.has_suffix() {
            true => self == other,
            false => other.compare(self).is_eq(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_the_written_numbers() {
        for (known, wanted, order) in [
            ("v1.34.4", "v1.34.4", Ordering::Equal),
            ("v1.34.4", "1.34", Ordering::Equal),
            ("v1.34.4", "v1.34.10", Ordering::Less),
            ("v1.9.0", "v1.34", Ordering::Less),
            ("v1.35.0-rc.1", "v1.35.0", Ordering::Equal),
            ("v1.34.4+k3s1", "v1.34.3", Ordering::Greater),
            ("v2.0.0", "v1.34", Ordering::Greater),
            // The cluster's version is less precise than the requested one.
            ("v1.34", "v1.34.1", Ordering::Less),
        ] {
            let (known, wanted) = (Version::parse(known).unwrap(), Version::parse(wanted).unwrap());
            assert_eq!(known.compare(&wanted), order, "{known:?} {wanted:?}");
        }
    }

    #[test]
    fn suffix_is_compared_only_where_it_is_written() {
        let includes = |wanted: &str, known: &str| {
            Version::parse(wanted).unwrap().includes(&Version::parse(known).unwrap())
        };
        assert!(includes("v1.34.4", "v1.34.4+k3s1"));
        assert!(includes("1.34.4+k3s1", "v1.34.4+k3s1"));
        assert!(!includes("v1.34.4+k3s1", "v1.34.4+k3s2"));
        assert!(!includes("v1.34.4+k3s1", "v1.34.4"));
        assert!(!includes("v1.34", "v1.3.4"));
    }

    #[test]
    fn other_text_is_not_a_version() {
        for text in ["", "v", "1", "v1", "1.", "1.2.3.4", "1.34x", "x1.34", "1..2", "*", "99999999999.1"] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
    }
}
