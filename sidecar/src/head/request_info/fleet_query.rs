//! The query of a request to the fleet view: the values of field selectors that name a member, and resource versions.

use std::borrow::Cow;

use kubectl_mc_api::ClusterName;
use kubectl_mc_api::fleet::names;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::fleet::error::Error;
use crate::head::field_selector::{escape, split_terms, unescape};
use crate::head::query;

/// The parsed query of a request to the fleet view.
pub(super) struct Query<'a> {
    raw: &'a str,
    terms: Vec<Term<'a>>,
}

/// A term of the field selector.
struct Term<'a> {
    field: Cow<'a, str>,
    operator: &'static str,
    value: String,
    /// The value on the member and the member, if the value has a suffix.
    of: Option<(String, ClusterName)>,
}

impl<'a> Query<'a> {
    pub(super) fn parse(raw: Option<&'a str>) -> Result<Self, Error> {
        let selector = query::Query::new(raw).first("fieldSelector").unwrap_or_default();
        let invalid = || Error::Selector(format!("{selector:?}"), "is invalid");
        let mut terms = Vec::new();
        for term in split_terms(&selector).filter(|term| !term.is_empty()) {
            let at = term.find(['=', '!']).ok_or_else(invalid)?;
            let (field, rest) = term.split_at(at);
            let operator = ["!=", "==", "="].into_iter().find(|operator| rest.starts_with(operator));
            let operator = operator.ok_or_else(invalid)?;
            let value = unescape(&rest[operator.len()..]).map_err(|_| invalid())?;
            let of = names::split(&value).filter(|_| FIELDS.contains(&field));
            let of = of.map(|(name, of)| (name.to_owned(), of));
            terms.push(Term { field: Cow::Owned(field.to_owned()), operator, value, of });
        }
        Ok(Self { raw: raw.unwrap_or_default(), terms })
    }

    pub(super) fn is_watch(&self) -> bool {
        query::Query::new(Some(self.raw)).is_set("watch")
    }

    /// The members that the values of the field selector name. Where `has_plain_names`, an object's name may have `_`.
    pub(super) fn members(&mut self, has_plain_names: bool) -> Result<Vec<ClusterName>, Error> {
        let is_plain_kind = self.terms.iter().any(|term| {
            term.field == "involvedObject.kind" && matches!(term.value.as_str(), "Role" | "RoleBinding")
        });
        for term in &mut self.terms {
            let is_plain = (has_plain_names && term.field == "metadata.name")
                || (is_plain_kind && term.field == "involvedObject.name");
            if is_plain {
                term.of = None;
            }
        }
        let equal = self.terms.iter().filter(|term| term.operator != "!=");
        Ok(equal.filter_map(|term| Some(term.of.as_ref()?.1.clone())).collect())
    }

    /// A merged read cannot exclude what exists on one member only.
    pub(super) fn has_no_qualified_exclusion(&self) -> Result<(), Error> {
        match self.terms.iter().find(|term| term.operator == "!=" && term.of.is_some()) {
            Some(term) => Err(Error::Selector(
                format!("{}!={}", term.field, term.value),
                "excludes a name of one member, which the fleet view cannot do",
            )),
            None => Ok(()),
        }
    }

    /// The query for a member.
    pub(super) fn of_member(&self, member: &ClusterName) -> Result<String, Error> {
        let has_suffix = self.terms.iter().any(|term| term.of.is_some());
        let mut pairs = Vec::new();
        for pair in self.raw.split('&').filter(|pair| !pair.is_empty()) {
            let (key, _) = pair.split_once('=').unwrap_or((pair, ""));
            let value = || query::Query::new(Some(pair)).first(key).unwrap_or_default().into_owned();
            match key {
                "fieldSelector" if has_suffix => {
                    pairs.push(Cow::Owned(format!("fieldSelector={}", escape_query(&self.selector(member)))));
                }
                "resourceVersion" => {
                    let value = value();
                    let version = names::version_on(&value, member)
                        .filter(|version| version.bytes().all(|byte| byte.is_ascii_digit()))
                        .ok_or_else(|| Error::ForeignVersion(value.clone(), member.clone()))?;
                    pairs.push(Cow::Owned(format!("resourceVersion={version}")));
                }
                // A row is renamed by its object.
                "includeObject" if value() == "None" => pairs.push(Cow::Borrowed("includeObject=Metadata")),
                _ => pairs.push(Cow::Borrowed(pair)),
            }
        }
        Ok(pairs.join("&"))
    }

    fn selector(&self, member: &ClusterName) -> String {
        let terms = self.terms.iter().map(|term| {
            let value = match &term.of {
                Some((name, of)) if of == member => name,
                _ => &term.value,
            };
            format!("{}{}{}", term.field, term.operator, escape(value))
        });
        terms.collect::<Vec<_>>().join(",")
    }
}

/// Escapes a value of a query.
pub fn escape_query(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

/// Escapes a segment of a path.
pub(super) fn escape_segment(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED_SEGMENT).to_string()
}

/// The fields whose values can name a member.
const FIELDS: [&str; 6] = [
    "metadata.name",
    "metadata.namespace",
    "spec.nodeName",
    "involvedObject.name",
    "involvedObject.namespace",
    "involvedObject.uid",
];
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// Names of RBAC contain colons.
const ESCAPED_SEGMENT: &AsciiSet = &ESCAPED.remove(b':');
