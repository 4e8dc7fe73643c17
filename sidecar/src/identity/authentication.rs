//! Authenticates callers with the delegated authenticators of an aggregated API server, in upstream's order
//! (apiserver: `authenticatorfactory/delegating.go`): request header, client certificate, bearer token. If
//! no credential failed, anonymous requests may be allowed.
//!
//! The first success wins; without one, the last error is returned. The caller's credential is removed from
//! the headers.

use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use http::{HeaderMap, HeaderName, header};
use tracing::debug;

use crate::connection::places::Proof;
use crate::head::audit_id::AUDIT_ID;
use crate::identity::Identity;
use crate::identity::peer::Peer;
use crate::identity::request_header;
use crate::identity::trust::{Proven, Trust};

mod credential_kinds;
mod error;
mod metrics;
mod outcome;
pub mod token_review;
pub mod websocket_protocol;

pub use credential_kinds::CredentialKinds;
pub use error::Error;
pub use metrics::Metrics;
pub use outcome::{Authenticated, By, Failed};
use token_review::TokenReviews;

/// The chain of authenticators.
pub struct Authenticator {
    trust: Arc<ArcSwap<Trust>>,
    tokens: TokenReviews,
    /// The identity of callers without a credential; `None` if such callers are refused.
    anonymous: Option<Arc<Identity>>,
    metrics: Metrics,
}

impl Authenticator {
    pub fn new(trust: Arc<ArcSwap<Trust>>, tokens: TokenReviews, anonymous: bool, metrics: Metrics) -> Self {
        Self { trust, tokens, anonymous: anonymous.then(|| Arc::new(Identity::anonymous())), metrics }
    }

    /// The number of cached token reviews.
    pub fn kept(&self) -> usize {
        self.tokens.kept()
    }

    /// Drops expired token reviews from the cache.
    pub fn forget_expired(&self) {
        self.tokens.forget_expired();
    }

    /// Whether the peer is the host's front proxy, according to the currently trusted CAs.
    pub fn is_front_proxy(&self, peer: &Peer) -> bool {
        peer.proven(&self.trust.load_full()).front_proxy
    }

    /// The identity that a peer's certificates prove, according to the currently trusted CAs.
    pub fn proof(&self, peer: &Peer) -> Proof {
        proof(&peer.proven(&self.trust.load_full()))
    }

    /// Authenticates the sender of `headers` on `peer`'s connection and removes every credential from them.
    /// A failure is logged and counted by the kinds of credential.
    pub async fn authenticate(&self, peer: &Peer, headers: &mut HeaderMap) -> Result<Authenticated, Failed> {
        let attempted = CredentialKinds::by(peer, headers);
        let begun = Instant::now();
        let authenticated = self.chain(peer, headers).await.map_err(|error| Failed { error, attempted });
        self.metrics.ended(&authenticated, begun.elapsed());
        if let Err(Failed { error, .. }) = &authenticated {
            let audit_id = headers.get(AUDIT_ID).and_then(|id| id.to_str().ok());
            debug!(audit_id, error = %error, "Authentication failed, {attempted}");
        }
        authenticated
    }

    async fn chain(&self, peer: &Peer, headers: &mut HeaderMap) -> Result<Authenticated, Error> {
        let trust = self.trust.load_full();
        let proven = peer.proven(&trust);
        let vouched = match (&trust.front_proxy, proven.front_proxy) {
            (Some(names), true) => request_header::identity(names, headers)?,
            _ => None,
        };
        let bearer = bearer_token(headers);
        let protocol = websocket_protocol::take_token(headers)?;
        remove_credentials(headers, &trust);

        if let Some(identity) = vouched {
            return Ok(Authenticated { identity: Arc::new(identity.authenticated()), by: By::RequestHeader });
        }
        if let Some(identity) = proven.user {
            return Ok(Authenticated { identity, by: By::ClientCertificate });
        }
        let mut refused = proven.refused.map(Error::Certificate);
        for token in bearer.into_iter().chain(protocol.map(Ok)) {
            let reviewed = match token {
                Ok(token) => self.tokens.authenticate(&token, peer.holder()).await,
                Err(error) => Err(error),
            };
            match reviewed {
                Ok(identity) => return Ok(Authenticated { identity, by: By::Token }),
                Err(error) => refused = Some(error),
            }
        }
        match (refused, &self.anonymous) {
            (Some(error), _) => Err(error),
            (None, Some(identity)) => Ok(Authenticated { identity: identity.clone(), by: By::Nothing }),
            (None, None) => Err(Error::NoCredential),
        }
    }
}

fn proof(proven: &Proven) -> Proof {
    match proven.user {
        _ if proven.front_proxy => Proof::FrontProxy,
        Some(_) => Proof::User,
        None => Proof::Nothing,
    }
}

/// The bearer token of the first `Authorization` header (RFC 6750, 2.1; Go: `Header.Get`). The scheme is
/// case-insensitive. A single word must follow it: a kube-apiserver uses the first of several
/// words, so the same token could be spelled with any text after it. A token need not be token68,
/// because some clusters use a colon.
fn bearer_token(headers: &HeaderMap) -> Option<Result<String, Error>> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes().trim_ascii();
    let (scheme, token) = value.split_at(value.iter().position(|byte| *byte == b' ')?);
    let token = token.trim_ascii();
    if !scheme.eq_ignore_ascii_case(b"bearer") || token.is_empty() {
        return None;
    }
    let is_one_word = |token: &&str| token.bytes().all(|byte| byte.is_ascii_graphic());
    let token = std::str::from_utf8(token).ok().filter(is_one_word);
    Some(token.map(str::to_owned).ok_or(Error::MalformedToken))
}

fn remove_credentials(headers: &mut HeaderMap, trust: &Trust) {
    headers.remove(header::AUTHORIZATION);
    let Some(names) = &trust.front_proxy else { return };
    let identity: Vec<HeaderName> = headers.keys().filter(|name| names.owns(name)).cloned().collect();
    for name in identity {
        while headers.remove(&name).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn cve_2023_48312_bearer_token_needs_scheme_and_value() {
        for (value, token) in [
            ("Bearer abc", Some("abc")),
            ("bearer  abc ", Some("abc")),
            ("Bearer kubeconfig-u-1:a.b~c/d+e==", Some("kubeconfig-u-1:a.b~c/d+e==")),
            ("Basic abc", None),
            ("Bearer", None),
            ("Bearer ", None),
        ] {
            let taken = bearer_token(&authorization(&[value])).transpose().unwrap();
            assert_eq!(taken.as_deref(), token, "{value:?}");
        }
    }

    #[test]
    fn bearer_token_of_several_words_is_refused() {
        for value in
            ["Bearer abc x", "Bearer abc  x", "Bearer abc\tx", "Bearer abc, Bearer def", "bearer Bearer abc"]
        {
            let taken = bearer_token(&authorization(&[value]));
            assert!(matches!(taken, Some(Err(Error::MalformedToken))), "{value:?}");
        }
    }

    #[test]
    fn bearer_token_beyond_ascii_is_refused() {
        let taken = bearer_token(&authorization(&["Bearer ü"]));
        assert!(matches!(taken, Some(Err(Error::MalformedToken))));
    }

    #[test]
    fn fault_16_only_the_first_authorization_header_counts() {
        for (lines, token) in [
            (&["Bearer abc", "Bearer def"], Some("abc")),
            (&["Basic abc", "Bearer def"], None),
            (&["", "Bearer def"], None),
        ] {
            let taken = bearer_token(&authorization(lines)).transpose().unwrap();
            assert_eq!(taken.as_deref(), token, "{lines:?}");
        }
    }

    #[test]
    fn every_line_of_a_credential_is_removed() {
        let name = |name| vec![HeaderName::from_static(name)];
        let names = request_header::HeaderNames {
            user: name("x-remote-user"),
            uid: name("x-remote-uid"),
            group: name("x-remote-group"),
            extra: vec!["x-remote-extra-".to_owned()],
        };
        let lines = [
            "authorization",
            "x-remote-user",
            "x-remote-uid",
            "x-remote-group",
            "x-remote-extra-a",
            "accept",
        ];
        let headers = || -> HeaderMap {
            let twice = lines.iter().chain(&lines);
            twice.map(|name| (HeaderName::from_static(name), HeaderValue::from_static("x"))).collect()
        };
        let removed = |trust: &Trust| {
            let mut headers = headers();
            remove_credentials(&mut headers, trust);
            lines.iter().filter(|name| !headers.contains_key(**name)).count()
        };
        let mut trust = Trust::default();
        assert_eq!(removed(&trust), 1, "without a front proxy its headers are anybody's");
        trust.front_proxy = Some(names);
        assert_eq!(removed(&trust), 5);
    }

    #[test]
    fn front_proxy_certificate_precedes_a_user_certificate() {
        let user = || Some(Arc::new(Identity::default()));
        let kinds = [(true, user()), (true, None), (false, user()), (false, None)];
        let kinds = kinds.map(|(front_proxy, user)| proof(&Proven { front_proxy, user, refused: None }));
        assert!(matches!(kinds, [Proof::FrontProxy, Proof::FrontProxy, Proof::User, Proof::Nothing]));
    }

    fn authorization(lines: &[&'static str]) -> HeaderMap {
        lines.iter().map(|line| (header::AUTHORIZATION, HeaderValue::from_str(line).unwrap())).collect()
    }
}
