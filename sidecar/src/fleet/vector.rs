//! The resource version of a merged list: the versions of all members in one token, `v1.` and base64url of a hash of the
//! member set and one varint for each member, by name. A letter comes first, so that no client takes it for a number.
//! A token is valid for one set of members only; with another set the client lists again.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kubectl_mc_api::ClusterName;

/// The resource versions of members; zero where it is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vector(pub BTreeMap<ClusterName, u64>);

impl Vector {
    /// The versions of a set of members, none of them known.
    pub fn of(members: impl IntoIterator<Item = ClusterName>) -> Self {
        Self(members.into_iter().map(|member| (member, 0)).collect())
    }

    pub fn set(&mut self, member: &ClusterName, version: u64) {
        if let Some(known) = self.0.get_mut(member) {
            *known = version;
        }
    }

    pub fn get(&self, member: &ClusterName) -> u64 {
        self.0.get(member).copied().unwrap_or_default()
    }

    pub fn token(&self) -> String {
        let mut bytes = self.hash().to_be_bytes().to_vec();
        for version in self.0.values() {
            let mut left = *version;
            while left >= 0x80 {
                bytes.push((left & 0x7f) as u8 | 0x80);
                left >>= 7;
            }
            bytes.push(left as u8);
        }
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }

    /// The versions in a token, if it is one of exactly these members.
    pub fn parse(token: &str, members: impl IntoIterator<Item = ClusterName>) -> Option<Self> {
        let mut vector = Self::of(members);
        let bytes = URL_SAFE_NO_PAD.decode(token.strip_prefix(PREFIX)?).ok()?;
        let (hash, mut rest) = bytes.split_first_chunk::<8>()?;
        if u64::from_be_bytes(*hash) != vector.hash() {
            return None;
        }
        for version in vector.0.values_mut() {
            let length = rest.iter().position(|byte| byte & 0x80 == 0)? + 1;
            let (varint, after) = rest.split_at(length);
            if length > 10 {
                return None;
            }
            for byte in varint.iter().rev() {
                *version = version.checked_mul(0x80)? | u64::from(byte & 0x7f);
            }
            rest = after;
        }
        rest.is_empty().then_some(vector)
    }

    /// FNV-1a of the members' names, which every replica computes alike. Nothing secret depends on it.
    fn hash(&self) -> u64 {
        let names = self.0.keys().flat_map(|member| member.as_str().bytes().chain([0]));
        names
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }
}

const PREFIX: &str = "v1.";

#[cfg(test)]
mod tests {
    use super::*;

    fn members(count: usize) -> Vec<ClusterName> {
        (0..count).map(|n| format!("member-{n}").parse().unwrap()).collect()
    }

    #[test]
    fn token_holds_every_version() {
        let names = members(1000);
        let mut vector = Vector::of(names.clone());
        for (n, name) in names.iter().enumerate() {
            vector.set(name, [0, 1, 127, 128, 123_456_789, u64::MAX][n % 6]);
        }
        let token = vector.token();
        assert!(token.starts_with("v1.") && token.len() < 8 * 1024, "{}", token.len());
        assert_eq!(Vector::parse(&token, names.clone()), Some(vector));
        assert_eq!(Vector::parse(&token, names[1..].to_vec()), None);
    }

    #[test]
    fn other_text_is_no_token() {
        let names = members(2);
        let token = Vector::of(names.clone()).token();
        let longer = format!("{token}AA");
        for other in ["", "0", "m1.4", "v1.", "v1.AAAA", &token[..token.len() - 2], &token[1..], &longer] {
            assert_eq!(Vector::parse(other, names.clone()), None, "{other}");
        }
        let mut bytes = Vector::of(names.clone()).hash().to_be_bytes().to_vec();
        bytes.extend([0xff; 12]);
        bytes.extend([0, 0]);
        let overflow = format!("v1.{}", URL_SAFE_NO_PAD.encode(bytes));
        assert_eq!(Vector::parse(&overflow, names), None);
    }
}
