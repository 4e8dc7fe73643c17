//! Parses field selectors. A cluster can be selected by `metadata.name` only (apimachinery:
//! `fields/selector.go`).

use kubectl_mc_api::ClusterName;

use crate::head::query::Query;

/// Requirements on a cluster's name. All of them must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector(Vec<Term>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    name: String,
    equal: bool,
}

impl FieldSelector {
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut terms = Vec::new();
        for term in split_terms(text).filter(|term| !term.is_empty()) {
            let at = term
                .find(['=', '!'])
                .filter(|at| !term[*at..].starts_with('!') || term[*at..].starts_with("!="));
            let Some(at) = at else {
                return Err(format!("invalid selector: '{text}'; can't understand '{term}'"));
            };
            let (field, rest) = term.split_at(at);
            let equal = !rest.starts_with('!');
            let value = ["!=", "==", "="]
                .into_iter()
                .find_map(|operator| rest.strip_prefix(operator))
                .unwrap_or_default();
            if field != "metadata.name" {
                return Err(format!("{field:?} is not a known field selector: only \"metadata.name\""));
            }
            terms.push(Term { name: unescape(value)?, equal });
        }
        Ok(Self(terms))
    }

    /// The only name that can match, if the selector determines it.
    pub fn exact_name(&self) -> Option<&str> {
        self.0.iter().find(|term| term.equal).map(|term| term.name.as_str())
    }

    pub fn matches(&self, name: &str) -> bool {
        self.0.iter().all(|term| (term.name == name) == term.equal)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The cluster that a list or a watch selects by its field selector, if it selects exactly one (apiserver:
/// `RequestInfo.Name` of `metadata.name`).
pub fn selected(query: Option<&str>) -> Option<ClusterName> {
    let selector = Query::new(query).first("fieldSelector")?;
    FieldSelector::parse(&selector).ok()?.exact_name()?.parse().ok()
}

/// The object that a list or a watch of any type selects by its field selector, if it selects exactly one
/// (apiserver: `requestinfo.go`). Other fields are for the member to interpret.
pub fn named(query: Option<&str>) -> Option<String> {
    let selector = Query::new(query).first("fieldSelector")?;
    let name = split_terms(&selector).find_map(|term| {
        let value = term.strip_prefix("metadata.name=")?;
        unescape(value.strip_prefix('=').unwrap_or(value)).ok()
    })?;
    let is_segment = !matches!(name.as_str(), "" | "." | "..") && !name.contains(['/', '%']);
    is_segment.then_some(name)
}

/// Splits at commas without a backslash before them.
pub(crate) fn split_terms(text: &str) -> impl Iterator<Item = &str> {
    let mut escaped = false;
    text.split(move |character| {
        let separates = character == ',' && !escaped;
        escaped = character == '\\' && !escaped;
        separates
    })
}

/// The value of a term.
pub(crate) fn unescape(value: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => plain.push(escaped),
                _ => return Err(format!("invalid field selector: invalid escape sequence in '{value}'")),
            },
            ',' | '=' => {
                return Err(format!("invalid field selector: unescaped character in value: {character}"));
            }
            _ => plain.push(character),
        }
    }
    Ok(plain)
}

/// A value as part of a selector.
pub(crate) fn escape(value: &str) -> String {
    value.replace('\\', r"\\").replace(',', r"\,").replace('=', r"\=")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_selected_and_excluded() {
        for (selector, matching) in [
            ("", ["m1", "m2"].as_slice()),
            ("metadata.name=m1", &["m1"]),
            ("metadata.name==m1", &["m1"]),
            ("metadata.name!=m1", &["m2"]),
            ("metadata.name!=m1,metadata.name!=m2", &[]),
            ("metadata.name=m1,", &["m1"]),
            ("metadata.name=", &[]),
            (r"metadata.name=m\,1", &[]),
        ] {
            let parsed = FieldSelector::parse(selector).unwrap();
            let found: Vec<_> = ["m1", "m2"].into_iter().filter(|name| parsed.matches(name)).collect();
            assert_eq!(found, matching, "{selector}");
        }
    }

    #[test]
    fn unknown_fields_and_invalid_syntax_are_refused() {
        for (selector, reason) in [
            ("status.version=v1.36.3", "\"status.version\" is not a known field selector"),
            ("metadata.name", "can't understand 'metadata.name'"),
            ("metadata.name!m1", "can't understand"),
            ("metadata.name=a=b", "unescaped"),
            (r"metadata.name=a\", "escape"),
            (r"metadata.name=\n", "escape"),
        ] {
            let error = FieldSelector::parse(selector).unwrap_err();
            assert!(error.contains(reason), "{selector}: {error}");
        }
    }
}
