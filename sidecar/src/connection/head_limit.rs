//! Limits the size of a request's head before any review at the host. The head stays in memory while its
//! sender is authenticated, and a field of one byte in HPACK (RFC 7541) takes a hundred bytes in memory.
//!
//! The host's front proxy sends a line for each group and extra value of a user, so its heads may be as large
//! as in a kube-apiserver. Without the identity, the rest must meet the limit of all other callers.

use http::HeaderMap;

/// A limit on fields and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimit {
    pub fields: usize,
    /// Names, values and 32 for each field (RFC 9113, 6.5.2).
    pub bytes: usize,
}

impl HeadLimit {
    /// A kube-apiserver's `MaxHeaderBytes`, and a line for each group and extra value of a user.
    pub const FRONT_PROXY: Self = Self { fields: 4096, bytes: 1 << 20 };
    /// More than kubectl and other clients send; most of it may be a token.
    pub const CALLER: Self = Self { fields: 100, bytes: 16 * 1024 };

    pub fn check(self, headers: &HeaderMap) -> Result<(), TooLarge> {
        if headers.len() > self.fields {
            return Err(TooLarge::Fields(self.fields));
        }
        let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum();
        if bytes > self.bytes { Err(TooLarge::Bytes(self.bytes)) } else { Ok(()) }
    }
}

/// A head is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooLarge {
    #[error("the request has more than {0} header fields")]
    Fields(usize),
    #[error("the request's header fields have more than {0} bytes")]
    Bytes(usize),
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(count: usize, length: usize) -> HeaderMap {
        let value = HeaderValue::from_str(&"v".repeat(length)).unwrap();
        (0..count).map(|_| (HeaderName::from_static("x-name"), value.clone())).fold(
            HeaderMap::new(),
            |mut headers, (name, value)| {
                headers.append(name, value);
                headers
            },
        )
    }

    #[test]
    fn repeated_lines_are_counted_separately() {
        assert_eq!(HeadLimit::CALLER.check(&headers(100, 1)), Ok(()));
        assert_eq!(HeadLimit::CALLER.check(&headers(101, 1)), Err(TooLarge::Fields(100)));
        assert_eq!(HeadLimit::FRONT_PROXY.check(&headers(4096, 1)), Ok(()));
    }

    #[test]
    fn bytes_are_counted_as_in_http2() {
        let most = 16 * 1024 - 32 - "x-name".len();
        assert_eq!(HeadLimit::CALLER.check(&headers(1, most)), Ok(()));
        assert_eq!(HeadLimit::CALLER.check(&headers(1, most + 1)), Err(TooLarge::Bytes(16 * 1024)));
    }
}
