//! The id that follows one request through the audit logs of the host, of ours and of the member
//! (apiserver: `endpoints/filters/audit_init.go`). A caller's is kept where it can be passed on as
//! it is; every other request gets one here.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::random;

/// At most 64 printable characters.
#[derive(Clone, Debug)]
pub struct AuditId(HeaderValue);

impl AuditId {
    /// The id of the request with these headers, which have it once and no other afterwards.
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

    /// Puts the id into a head, in place of what is there.
    pub fn tell(&self, headers: &mut HeaderMap) {
        // Only a map that is full to its last place has no room, and no such request is served.
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

/// RFC 9562, 5.4. An id must be unlike all others and need not be a secret.
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

    /// The id made of these lines, after it was seen that the headers have it, once.
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
    fn a_callers_id_is_kept() {
        let longest = "x".repeat(64);
        for given in ["5f2c", "a/b:c", &longest] {
            assert_eq!(id(&[given]), given);
        }
    }

    #[test]
    fn what_cannot_be_passed_on_is_replaced() {
        let too_long = "x".repeat(65);
        for given in [&[][..], &[""], &["a b"], &["a\tb"], &["jané"], &[&too_long], &["a", "b"]] {
            assert!(is_uuid(&id(given)), "{given:?}");
        }
    }

    #[test]
    fn no_two_requests_get_the_same() {
        let ids: std::collections::HashSet<_> = (0..1000).map(|_| id(&[])).collect();
        assert_eq!(ids.len(), 1000);
    }
}
