//! Makes tokens of a cluster's service accounts that were issued long ago. The cluster's own key signs them,
//! so the cluster accepts them until they expire. They replace a wait that is too long for any
//! test.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use serde_json::Value;
use testbed::Cluster;

/// The same token with its times moved back by `age`; its lifetime stays the same.
pub fn aged(cluster: &Cluster, token: &str, age: Duration) -> Result<String> {
    let mut parts = token.split('.');
    let (head, claims) = parts.next().zip(parts.next()).context("no JWT")?;
    let mut claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims)?)?;
    for claim in ["iat", "nbf", "exp"] {
        let time = claims[claim].as_u64().context("no time")?;
        claims[claim] = (time - age.as_secs()).into();
    }
    let signed = format!("{head}.{}", URL_SAFE_NO_PAD.encode(claims.to_string()));
    let key = PrivateKeyDer::from_pem_slice(&fs::read(cluster.dir.join("service-account.key"))?)?;
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.secret_der())?;
    let signature = key.sign(&SystemRandom::new(), signed.as_bytes());
    let signature = signature.map_err(|error| anyhow!("cannot sign: {error}"))?;
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}
