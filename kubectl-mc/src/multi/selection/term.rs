//! Parses one term of a choice: a name, a glob, a /regex/ or an @set, each with an optional `!` for
//! exclusion. A term selects members, or contexts of the kubeconfig: with the prefix `context:`, or if all
//! terms select contexts.

use kubectl_mc_api::ClusterName;
use regex::Regex;

use crate::cluster::cluster_id::{CONTEXT_PREFIX, ClusterId, KubeconfigContext};
use crate::error::{Failure, list_clusters, mc};
use crate::glob;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Term {
    /// With `!`, or from `--exclude`.
    pub(super) exclude: bool,
    pub(super) pattern: Pattern,
}

/// The default kind of clusters for a term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    #[default]
    Members,
    Contexts,
}

impl Kind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Members => "cluster",
            Self::Contexts => "context",
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Pattern {
    Exact(ClusterName),
    /// A glob or a regular expression.
    Expression(Regex),
    /// The name of a context.
    Context(String),
    /// A regular expression for contexts.
    ContextExpression(Regex),
    /// The name of a context, if a context of that name exists, else a glob for contexts.
    ContextGlob(String),
    /// `@name`
    Set(String),
}

impl Term {
    pub(super) fn include(pattern: Pattern) -> Self {
        Self { exclude: false, pattern }
    }

    /// The same term as an exclusion. An exclusion remains an exclusion.
    pub(super) fn excluding(self) -> Self {
        Self { exclude: true, ..self }
    }
}

impl Pattern {
    /// Whether the term needs the host's list.
    pub(super) fn needs_list(&self) -> bool {
        matches!(self, Self::Expression(_))
    }

    /// Whether the term selects contexts.
    pub(super) fn is_of_contexts(&self) -> bool {
        matches!(self, Self::Context(_) | Self::ContextExpression(_) | Self::ContextGlob(_))
    }

    /// The pattern of a glob for contexts, now that the names of the contexts are known.
    pub(super) fn among(&self, is_context: impl Fn(&str) -> bool) -> Result<Self, Failure> {
        match self {
            Self::ContextGlob(name) if is_context(name) => Ok(Self::Context(name.clone())),
            Self::ContextGlob(text) => Ok(Self::ContextExpression(glob(text, |_| true, text)?)),
            pattern => Ok(pattern.clone()),
        }
    }

    /// Whether the term includes a cluster. A file that cannot be read may have contexts that a glob matches.
    pub(super) fn includes(&self, cluster: &ClusterId) -> bool {
        let is_unread = || cluster.context().is_some_and(KubeconfigContext::is_unread_file);
        self.matches(cluster) || matches!(self, Self::ContextExpression(_)) && is_unread()
    }

    /// Whether the term matches a cluster; sets and globs for contexts are resolved separately.
    pub(super) fn matches(&self, cluster: &ClusterId) -> bool {
        match (self, cluster.member(), cluster.context().map(KubeconfigContext::raw_name)) {
            (Self::Exact(exact), Some(name), _) => exact == name,
            (Self::Expression(expression), Some(name), _) => expression.is_match(name.as_str()),
            (Self::Context(exact), _, Some(name)) => exact == name,
            (Self::ContextExpression(expression), _, Some(name)) => expression.is_match(name),
            _ => false,
        }
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Exact(a), Self::Exact(b)) => a == b,
            (Self::Expression(a), Self::Expression(b)) => a.as_str() == b.as_str(),
            (Self::ContextExpression(a), Self::ContextExpression(b)) => a.as_str() == b.as_str(),
            (Self::Set(a), Self::Set(b))
            | (Self::Context(a), Self::Context(b))
            | (Self::ContextGlob(a), Self::ContextGlob(b)) => a == b,
            _ => false,
        }
    }
}

/// Parses terms separated by commas; commas inside a /regex/ belong to it.
pub(super) fn parse_list(text: &str, kind: Kind) -> Result<Vec<Term>, Failure> {
    let mut terms = Vec::new();
    let mut rest = text;
    loop {
        let begin = rest.strip_prefix('!').unwrap_or(rest);
        let begin = begin.strip_prefix(CONTEXT_PREFIX).unwrap_or(begin);
        let end = match begin.strip_prefix('/') {
            // The final slash of an expression is followed by a comma or the end.
            Some(expression) => {
                let close = expression.find("/,").or_else(|| expression.strip_suffix('/').map(str::len));
                let close = close.ok_or_else(|| {
                    Failure::usage(format!("the regular expression {begin:?} has no closing slash"))
                        .with_hint(EXPRESSION)
                })?;
                rest.len() - expression.len() + close + 1
            }
            None => rest.find(',').unwrap_or(rest.len()),
        };
        terms.push(parse(&rest[..end], kind)?);
        match rest[end..].strip_prefix(',') {
            // Accepts a trailing comma, which scripts may produce.
            Some("") | None => return Ok(terms),
            Some(next) => rest = next,
        }
    }
}

/// Whether this term selects exactly the context of this name, if contexts are the default kind.
pub(crate) fn selects_context(term: &str, name: &str) -> bool {
    let term = parse_list(term, Kind::Contexts);
    let terms = term.as_deref().unwrap_or_default();
    let [Term { exclude: false, pattern }] = terms else { return false };
    // A name with glob syntax is treated as a name if a context of that name exists.
    matches!(pattern, Pattern::Context(selected) | Pattern::ContextGlob(selected) if selected == name)
}

fn parse(text: &str, kind: Kind) -> Result<Term, Failure> {
    let (exclude, body) = match text.strip_prefix('!') {
        Some(body) => (true, body),
        None => (false, text),
    };
    let (kind, body) = match body.strip_prefix(CONTEXT_PREFIX) {
        Some(body) => (Kind::Contexts, body),
        None => (kind, body),
    };
    let expression = body.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'));
    let is_glob = glob::is_glob(body);
    let pattern = match (kind, expression, body.strip_prefix('@')) {
        (_, None, Some(set)) => Pattern::Set(set.to_owned()),
        (Kind::Members, Some(expression), _) => Pattern::Expression(compile(expression, text)?),
        (Kind::Members, None, _) if is_glob => Pattern::Expression(glob(body, is_of_names, text)?),
        (Kind::Members, None, _) => Pattern::Exact(name(body)?),
        (Kind::Contexts, Some(expression), _) => Pattern::ContextExpression(compile(expression, text)?),
        (Kind::Contexts, None, _) if is_glob => Pattern::ContextGlob(body.to_owned()),
        (Kind::Contexts, None, _) if body.is_empty() => {
            return Err(Failure::usage("a context without a name")
                .with_hint(mc("clusters --contexts").that("lists the contexts")));
        }
        (Kind::Contexts, None, _) => Pattern::Context(body.to_owned()),
    };
    Ok(Term { exclude, pattern })
}

/// Compiles a glob, whose literal characters must be allowed in a name.
pub(super) fn glob(text: &str, may_be: fn(char) -> bool, whole: &str) -> Result<Regex, Failure> {
    let expression = glob::expression(text, may_be).ok_or_else(|| {
        Failure::usage(format!("invalid glob {whole:?}"))
            .with_hint("a glob consists of *, ?, [abc] and the characters of cluster names")
    })?;
    compile(&expression, whole)
}

fn name(text: &str) -> Result<ClusterName, Failure> {
    let name = ClusterName::try_from(text.to_owned());
    name.map_err(|error| Failure::usage(error.to_string()).with_hint(list_clusters()))
}

fn is_of_names(letter: char) -> bool {
    letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-'
}

/// The error of a regular expression in one line: its last line is the message, and the lines
/// before it show the position.
pub(crate) fn expression_error(error: &regex::Error) -> String {
    let text = error.to_string();
    let reason = text.lines().last().unwrap_or_default().trim();
    reason.strip_prefix("error: ").unwrap_or(reason).to_owned()
}

fn compile(expression: &str, text: &str) -> Result<Regex, Failure> {
    Regex::new(expression).map_err(|error| {
        Failure::usage(format!("invalid regular expression {text:?}: {}", expression_error(&error)))
            .with_hint(EXPRESSION)
    })
}

const EXPRESSION: &str = "for example: '/^eu-(a|b)-[0-9]+$/'";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::ExitStatus;

    fn chosen(term: &str, names: &[&str]) -> Vec<String> {
        let terms = parse_list(term, Kind::Members).unwrap();
        let [term] = terms.as_slice() else { panic!("{term}: {terms:?}") };
        let names = names.iter().map(|name| name.parse::<ClusterId>().unwrap());
        names.filter(|name| term.pattern.matches(name)).map(|name| name.to_string()).collect()
    }

    #[test]
    fn globs_and_expressions_match_names() {
        let names = ["eu-1", "eu-2", "eu-10", "us-1", "eu"];
        for (term, expected) in [
            ("eu-*", &["eu-1", "eu-2", "eu-10"][..]),
            ("eu-?", &["eu-1", "eu-2"]),
            ("*", &names),
            ("??-[12]", &["eu-1", "eu-2", "us-1"]),
            ("eu-[!1]*", &["eu-2"]),
            ("/eu/", &["eu-1", "eu-2", "eu-10", "eu"]),
            ("/^(eu|us)-1$/", &["eu-1", "us-1"]),
            ("/-[0-9]{2,3}/", &["eu-10"]),
            ("eu-1", &["eu-1"]),
        ] {
            assert_eq!(chosen(term, &names), expected, "{term}");
        }
    }

    #[test]
    fn list_is_split_only_at_its_own_commas() {
        let terms = parse_list("m1,!/a{1,2}/,@prod,!eu-*,/b,c/", Kind::Members).unwrap();
        let kinds: Vec<_> = terms.iter().map(|term| (term.exclude, format!("{:?}", term.pattern))).collect();
        assert_eq!(kinds[0], (false, "Exact(ClusterName(\"m1\"))".to_owned()));
        assert_eq!(kinds[1], (true, "Expression(Regex(\"a{1,2}\"))".to_owned()));
        assert_eq!(kinds[2], (false, "Set(\"prod\")".to_owned()));
        assert!(kinds[3].0);
        assert_eq!(kinds[4], (false, "Expression(Regex(\"b,c\"))".to_owned()));
        assert_eq!(parse_list("m1,", Kind::Members).unwrap().len(), 1);
    }

    #[test]
    fn context_name_with_the_syntax_of_terms_is_no_term() {
        for name in ["kind-a", "arn:aws:eks:eu-1:1:cluster/b", "admin@c", "a b", "context", "a*", "a["] {
            assert!(
                selects_context(name, name) && selects_context(&format!("context:{name}"), name),
                "{name}"
            );
        }
        for name in ["a,b", "a,", "@a", "/a/"] {
            assert!(
                !selects_context(name, name) && !selects_context(&format!("context:{name}"), name),
                "{name}"
            );
        }
        for name in ["!a", "context:a"] {
            assert!(
                !selects_context(name, name) && selects_context(&format!("context:{name}"), name),
                "{name}"
            );
        }
    }

    #[test]
    fn invalid_terms_are_refused() {
        for text in ["", "M1", "a,,b", "!", "m1/proxy", "..", "eu-[", "eu-[]", "EU-*", "*.x", "/a", "/(/"] {
            let error = parse_list(text, Kind::Members).unwrap_err();
            assert_eq!(error.status, ExitStatus::Usage, "{text}");
        }
    }
}
