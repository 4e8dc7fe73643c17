//! Negotiates the format of an answer (apiserver: `endpoints/handlers/negotiation`).

use http::HeaderMap;
use http::header::ACCEPT;

use super::error::Error;

/// The format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// The object itself.
    Object,
    /// `PartialObjectMetadata`
    Metadata,
    /// `PartialObjectMetadataList`
    MetadataList,
    Table,
}

/// One alternative of an `Accept` header.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Clause<'a> {
    kind: &'a str,
    subtype: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    /// In thousandths.
    quality: u16,
}

/// The client's most preferred shape that `served` contains.
pub(super) fn negotiate(headers: &HeaderMap, served: &[Shape]) -> Result<Shape, Error> {
    let accepted =
        clauses(headers).iter().find_map(|clause| Shape::of(clause).filter(|shape| served.contains(shape)));
    accepted.ok_or_else(|| Error::NotAcceptable("application/json".to_owned()))
}

/// The alternatives of a request, most preferred first. Without an `Accept` header everything is accepted.
pub(crate) fn clauses(headers: &HeaderMap) -> Vec<Clause<'_>> {
    let lines = headers.get_all(ACCEPT).iter().filter_map(|line| line.to_str().ok());
    let mut clauses: Vec<_> = lines.flat_map(|line| line.split(',')).filter_map(Clause::parse).collect();
    if headers.get_all(ACCEPT).iter().all(|line| line.is_empty()) {
        clauses.push(Clause { kind: "*", subtype: "*", parameters: Vec::new(), quality: 1000 });
    }
    clauses.retain(|clause| clause.quality > 0);
    // The sort is stable, so equal alternatives keep the client's order.
    clauses.sort_by_key(|clause| (u16::MAX - clause.quality, clause.kind == "*", clause.subtype == "*"));
    clauses
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let (kind, subtype) = parts.next()?.split_once('/')?;
        let mut parameters: Vec<_> = parts.filter_map(|part| part.split_once('=')).collect();
        for (key, value) in &mut parameters {
            (*key, *value) = (key.trim(), value.trim().trim_matches('"'));
        }
        let quality = parameters
            .iter()
            .find(|(key, _)| *key == "q")
            .map_or(Some(1.0), |(_, q)| q.parse::<f32>().ok())?;
        let quality = (quality.clamp(0.0, 1.0) * 1000.0) as u16;
        Some(Self { kind, subtype, parameters, quality })
    }

    /// Whether this alternative matches a media type, ignoring its parameters.
    pub(crate) fn takes(&self, kind: &str, subtype: &str) -> bool {
        match (self.kind, self.subtype) {
            ("*", "*") => true,
            (own, "*") => own.eq_ignore_ascii_case(kind),
            (own, own_subtype) => own.eq_ignore_ascii_case(kind) && own_subtype.eq_ignore_ascii_case(subtype),
        }
    }

    /// The kind, group and version that the answer must be converted to, if any.
    pub(crate) fn conversion(&self) -> Option<(&'a str, &'a str, &'a str)> {
        let parameter = |name| self.parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        let (kind, group, version) = (parameter("as"), parameter("g"), parameter("v"));
        let any = kind.or(group).or(version).is_some();
        any.then(|| (kind.unwrap_or_default(), group.unwrap_or_default(), version.unwrap_or_default()))
    }

    fn allows_plain_encoding(&self) -> bool {
        self.parameters.iter().all(|(key, value)| match *key {
            "stream" => matches!(*value, "" | "watch"),
            "sv" => value.is_empty(),
            _ => true,
        })
    }
}

impl Shape {
    fn of(clause: &Clause<'_>) -> Option<Self> {
        if !clause.takes("application", "json") || !clause.allows_plain_encoding() {
            return None;
        }
        match clause.conversion() {
            None => Some(Self::Object),
            Some(("Table", "meta.k8s.io", "v1")) => Some(Self::Table),
            Some(("PartialObjectMetadata", "meta.k8s.io", "v1")) => Some(Self::Metadata),
            Some(("PartialObjectMetadataList", "meta.k8s.io", "v1")) => Some(Self::MetadataList),
            Some(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &[Shape] = &[Shape::Object, Shape::Table, Shape::MetadataList];
    const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
    const OLD_TABLE: &str = "application/json;as=Table;v=v1beta1;g=meta.k8s.io";
    const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";

    fn shape(accept: &str) -> Result<Shape, Error> {
        negotiate(&HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())]), LIST)
    }

    #[test]
    fn first_served_alternative_is_chosen() {
        for (accept, expected) in [
            (String::new(), Shape::Object),
            ("*/*".to_owned(), Shape::Object),
            ("application/*".to_owned(), Shape::Object),
            ("application/json".to_owned(), Shape::Object),
            ("application/json;stream=watch".to_owned(), Shape::Object),
            (format!("{TABLE},{OLD_TABLE},application/json"), Shape::Table),
            (format!("{OLD_TABLE},application/json"), Shape::Object),
            (format!("{METADATA}, {TABLE}"), Shape::Table),
            ("application/vnd.kubernetes.protobuf,application/json".to_owned(), Shape::Object),
            (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1".to_owned(),
                Shape::MetadataList,
            ),
            (format!("*/*, {TABLE}"), Shape::Table),
            (format!("{TABLE};q=0.5, application/json;q=0.9"), Shape::Object),
            (format!("{TABLE};q=0, application/json"), Shape::Object),
        ] {
            assert_eq!(shape(&accept), Ok(expected), "{accept}");
        }
        assert_eq!(negotiate(&HeaderMap::new(), LIST), Ok(Shape::Object));
    }

    #[test]
    fn unserved_types_are_not_acceptable() {
        for accept in [
            "application/vnd.kubernetes.protobuf",
            OLD_TABLE,
            METADATA,
            "text/html",
            "application/json;sv=v1",
        ] {
            let expected = Error::NotAcceptable("application/json".to_owned());
            assert_eq!(shape(accept), Err(expected), "{accept}");
        }
    }
}
