//! Pages of other origins that may use the API from a browser (apiserver: `server/filters/cors.go`),
//! with `--cors-allowed-origins` only, and for direct callers only: the host has a policy of its own
//! and takes ours out.

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use regex::Regex;

use crate::request::body::Body;

/// The origins that are allowed.
#[derive(Debug)]
pub struct Cors(Vec<Regex>);

/// An origin that is allowed.
#[derive(Debug)]
pub struct Origin(HeaderValue);

impl Cors {
    /// `None` if there are no patterns. A pattern must be bound to both ends of the host's name, or
    /// `example.com` would allow `example.com.evil.org` (CVE-2022-1996).
    pub fn new(patterns: &[String]) -> Result<Option<Self>, Error> {
        let compiled = patterns.iter().map(|pattern| {
            let bound = ["^", "//"].iter().any(|start| pattern.contains(start))
                && ["$", ":"].iter().any(|end| pattern.contains(end));
            if !bound {
                return Err(Error::Loose(pattern.clone()));
            }
            Regex::new(pattern).map_err(|error| Error::Pattern(error.to_string()))
        });
        let compiled = compiled.collect::<Result<Vec<_>, _>>()?;
        Ok((!compiled.is_empty()).then_some(Self(compiled)))
    }

    /// The origin of a request, if it has one that is allowed.
    pub fn origin(&self, headers: &HeaderMap) -> Option<Origin> {
        let origin = headers.get(header::ORIGIN)?;
        let text = origin.to_str().ok().filter(|text| !text.is_empty())?;
        self.0.iter().any(|pattern| pattern.is_match(text)).then(|| Origin(origin.clone()))
    }
}

impl Origin {
    /// Says in an answer what a page of this origin may do.
    pub fn tell(self, headers: &mut HeaderMap) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, self.0);
        for (name, value) in [
            (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
            (header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS),
            (header::ACCESS_CONTROL_EXPOSE_HEADERS, "Date"),
            (header::ACCESS_CONTROL_ALLOW_CREDENTIALS, "true"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
}

/// The answer to a browser that asks first. It asks without a credential.
pub fn preflight() -> Response<Body> {
    let mut response = Response::new(Body::Empty);
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// Upstream's, as is the next.
const METHODS: &str = "POST, GET, OPTIONS, PUT, DELETE, PATCH";
const HEADERS: &str = "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, \
                       X-Requested-With, If-Modified-Since";

/// A pattern that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0:?} does not pin to start/end of host in the origin header")]
    Loose(String),
    #[error("invalid regular expression: {0}")]
    Pattern(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cors(patterns: &[&str]) -> Result<Option<Cors>, Error> {
        Cors::new(&patterns.iter().map(|&pattern| pattern.to_owned()).collect::<Vec<_>>())
    }

    fn allows(patterns: &[&str], origin: &str) -> bool {
        let headers = HeaderMap::from_iter([(header::ORIGIN, HeaderValue::from_str(origin).unwrap())]);
        cors(patterns).unwrap().unwrap().origin(&headers).is_some()
    }

    #[test]
    fn an_origin_is_allowed_that_matches_any_pattern() {
        let patterns = [r"^https://a\.example$", r"//b\.example(:|$)"];
        for (origin, allowed) in [
            ("https://a.example", true),
            ("http://a.example", false),
            ("https://a.example.evil.org", false),
            ("https://b.example:8443", true),
            ("https://xb.example", false),
            ("null", false),
            ("", false),
        ] {
            assert_eq!(allows(&patterns, origin), allowed, "{origin}");
        }
    }

    #[test]
    fn a_pattern_that_is_loose_at_either_end_is_refused() {
        for pattern in ["example.com", "//example.com", "example.com$", "example.com:", ""] {
            assert!(matches!(cors(&[pattern]), Err(Error::Loose(_))), "{pattern}");
        }
        assert!(matches!(cors(&["^(https$"]), Err(Error::Pattern(_))));
        assert!(cors(&[]).unwrap().is_none(), "no pattern, no CORS");
    }
}
