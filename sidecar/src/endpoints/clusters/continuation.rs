//! The `continue` token of a paged list: the version of all pages, and the name after which the next page
//! begins (apiserver: `storage/continue.go`). Clients must treat it as opaque.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kubectl_mc_api::ClusterName;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Continuation {
    #[serde(rename = "rv")]
    pub(super) version: u64,
    pub(super) after: ClusterName,
}

impl Continuation {
    pub(super) fn encode(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).expect("a name and a number are JSON"))
    }

    pub(super) fn decode(token: &str) -> Result<Self, String> {
        let known = (token.len() <= MAX_LENGTH).then(|| URL_SAFE_NO_PAD.decode(token).ok()).flatten();
        let known = known.and_then(|json| serde_json::from_slice(&json).ok());
        known.ok_or_else(|| "continue key is not valid".to_owned())
    }
}

/// Enough for a name of 63 bytes and a version of 20 digits.
const MAX_LENGTH: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continue_token_round_trips_and_others_are_refused() {
        let token = Continuation { version: u64::MAX, after: "a".repeat(63).parse().unwrap() };
        assert_eq!(Continuation::decode(&token.encode()), Ok(token));
        let encode = |json: &str| URL_SAFE_NO_PAD.encode(json);
        for wrong in [
            "x".to_owned(),
            "!".to_owned(),
            encode("{}"),
            encode(r#"{"rv":1,"after":"../m1"}"#),
            encode(r#"{"rv":-1,"after":"m1"}"#),
            encode(r#"{"rv":1,"after":"m1","x":1}"#),
            encode(&format!(r#"{{"rv":1,"after":"m1"{}}}"#, " ".repeat(300))),
        ] {
            assert!(Continuation::decode(&wrong).is_err(), "{wrong}");
        }
    }
}
