//! Matches the paths that are authorized without a review (apiserver: `authorization/path`). Only reading the
//! metrics can be allowed: no pattern matches the clusters, a member, or the paths below `/debug/`.

use super::Attributes;

/// The patterns of `--authorization-always-allow-paths`.
#[derive(Clone, Debug, Default)]
pub struct AlwaysAllowed(Vec<PathPattern>);

/// A path, or a prefix of paths with a `*` at its end. The first slash is optional.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PathPattern {
    Exact(String),
    Prefix(String),
}

impl AlwaysAllowed {
    /// # Errors
    ///
    /// A pattern has a `*` before its end.
    pub fn parse(patterns: &[String]) -> Result<Self, Misplaced> {
        patterns.iter().map(|pattern| PathPattern::parse(pattern)).collect::<Result<_, _>>().map(Self)
    }

    /// Whether a pattern allows a request.
    pub(super) fn allows(&self, attributes: &Attributes) -> bool {
        let Attributes::NonResource { verb: "get", path: METRICS } = attributes else { return false };
        self.0.iter().any(|pattern| pattern.matches(METRICS.trim_start_matches('/')))
    }
}

impl PathPattern {
    fn parse(text: &str) -> Result<Self, Misplaced> {
        let path = text.strip_prefix('/').unwrap_or(text);
        let pattern = match path.strip_suffix('*') {
            Some(prefix) => Self::Prefix(prefix.to_owned()),
            None => Self::Exact(path.to_owned()),
        };
        let (Self::Exact(fixed) | Self::Prefix(fixed)) = &pattern;
        if fixed.contains('*') { Err(Misplaced(text.to_owned())) } else { Ok(pattern) }
    }

    fn matches(&self, path: &str) -> bool {
        match self {
            Self::Exact(exact) => path == exact,
            Self::Prefix(prefix) => path.starts_with(prefix),
        }
    }
}

const METRICS: &str = "/metrics";

/// A pattern with a `*` before its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("only a * at the end is allowed in {0:?}")]
pub struct Misplaced(String);

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;
    use crate::head::request_info::RequestInfo;

    fn allows(patterns: &[&str], target: &str) -> bool {
        let patterns: Vec<_> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        let allowed = AlwaysAllowed::parse(&patterns).unwrap();
        let request = Request::builder().uri(target).header("host", "h").body(()).unwrap();
        let info = RequestInfo::parse(&request).unwrap();
        Attributes::of(&info).all(|attributes| allowed.allows(&attributes))
    }

    #[test]
    fn pattern_matches_a_path_or_a_prefix() {
        for (pattern, allowed) in [
            ("/metrics", true),
            ("metrics", true),
            ("/metrics*", true),
            ("/met*", true),
            ("*", true),
            ("/*", true),
            ("/metrics/", false),
            ("/metrics/*", false),
            ("/Metrics", false),
            ("//metrics", false),
            ("/healthz", false),
            ("/", false),
            ("", false),
        ] {
            assert_eq!(allows(&[pattern], "/metrics"), allowed, "{pattern:?}");
        }
        assert!(allows(&["/healthz", "/metrics"], "/metrics?x=y"));
        assert!(!allows(&[], "/metrics"));
    }

    #[test]
    fn patterns_never_match_clusters_or_members() {
        let clusters = kubectl_mc_api::path::CLUSTERS_PATH;
        let patterns = ["*", "/*", "/apis/*", "/metrics*", "", "/", clusters, &format!("{clusters}*")];
        for rest in ["", "?watch=true", "/m1", "/m1/proxy", "/m1/proxy/metrics", "/m1/proxy/healthz"] {
            assert!(!allows(&patterns, &format!("{clusters}{rest}")), "{rest}");
        }
        assert!(!allows(&patterns, &format!("{clusters}/m1/selfreviews/version")));
        assert!(!allows(&patterns, &format!("{clusters}/metrics/proxy/metrics")));
    }

    #[test]
    fn patterns_never_match_debug_paths() {
        for path in ["/debug/state", "/debug/flags/v"] {
            assert!(!allows(&["*", "/*", "/debug*", "/debug/*", path], path), "{path}");
        }
    }

    #[test]
    fn star_before_the_end_is_an_error() {
        for pattern in ["/a*b", "*/", "**", "/*/*"] {
            let error = AlwaysAllowed::parse(&[pattern.to_owned()]).unwrap_err().to_string();
            assert_eq!(error, format!("only a * at the end is allowed in {pattern:?}"));
        }
    }
}
