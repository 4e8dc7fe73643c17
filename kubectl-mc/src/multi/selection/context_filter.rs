//! Implements `--context-selector`: selects contexts of the kubeconfig by their server, user or namespace, in
//! the syntax of label selectors (`user=admin,server!=*.eu.example.com*`). Values are globs.

use regex::Regex;

use super::term::glob;
use crate::cluster::cluster_id::KubeconfigContext;
use crate::error::Failure;
use crate::suggestion;

/// Requirements that a context must all meet.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ContextFilter(Vec<Requirement>);

#[derive(Clone, Debug)]
struct Requirement {
    field: Field,
    is: bool,
    value: Regex,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Server,
    User,
    Namespace,
}

impl PartialEq for Requirement {
    fn eq(&self, other: &Self) -> bool {
        (self.field, self.is, self.value.as_str()) == (other.field, other.is, other.value.as_str())
    }
}

impl ContextFilter {
    /// Parses requirements separated by commas.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        text.split(',').map(|text| Requirement::parse(text.trim())).collect::<Result<_, _>>().map(Self)
    }

    /// The fields of a requirement.
    pub(crate) fn fields() -> impl Iterator<Item = &'static str> {
        FIELDS.into_iter().map(|(name, _)| name)
    }

    /// Whether the context meets all requirements. A context that cannot be used may meet them.
    pub(crate) fn matches(&self, context: &KubeconfigContext) -> bool {
        context.cluster.check_usable().is_err()
            || self.0.iter().all(|requirement| requirement.matches(context))
    }
}

impl Requirement {
    fn parse(text: &str) -> Result<Self, Failure> {
        let invalid = || Failure::usage(format!("{text:?} has no comparison operator")).with_hint(KNOWN);
        let (field, value) = text.split_once('=').ok_or_else(invalid)?;
        let (field, is) = match field.strip_suffix('!') {
            Some(field) => (field, false),
            None => (field, true),
        };
        let value = value.strip_prefix('=').filter(|_| is).unwrap_or(value).trim();
        let field = field.trim();
        let known = FIELDS.iter().find(|(name, _)| *name == field);
        let (_, field) = known.ok_or_else(|| {
            let failure = Failure::usage(format!("unknown field {field:?}"));
            match suggestion::nearest(field, ContextFilter::fields()) {
                Some(nearest) => failure.with_hint(format!("did you mean {nearest}? {KNOWN}")),
                None => failure.with_hint(KNOWN),
            }
        })?;
        Ok(Self {
            field: *field,
            is,
            value: glob(value, |_| true, text).map_err(|failure| failure.with_hint(KNOWN))?,
        })
    }

    fn matches(&self, context: &KubeconfigContext) -> bool {
        let cluster = &context.cluster;
        let value = match self.field {
            Field::Server => &*cluster.server,
            Field::User => cluster.user_name().unwrap_or_default(),
            // The default of kubectl.
            Field::Namespace => cluster.namespace.as_deref().unwrap_or("default"),
        };
        self.value.is_match(value) == self.is
    }
}

const FIELDS: [(&str, Field); 3] =
    [("server", Field::Server), ("user", Field::User), ("namespace", Field::Namespace)];

const KNOWN: &str =
    "the fields are server, user and namespace, as in --context-selector='user=admin,server!=*.dev.*'";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::context::{HostOptions, contexts};
    use crate::exit::ExitStatus;

    #[test]
    fn contexts_are_chosen_by_server_user_and_namespace() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        let text = "
clusters:
- {name: a, cluster: {server: 'https://a.eu.example.com:6443'}}
- {name: b, cluster: {server: 'https://b.us.example.com'}}
contexts:
- {name: one, context: {cluster: a, user: admin}}
- {name: two, context: {cluster: b, user: admin, namespace: web}}
- {name: three, context: {cluster: b, user: 'arn:aws:iam::1:user/x'}}
- {name: broken, context: {cluster: nowhere}}
";
        std::fs::write(&file, text).unwrap();
        let options = HostOptions { kubeconfig: Some(file), ..HostOptions::default() };
        let all = contexts(&options, &crate::env::Env::default()).unwrap().all;
        for (selector, expected) in [
            ("user=admin", &["one", "two"][..]),
            ("user==admin,namespace!=default", &["two"]),
            ("server=*.eu.example.com*", &["one"]),
            ("user=arn:aws:*", &["three"]),
            ("namespace=default", &["one", "three"]),
            ("server=https://b.us.example.co?, user!=admin", &["three"]),
            ("server=https://bxus.example.com", &[]),
        ] {
            let filter = ContextFilter::parse(selector).unwrap();
            let chosen: Vec<_> =
                all.iter().filter(|one| filter.matches(one)).map(|one| one.raw_name()).collect();
            let mut expected = expected.to_vec();
            expected.sort_unstable();
            assert_eq!(chosen, expected, "{selector}");
        }
    }

    #[test]
    fn invalid_filters_are_refused() {
        for (text, hint) in
            [("usr=x", "did you mean user?"), ("", "the fields are"), ("user", "the fields are")]
        {
            let error = ContextFilter::parse(text).unwrap_err();
            assert_eq!(error.status, ExitStatus::Usage);
            assert!(error.hint.as_ref().unwrap().to_string().starts_with(hint), "{text:?}: {error}");
        }
    }
}
