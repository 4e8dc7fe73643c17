//! Lets pages of other origins use the API from a browser (apiserver: `server/filters/cors.go`). This needs
//! `--cors-allowed-origins` and applies only to direct callers: the host has its own policy and
//! removes these headers.
//!
//! Without CORS a browser hides the answer from the page, but still sends some requests, with the user's client
//! certificate: WebSocket handshakes (cross-site WebSocket hijacking), and a POST whose body has no content type,
//! which a kube-apiserver reads as JSON (cross-site request forgery). [`check_origin`] refuses these.

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use regex::Regex;

use crate::outbound::body::{self, Body};

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

/// Refuses an upgrade or a change that a page of another origin makes a browser send. Allowed are
/// requests without an Origin, which browsers never omit here, with the server's own, and with
/// those of `--cors-allowed-origins`.
///
/// The server's own origin has no scripts: pages of a member's programs are sandboxed, so their
/// origin is `null`. Some clients other than browsers send it (Python's `websocket-client`).
pub fn check_origin<B>(
    cors: Option<&Cors>,
    request: &Request<B>,
    is_upgrade: bool,
) -> Result<(), ForeignOrigin> {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if is_read && !is_upgrade {
        return Ok(());
    }
    let mut origins = request.headers().get_all(header::ORIGIN).iter();
    match (origins.next(), origins.next()) {
        (None, _) => Ok(()),
        (Some(origin), None)
            if is_own(request, origin)
                || cors.is_some_and(|cors| cors.origin(request.headers()).is_some()) =>
        {
            Ok(())
        }
        (Some(origin), _) => {
            let text = String::from_utf8_lossy(origin.as_bytes());
            Err(ForeignOrigin(text.chars().take(MAX_SHOWN).collect()))
        }
    }
}

/// Whether an origin is the name with which the client addresses the server.
fn is_own<B>(request: &Request<B>, origin: &HeaderValue) -> bool {
    let host = match request.uri().authority() {
        Some(authority) => authority.as_str().as_bytes(),
        None => request.headers().get(header::HOST).map_or(&b""[..], HeaderValue::as_bytes),
    };
    let origin = origin.as_bytes().strip_prefix(b"https://");
    origin.is_some_and(|origin| !origin.is_empty() && origin.eq_ignore_ascii_case(host))
}

/// A page of an origin that is not allowed sent the request, from a user's browser.
#[derive(Debug, thiserror::Error)]
#[error(
    "pages of origin {0:?} may neither change anything nor open streams here \
     (the sidecar's flag --cors-allowed-origins allows it)"
)]
pub struct ForeignOrigin(String);

/// In characters: longer than any origin with a valid DNS name.
const MAX_SHOWN: usize = 300;

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

    /// Whether a request with these Origin lines is let through.
    fn passes(method: Method, is_upgrade: bool, origins: &[&str]) -> bool {
        let cors = cors(&[r"^https://ui\.example$"]).unwrap();
        let mut request =
            Request::builder().method(method).header("host", "mc.example:8443").body(()).unwrap();
        for origin in origins {
            request.headers_mut().append(header::ORIGIN, HeaderValue::from_str(origin).unwrap());
        }
        check_origin(cors.as_ref(), &request, is_upgrade).is_ok()
    }

    #[test]
    fn fault_82_foreign_origin_opens_and_changes_nothing() {
        for (origins, passed) in [
            (&[][..], true),
            (&["https://ui.example"], true),
            (&["https://mc.example:8443"], true),
            (&["https://MC.example:8443"], true),
            (&["https://mc.example"], false),
            (&["http://mc.example:8443"], false),
            (&["https://mc.example:8443.evil.example"], false),
            (&["https://evil.example"], false),
            (&["https://"], false),
            (&["null"], false),
            (&[""], false),
            (&["https://ui.example", "https://evil.example"], false),
            (&["https://mc.example:8443", "https://mc.example:8443"], false),
        ] {
            assert_eq!(passes(Method::GET, true, origins), passed, "upgrade {origins:?}");
            for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
                assert_eq!(passes(method.clone(), false, origins), passed, "{method} {origins:?}");
            }
            for method in [Method::GET, Method::HEAD, Method::OPTIONS] {
                assert!(passes(method, false, origins), "the browser hides the answer: {origins:?}");
            }
        }
    }

    #[test]
    fn own_origin_over_http2_is_the_authority() {
        let request = |uri: &str| {
            let request = Request::post(uri).header(header::ORIGIN, "https://mc.example").body(()).unwrap();
            check_origin(None, &request, false)
        };
        assert!(request("https://mc.example/x").is_ok());
        assert!(request("https://other.example/x").is_err());
        assert!(request("/x").is_err(), "no host is no origin");
    }

    #[test]
    fn shown_origin_is_escaped_and_bounded() {
        let mut request = Request::post("/x").body(()).unwrap();
        let origin = HeaderValue::from_bytes(&[b"\xff\"".to_vec(), vec![b'x'; 9999]].concat()).unwrap();
        request.headers_mut().insert(header::ORIGIN, origin);
        let error = check_origin(None, &request, false).unwrap_err().to_string();
        assert!(error.contains("\\\"x") && error.contains("--cors-allowed-origins"), "{error}");
        assert!(error.len() < 500, "{}", error.len());
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
