//! Lets pages of other origins use the API from a browser (apiserver: `server/filters/cors.go`). This needs
//! `--cors-allowed-origins` and applies to direct callers only: the host has its own policy and removes these
//! headers.

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use regex::Regex;

use crate::request::body::{self, Body};

/// The allowed origins.
#[derive(Debug)]
pub struct Cors(Vec<Regex>);

/// An allowed origin.
#[derive(Debug)]
pub struct Origin(HeaderValue);

impl Cors {
    /// `None` if there are no patterns. A pattern must be anchored at both ends of the host name, or
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

    /// The origin of a request, if it is allowed.
    pub fn origin(&self, headers: &HeaderMap) -> Option<Origin> {
        let origin = headers.get(header::ORIGIN)?;
        let text = origin.to_str().ok().filter(|text| !text.is_empty())?;
        self.0.iter().any(|pattern| pattern.is_match(text)).then(|| Origin(origin.clone()))
    }
}

impl Origin {
    /// Adds the headers that allow a page of this origin to use the answer.
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

/// The answer to a browser's preflight request, which has no credential.
pub fn preflight() -> Response<Body> {
    body::response(StatusCode::NO_CONTENT, Body::Empty)
}

/// Upstream's value, also of the next constant.
const METHODS: &str = "POST, GET, OPTIONS, PUT, DELETE, PATCH";
const HEADERS: &str = "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, \
                       X-Requested-With, If-Modified-Since";

/// A pattern is invalid.
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
    fn origin_that_matches_any_pattern_is_allowed() {
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
    fn unanchored_pattern_is_refused() {
        for pattern in ["example.com", "//example.com", "example.com$", "example.com:", ""] {
            assert!(matches!(cors(&[pattern]), Err(Error::Loose(_))), "{pattern}");
        }
        assert!(matches!(cors(&["^(https$"]), Err(Error::Pattern(_))));
        assert!(cors(&[]).unwrap().is_none(), "no pattern, no CORS");
    }
}
