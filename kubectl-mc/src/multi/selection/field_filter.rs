//! Implements `--where`: filters clusters by fields of their objects, in the syntax of kubectl's field
//! selectors (`metadata.name=`, `status.version!=`), with `<`, `<=`, `>` and `>=` for versions.
//!
//! A mistake never selects more than intended: unknown fields, unknown conditions and empty requirements are
//! refused.

mod version;

use std::cmp::Ordering;

use kubectl_mc_api::ClusterName;
use version::Version;

use super::selected_clusters::{Listed, SelectedCluster};
use crate::error::Failure;
use crate::suggestion;

/// Requirements that a cluster must all meet.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FieldFilter(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq)]
enum Requirement {
    Name { is: bool, name: ClusterName },
    Label { is: bool, key: String, value: String },
    Server { is: bool, server: String },
    Condition { is: bool, kind: &'static str, status: &'static str },
    Version { operator: Operator, version: Version },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl FieldFilter {
    /// Parses filters, each with requirements separated by commas; all requirements of all filters apply.
    pub(crate) fn parse<S: AsRef<str>>(filters: &[S]) -> Result<Self, Failure> {
        let requirements = filters.iter().flat_map(|filter| filter.as_ref().split(','));
        requirements.map(|text| Requirement::parse(text.trim())).collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the cluster in the host's list meets all requirements.
    pub(crate) fn matches(&self, cluster: &SelectedCluster) -> bool {
        let unlisted = Listed::default();
        let listed = cluster.listed.as_ref().unwrap_or(&unlisted);
        self.0.iter().all(|requirement| requirement.matches(cluster.name.member(), listed))
    }

    /// The requirements of both filters.
    pub(super) fn and(&self, other: &Self) -> Self {
        Self(self.0.iter().chain(&other.0).cloned().collect())
    }
}

impl Requirement {
    fn parse(text: &str) -> Result<Self, Failure> {
        if text.is_empty() {
            return Err(Failure::usage("empty requirement").with_hint(EXAMPLE));
        }
        let at = text.find(['=', '!', '<', '>']).unwrap_or(text.len());
        let (field, rest) = text.split_at(at);
        let field = field.trim();
        let operator =
            OPERATORS.iter().find_map(|(word, operator)| Some((rest.strip_prefix(word)?, *operator)));
        let Some((value, operator)) = operator else {
            let failure = Failure::usage(format!("{text:?} has no comparison operator"));
            return Err(failure.with_hint(EXAMPLE));
        };
        let value = value.trim();
        let invalid = |reason: String| {
            Failure::usage(format!("invalid value {value:?} of {field}: {reason}")).with_hint(EXAMPLE)
        };
        if value.contains(['=', '<', '>', '!', '\\']) {
            return Err(invalid("one comparison for each comma".to_owned()));
        }
        if let "status.version" | "version" = field {
            let version =
                Version::parse(value).ok_or_else(|| invalid("expected v1.34 or v1.34.2".to_owned()))?;
            if operator.orders() && version.has_suffix() {
                return Err(invalid(format!("a suffix compares with = and != only: {}", version.numbers())));
            }
            return Ok(Self::Version { operator, version });
        }
        let kind = match field {
            "ready" => Some("Ready"),
            _ => field.strip_prefix("status.conditions."),
        };
        let known = match field {
            "metadata.name" | "name" | "status.server" => true,
            _ => kind.is_some() || field.starts_with("metadata.labels."),
        };
        if !known {
            return Err(unknown_field(field));
        }
        let is = match operator {
            Operator::Equal => true,
            Operator::NotEqual => false,
            _ => return Err(Failure::usage(format!("{field} takes = and != only")).with_hint(EXAMPLE)),
        };
        if let Some(kind) = kind {
            let Some(kind) = CONDITIONS.iter().find(|known| **known == kind) else {
                let known = format!("the conditions are {}", CONDITIONS.join(", "));
                let failure = Failure::usage(format!("unknown condition {kind:?}"));
                return Err(failure.with_hint(near(kind, CONDITIONS, &known)));
            };
            let status = STATUSES.iter().find(|status| status.eq_ignore_ascii_case(value));
            let status = status.ok_or_else(|| invalid(format!("expected {}", STATUSES.join(", "))))?;
            return Ok(Self::Condition { is, kind, status });
        }
        if let Some(key) = field.strip_prefix("metadata.labels.") {
            if key.is_empty() {
                return Err(unknown_field(field));
            }
            return Ok(Self::Label { is, key: key.to_owned(), value: value.to_owned() });
        }
        if field == "status.server" {
            return Ok(Self::Server { is, server: value.to_owned() });
        }
        let name = value.parse().map_err(|error| invalid(format!("{error}")))?;
        Ok(Self::Name { is, name })
    }

    fn matches(&self, name: Option<&ClusterName>, listed: &Listed) -> bool {
        match self {
            Self::Name { is, name: wanted } => (name == Some(wanted)) == *is,
            Self::Label { is, key, value } => {
                let label = listed.labels.iter().find(|(known, _)| known.raw() == key);
                label.is_some_and(|(_, label)| label.raw() == value) == *is
            }
            Self::Server { is, server } => {
                listed.server.as_ref().is_some_and(|known| known.raw() == server) == *is
            }
            Self::Condition { is, kind, status } => {
                let known = listed.conditions.get(*kind).map_or("Unknown", |status| status.raw());
                (known == *status) == *is
            }
            Self::Version { operator, version } => {
                let known = listed.version.as_ref().and_then(|version| Version::parse(version.raw()));
                match operator {
                    Operator::Equal => known.is_some_and(|known| version.includes(&known)),
                    Operator::NotEqual => !known.is_some_and(|known| version.includes(&known)),
                    _ => known.is_some_and(|known| operator.allows(known.compare(version))),
                }
            }
        }
    }
}

impl Operator {
    /// Whether the operator compares by order.
    fn orders(self) -> bool {
        !matches!(self, Self::Equal | Self::NotEqual)
    }

    fn allows(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

/// Longer operators come first, so that they match first.
const OPERATORS: [(&str, Operator); 7] = [
    ("!=", Operator::NotEqual),
    ("==", Operator::Equal),
    ("=", Operator::Equal),
    ("<=", Operator::LessOrEqual),
    ("<", Operator::Less),
    (">=", Operator::GreaterOrEqual),
    (">", Operator::Greater),
];

/// The conditions of a cluster (`docs/reference/conditions.md`).
const CONDITIONS: [&str; 4] = ["Ready", "Reachable", "CredentialValid", "AuthSynced"];

/// An absent condition counts as Unknown.
const STATUSES: [&str; 3] = ["True", "False", "Unknown"];

/// The fields, for a hint.
const FIELDS: &str = "metadata.name, metadata.labels.KEY, status.version, status.server, status.conditions.TYPE; for short name, version, ready";

/// The names for suggestions.
const FIELD_NAMES: [&str; 8] = [
    "metadata.name",
    "metadata.labels.",
    "status.version",
    "status.server",
    "status.conditions.Ready",
    "name",
    "version",
    "ready",
];

fn unknown_field(field: &str) -> Failure {
    let known = format!("the fields are {FIELDS}");
    Failure::usage(format!("unknown field {field:?}")).with_hint(near(field, FIELD_NAMES, &known))
}

fn near(given: &str, names: impl IntoIterator<Item = &'static str>, known: &str) -> String {
    match suggestion::nearest(given, names) {
        Some(nearest) => format!("did you mean {nearest}? {known}"),
        None => known.to_owned(),
    }
}

const EXAMPLE: &str = "for example: --where='status.version>=v1.34,ready=True'";

#[cfg(test)]
mod tests;
