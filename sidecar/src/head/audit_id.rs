//! Assigns each request the id that it has in the audit logs of the host, the sidecar and the member
//! (apiserver: `endpoints/filters/audit_init.go`). A caller's id is kept if it can be forwarded unchanged;
//! otherwise the sidecar creates one.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::base::random;

/// At most 64 printable characters.
#[derive(Clone, Debug)]
pub struct AuditId(HeaderValue);

impl AuditId {
    /// Returns the request's id. Afterwards the headers contain it exactly once.
    pub fn of(headers: &mut HeaderMap) -> Self {
        let mut given = headers.get_all(AUDIT_ID).iter();
        if let (Some(one), None) = (given.next(), given.next())
            && is_usable(one)
        {
            return Self(one.clone());
        }
        let new = Self(random_uuid());
        new.tell(headers);
        new
    }

    /// Sets the id in a head and replaces an existing one.
    pub fn tell(&self, headers: &mut HeaderMap) {
        // This fails only for a map at its maximum size, and such a request is not served.
        let _ = headers.try_insert(AUDIT_ID, self.0.clone());
    }
}

impl fmt::Display for AuditId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.to_str().unwrap_or_default())
    }
}

fn is_usable(id: &HeaderValue) -> bool {
    let id = id.as_bytes();
    (1..=MAX_LENGTH).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic)
}

/// RFC 9562, 5.4. An id must be unique and need not be secret.
fn random_uuid() -> HeaderValue {
    let mut bytes = (u128::from(random::bits()) << 64 | u128::from(random::bits())).to_be_bytes();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = [b'-'; 36];
    let mut at = 0;
    for byte in bytes {
        if matches!(at, 8 | 13 | 18 | 23) {
            at += 1;
        }
        text[at] = HEX[usize::from(byte >> 4)];
        text[at + 1] = HEX[usize::from(byte & 0xf)];
        at += 2;
    }
    HeaderValue::from_bytes(&text).unwrap_or_else(|_| HeaderValue::from_static("-"))
}

pub const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
const MAX_LENGTH: usize = 64;
const HEX: &[u8; 16] = b"0123456789abcdef";

#[cfg(test)]
mod tests {
    use super::*;

    /// The id for these header lines. Checks that the headers contain it exactly once.
    fn id(lines: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(AUDIT_ID, HeaderValue::from_str(line).unwrap());
        }
        let id = AuditId::of(&mut headers).to_string();
        assert_eq!(headers.get_all(AUDIT_ID).iter().collect::<Vec<_>>(), [id.as_str()]);
        id
    }

    fn is_uuid(id: &str) -> bool {
        let form = |(at, letter): (usize, char)| match at {
            8 | 13 | 18 | 23 => letter == '-',
            14 => letter == '4',
            19 => "89ab".contains(letter),
            _ => letter.is_ascii_hexdigit(),
        };
        id.len() == 36 && id.char_indices().all(form)
    }

    #[test]
    fn callers_audit_id_is_kept() {
        let longest = "x".repeat(64);
        for given in ["5f2c", "a/b:c", &longest] {
            assert_eq!(id(&[given]), given);
        }
    }

    #[test]
    fn unusable_audit_id_is_replaced() {
        let too_long = "x".repeat(65);
        for given in [&[][..], &[""], &["a b"], &["a\tb"], &["jané"], &[&too_long], &["a", "b"]] {
            assert!(is_uuid(&id(given)), "{given:?}");
        }
    }

    #[test]
    fn each_request_gets_its_own_audit_id() {
        let ids: std::collections::HashSet<_> = (0..1000).map(|_| id(&[])).collect();
        assert_eq!(ids.len(), 1000);
    }
}
