//! Reads the TLS files for the connection between the sidecar and an https proxy:
//! `--proxy-certificate-authority`, `--proxy-client-certificate` and `--proxy-client-key`. They are checked
//! before anything is written.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::sign::CertifiedKey;

use super::pem;
use crate::cli::ConnectionArgs;
use crate::error::Failure;

/// The keys of a member's Secret for TLS to its proxy, as PEM.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct ProxyTls {
    authority: Option<String>,
    /// The certificate and its private key.
    certificate: Option<(String, String)>,
}

impl ProxyTls {
    /// Reads the files of the flags. `proxy_url` is the sidecar's proxy, from the flag or the kubeconfig.
    pub(crate) fn read(flags: &ConnectionArgs, proxy_url: Option<&str>) -> Result<Self, Failure> {
        let ConnectionArgs {
            proxy_certificate_authority, proxy_client_certificate, proxy_client_key, ..
        } = flags;
        let given = [
            (AUTHORITY, proxy_certificate_authority),
            (CHAIN, proxy_client_certificate),
            (KEY, proxy_client_key),
        ];
        let Some((flag, _)) = given.into_iter().find(|(_, file)| file.is_some()) else {
            return Ok(Self::default());
        };
        match proxy_url.map(|url| url.split_once("://").map_or("", |(scheme, _)| scheme)) {
            Some(scheme) if scheme.eq_ignore_ascii_case("https") => {}
            Some(scheme) => {
                return Err(no_https(flag, &format!("the URL of the proxy begins with {scheme}://")));
            }
            None => return Err(no_https(flag, "there is no --proxy-url")),
        }
        let certificate = match (proxy_client_certificate, proxy_client_key) {
            (Some(chain), Some(key)) => Some(certificate(chain, key)?),
            (Some(_), None) => return Err(half(CHAIN, KEY)),
            (None, Some(_)) => return Err(half(KEY, CHAIN)),
            (None, None) => None,
        };
        let authority = proxy_certificate_authority.as_ref().map(authority).transpose()?;
        Ok(Self { authority, certificate })
    }

    /// Adds the keys to a Secret's data.
    pub(crate) fn insert_into(&self, data: &mut BTreeMap<&'static str, String>) {
        let Self { authority, certificate } = self;
        data.extend(authority.iter().map(|pem| ("proxy-ca.crt", pem.clone())));
        if let Some((chain, key)) = certificate {
            data.extend([(CREDENTIAL[0], chain.clone()), (CREDENTIAL[1], key.clone())]);
        }
    }

    pub(crate) fn has_key(&self) -> bool {
        self.certificate.is_some()
    }
}

/// Omits the private key.
impl fmt::Debug for ProxyTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyTls").field("authority", &self.authority).finish_non_exhaustive()
    }
}

fn authority(file: &OsString) -> Result<String, Failure> {
    pem::authorities(&read(AUTHORITY, file)?)
        .ok_or_else(|| invalid(AUTHORITY, file, "it is not a PEM bundle of certificate authorities"))
}

fn certificate(chain_file: &OsString, key_file: &OsString) -> Result<(String, String), Failure> {
    let chain = pem::blocks(&read(CHAIN, chain_file)?, "CERTIFICATE");
    let key = pem::blocks(&read(KEY, key_file)?, "PRIVATE KEY");
    let certificates =
        pem::certificates(&chain).ok_or_else(|| invalid(CHAIN, chain_file, "it is not a PEM certificate"))?;
    let private = PrivateKeyDer::from_pem_slice(key.as_bytes())
        .map_err(|_| invalid(KEY, key_file, "it is not a PEM private key without a password"))?;
    CertifiedKey::from_der(certificates, private, &default_provider()).map_err(|_| {
        let [key, chain] = [key_file, chain_file].map(|file| file.to_string_lossy());
        Failure::usage(format!("the key of {KEY}, {key}, does not match the certificate of {CHAIN}, {chain}"))
    })?;
    Ok((chain, key))
}

fn read(flag: &'static str, file: &OsString) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(|error| {
        Failure::usage(format!("cannot read the file of {flag}, {}", file.to_string_lossy())).because(&error)
    })
}

fn invalid(flag: &'static str, file: &OsString, reason: &'static str) -> Failure {
    Failure::usage(format!("cannot use the file of {flag}, {}: {reason}", file.to_string_lossy()))
}

fn no_https(flag: &str, why: &str) -> Failure {
    Failure::usage(format!("{flag} needs an https proxy, and {why}"))
        .with_hint(format!("set the proxy by --proxy-url=https://…, or leave out {flag}"))
}

fn half(given: &str, missing: &str) -> Failure {
    Failure::usage(format!("{given} needs {missing} too")).with_hint(format!("add {missing}=FILE"))
}

const AUTHORITY: &str = "--proxy-certificate-authority";
const CHAIN: &str = "--proxy-client-certificate";
const KEY: &str = "--proxy-client-key";

/// The keys of the Secret that are a credential for the proxy. The member never receives them.
pub(crate) const CREDENTIAL: [&str; 2] = ["proxy-tls.crt", "proxy-tls.key"];

#[cfg(test)]
mod tests;
