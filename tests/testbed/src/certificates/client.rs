//! Encodes client certificates by hand (RFC 5280, section 4.1): a subject has one organization for
//! each group, but rcgen keeps only one value of each kind.

use anyhow::Result;
use rcgen::{KeyPair, PublicKeyData, SigningKey};

/// The DER of a certificate for clientAuth, signed with the authority's P-256 key.
pub(super) fn sign(
    authority: &str,
    authority_key: &KeyPair,
    key: &KeyPair,
    user: &str,
    groups: &[&str],
) -> Result<Vec<u8>> {
    let subject = [attribute(COMMON_NAME, user)]
        .into_iter()
        .chain(groups.iter().map(|group| attribute(ORGANIZATION, group)))
        .collect::<Vec<_>>();
    let body = sequence(&[
        der(0xa0, &[der(0x02, &[&[2]])]), // version 3
        der(0x02, &[&serial(key)]),
        sequence(&[ECDSA_WITH_SHA256]),
        sequence(&[attribute(COMMON_NAME, authority)]),
        sequence(&[utc_time("200101000000Z"), utc_time("491231235959Z")]),
        sequence(&subject),
        key.subject_public_key_info(),
        der(0xa3, &[sequence(&[extended_key_usage()])]),
    ]);
    let mut signature = vec![0]; // no unused bits
    signature.extend(authority_key.sign(&body)?);
    Ok(sequence(&[body, sequence(&[ECDSA_WITH_SHA256]), der(0x03, &[signature])]))
}

/// Unique for every key, positive, and not zero.
fn serial(key: &KeyPair) -> Vec<u8> {
    let point = key.public_key_raw();
    let mut serial = vec![0x40];
    serial.extend(point.iter().rev().take(15));
    serial
}

fn attribute(kind: &[u8], value: &str) -> Vec<u8> {
    der(0x31, &[sequence(&[kind.to_vec(), der(0x0c, &[value])])])
}

fn extended_key_usage() -> Vec<u8> {
    sequence(&[EXTENDED_KEY_USAGE.to_vec(), der(0x04, &[sequence(&[CLIENT_AUTH])])])
}

fn utc_time(time: &str) -> Vec<u8> {
    der(0x17, &[time])
}

fn sequence(parts: &[impl AsRef<[u8]>]) -> Vec<u8> {
    der(0x30, parts)
}

/// One value: tag, length, content.
fn der(tag: u8, parts: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let content = parts.iter().flat_map(|part| part.as_ref()).copied().collect::<Vec<_>>();
    let mut value = vec![tag];
    match content.len() {
        short @ 0..=0x7f => value.push(short as u8),
        long => {
            let bytes = long.to_be_bytes();
            let significant = &bytes[bytes.iter().take_while(|&&byte| byte == 0).count()..];
            value.push(0x80 | significant.len() as u8);
            value.extend(significant);
        }
    }
    value.extend(content);
    value
}

const COMMON_NAME: &[u8] = &[0x06, 3, 0x55, 4, 3];
const ORGANIZATION: &[u8] = &[0x06, 3, 0x55, 4, 10];
const EXTENDED_KEY_USAGE: &[u8] = &[0x06, 3, 0x55, 29, 37];
const CLIENT_AUTH: &[u8] = &[0x06, 8, 0x2b, 6, 1, 5, 5, 7, 3, 2];
const ECDSA_WITH_SHA256: &[u8] = &[0x06, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_encoded_in_the_shortest_form() {
        assert_eq!(der(0x04, &[vec![7; 3]]), [4, 3, 7, 7, 7]);
        assert_eq!(der(0x04, &[vec![7; 200]])[..3], [4, 0x81, 200]);
        assert_eq!(der(0x04, &[vec![7; 300]])[..4], [4, 0x82, 1, 44]);
    }

    #[test]
    fn every_group_becomes_an_organization() {
        let key = KeyPair::generate().unwrap();
        let certificate = sign("ca", &key, &key, "ulrike", &["dev", "ops", "night"]).unwrap();
        let organizations = ["dev", "ops", "night"].map(|group| attribute(ORGANIZATION, group)).concat();
        let subject = sequence(&[attribute(COMMON_NAME, "ulrike"), organizations]);
        assert!(certificate.windows(subject.len()).any(|window| window == subject));
    }
}
