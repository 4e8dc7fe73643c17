//! A static document with its entity tag.

use std::fmt::Write;

use aws_lc_rs::digest;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH, VARY};
use http::{Response, StatusCode};
use serde_json::Value;

use crate::outbound::body::Body;

pub(super) struct Published {
    body: Bytes,
    content_type: &'static str,
    hash: String,
}

impl Published {
    pub(super) fn new(content_type: &'static str, document: &Value) -> Self {
        let body = Bytes::from(document.to_string());
        let mut hash = String::new();
        for byte in digest::digest(&digest::SHA256, &body).as_ref() {
            write!(hash, "{byte:02X}").expect("a String takes all text");
        }
        Self { body, content_type, hash }
    }

    pub(super) fn hash(&self) -> &str {
        &self.hash
    }

    pub(super) fn respond(&self, request: &HeaderMap) -> Response<Body> {
        let known = request.get_all(IF_NONE_MATCH).iter().filter_map(|line| line.to_str().ok());
        let is_known = known.flat_map(|line| line.split(',')).any(|tag| self.is_tag(tag.trim()));
        let mut response = Response::new(if is_known { Body::Empty } else { self.body.clone().into() });
        if is_known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        }
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        // The next release may have other content, so a cache must revalidate each time, and mostly gets 304.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        headers.insert(VARY, HeaderValue::from_static("Accept"));
        let tag = format!("\"{}\"", self.hash);
        headers.insert(ETAG, tag.parse().expect("hexadecimal digits and quotes are a header value"));
        response
    }

    /// RFC 9110, 13.1.2: the comparison is weak, and `*` matches any tag.
    fn is_tag(&self, tag: &str) -> bool {
        let strong = tag.strip_prefix("W/").unwrap_or(tag);
        tag == "*" || strong.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')) == Some(&self.hash)
    }
}

pub(super) const JSON: &str = "application/json";
