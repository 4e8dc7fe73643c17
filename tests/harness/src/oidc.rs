//! Two issuers of ID tokens (OpenID Connect Core, section 2) that the host, or another cluster that is a
//! host, trusts. One server serves both: each one's keys and discovery document are two fixed
//! answers.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, ensure};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use testbed::Cluster;

use crate::api::Api;
use crate::bed::bed;
use crate::caller::Caller;
use crate::fake_member::{FakeMember, Request, Step, reply};
use crate::wait::eventually;

/// One issuer. The host prefixes all its user and group names with its name.
pub struct Issuer {
    name: &'static str,
    url: String,
    key: EcdsaKeyPair,
}

/// The issuer `oidc`, as soon as the host accepts its tokens: `sub` jane is `oidc:jane`, and `groups` dev is
/// `oidc:dev`; the claims `uid` and `tenant` become the uid and the extra [`TENANT`].
pub fn issuer() -> Result<&'static Issuer> {
    Ok(&of_the_host()?.ours)
}

/// Another issuer, whose names begin with `other:`.
pub fn other_issuer() -> Result<&'static Issuer> {
    Ok(&of_the_host()?.other)
}

impl Issuer {
    /// A caller with a fresh token.
    pub fn caller(&self, claims: &Value) -> Result<Caller> {
        self.caller_at(&bed()?.host, claims)
    }

    /// The same at another cluster that is a host.
    pub fn caller_at(&self, host: &Cluster, claims: &Value) -> Result<Caller> {
        let named = |claim: &Value| format!("{}:{}", self.name, claim.as_str().unwrap_or_default());
        let groups: Vec<_> = claims["groups"].as_array().into_iter().flatten().map(named).collect();
        let groups: Vec<_> = groups.iter().map(String::as_str).collect();
        Caller::bearer_at(host, &named(&claims["sub"]), &groups, self.token(claims)?)
    }

    /// A token with these claims. Unless `exp` is one of them, the token expires in an hour.
    pub fn token(&self, claims: &Value) -> Result<String> {
        let now = now()?;
        let mut all = json!({"iss": self.url, "aud": AUDIENCE, "iat": now, "exp": now + 3600});
        if let (Some(all), Some(claims)) = (all.as_object_mut(), claims.as_object()) {
            all.extend(claims.clone());
        }
        let head = json!({"alg": "ES256", "kid": self.name, "typ": "JWT"});
        let [head, all] = [head, all].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let signed = format!("{head}.{all}");
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes());
        let signature = signature.map_err(|error| anyhow!("cannot sign: {error}"))?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    fn new(name: &'static str) -> Result<Self> {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING)?;
        Ok(Self { name, url: String::new(), key })
    }

    /// Its public key (RFC 7517, RFC 7518 section 6.2.1).
    fn keys(&self) -> Result<Value> {
        let point = self.key.public_key().as_ref();
        ensure!(point.len() == 65, "no uncompressed point");
        let [x, y] = [&point[1..33], &point[33..]].map(|half| URL_SAFE_NO_PAD.encode(half));
        let (kind, curve) = ("EC", "P-256");
        Ok(json!({"keys": [{
            "kty": kind, "crv": curve, "x": x, "y": y, "kid": self.name, "alg": "ES256", "use": "sig",
        }]}))
    }

    /// Its entry in the host's configuration.
    fn trusted(&self, ca: &str) -> Value {
        let prefix = format!("{}:", self.name);
        json!({
            "issuer": {"url": self.url, "audiences": [AUDIENCE], "certificateAuthority": ca},
            "claimMappings": {
                "username": {"claim": "sub", "prefix": prefix},
                "groups": {"claim": "groups", "prefix": prefix},
                "uid": {"claim": "uid"},
                "extra": [{"key": TENANT, "valueExpression": "claims.tenant"}],
            },
        })
    }
}

/// Seconds since 1970.
pub fn now() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}

/// Both issuers, and the cluster that trusts them until this is dropped.
pub struct Issuers {
    pub ours: Issuer,
    other: Issuer,
    host: &'static Cluster,
    server: FakeMember,
}

impl Issuers {
    /// Waits until that cluster accepts their tokens. It no longer trusts the issuers of another test.
    pub fn of(host: &'static Cluster) -> Result<Self> {
        let [mut ours, mut other] = [Issuer::new("oidc")?, Issuer::new("other")?];
        let keys = [(ours.name, ours.keys()?), (other.name, other.keys()?)];
        let server = FakeMember::unregistered("e2e-oidc", move |request| answer(request, &keys))?;
        for issuer in [&mut ours, &mut other] {
            issuer.url = format!("https://{}/{}", server.address, issuer.name);
        }
        let issuers = Self { ours, other, host, server };
        issuers.trust(None)?;
        for issuer in [&issuers.ours, &issuers.other] {
            let token = issuer.token(&json!({"sub": "nobody", "uid": "0", "tenant": "none"}))?;
            let user = Api::bearer(host, &token)?;
            eventually("the host takes tokens of the issuer", RELOADED, || {
                user.get("/version").map(Some).context("it does not")
            })?;
        }
        Ok(issuers)
    }

    /// Configures the cluster for both, and for one more. The cluster reads this some time later.
    fn trust(&self, more: Option<&Value>) -> Result<()> {
        let ca = self.server.ca();
        let both = [self.ours.trusted(ca), self.other.trusted(ca)];
        self.host.trust_issuers(&both.iter().chain(more).cloned().collect())
    }
}

/// Lets the bed's host trust one more issuer, an element of `jwt` in an
/// AuthenticationConfiguration.
pub fn also_trust(issuer: &Value) -> Result<()> {
    of_the_host()?.trust(Some(issuer))
}

impl Drop for Issuers {
    fn drop(&mut self) {
        // The bed may already be gone.
        let _ = self.host.trust_issuers(&json!([]));
    }
}

fn of_the_host() -> Result<&'static Issuers> {
    static ISSUERS: OnceLock<Result<Issuers, String>> = OnceLock::new();
    let started =
        ISSUERS.get_or_init(|| bed().and_then(|bed| Issuers::of(&bed.host)).map_err(|e| format!("{e:#}")));
    started.as_ref().map_err(|error| anyhow!("{error}"))
}

/// The two documents of each issuer, below the issuer's own path.
fn answer(request: &Request, keys: &[(&'static str, Value)]) -> Vec<Step> {
    let json = |body: &Value| reply("200 OK", "Content-Type: application/json\r\n", &body.to_string());
    let url = format!("https://{}", request.values("host").concat());
    for (name, keys) in keys {
        let issuer = format!("{url}/{name}");
        match request.target().strip_prefix(&format!("/{name}/")) {
            Some(".well-known/openid-configuration") => {
                return json(&json!({
                    "issuer": issuer, "jwks_uri": format!("{issuer}/keys"),
                    "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
                    "id_token_signing_alg_values_supported": ["ES256"],
                }));
            }
            Some("keys") => return json(keys),
            _ => (),
        }
    }
    reply("404 Not Found", "", "")
}

/// The extra that is set from the claim `tenant`.
pub const TENANT: &str = "e2e.example/tenant";
/// The audience of the tokens.
const AUDIENCE: &str = "kubectl";
/// A kube-apiserver sees a change of its configuration at once, or after a minute, and checks every 10 s
/// whether all issuers answer.
pub const RELOADED: Duration = Duration::from_secs(90);

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    use super::*;

    #[test]
    fn token_signature_verifies_with_the_published_key() {
        let issuer = Issuer::new("oidc").unwrap();
        let token = issuer.token(&json!({"sub": "jane", "exp": 7})).unwrap();
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let claims = URL_SAFE_NO_PAD.decode(signed.split_once('.').unwrap().1).unwrap();
        let claims: Value = serde_json::from_slice(&claims).unwrap();
        assert_eq!((&claims["sub"], &claims["exp"]), (&json!("jane"), &json!(7)));
        let keys = issuer.keys().unwrap();
        let half = |name: &str| URL_SAFE_NO_PAD.decode(keys["keys"][0][name].as_str().unwrap()).unwrap();
        let point = [vec![4], half("x"), half("y")].concat();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
            .verify(signed.as_bytes(), &signature)
            .unwrap();
    }
}
