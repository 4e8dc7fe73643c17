//! Determines the address of the host and the credential for it from files and flags, read again at each
//! attempt. A renewed token is used until the files contain one that expires later.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use k8s_openapi::ByteString;
use kubectl_mc_api::direct::Publication;
use kubectl_mc_api::environment_proxy::Environment;
use kubectl_mc_api::names::AGENTS;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::config::Config;
use crate::host::token::{Life, Token};
use crate::outbound::upstream::connection::{self, Connection};

mod secret;

use secret::OwnSecret;

/// The agent's login to the host.
pub(super) struct Login {
    cluster: String,
    connection_dir: Option<PathBuf>,
    files: BTreeMap<&'static str, PathBuf>,
    values: BTreeMap<&'static str, String>,
    /// The agent's Secret, if it has one.
    secret: Option<OwnSecret>,
    renewed: ArcSwapOption<String>,
    /// The token that the host refused most recently.
    refused: ArcSwapOption<String>,
    /// Notified when the sidecar has sent something to store.
    received: Notify,
    /// The CA that the sidecar announced, and the CA in the files at that time.
    told: ArcSwapOption<(ByteString, Option<ByteString>)>,
}

/// Why the host cannot be dialed.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoginError {
    #[error("cannot read {}: {error}", .file.display())]
    File { file: PathBuf, error: std::io::Error },
    #[error("the connection to the host is invalid: {0}")]
    Connection(#[from] connection::Error),
}

impl Login {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            cluster: config.cluster.to_string(),
            connection_dir: config.connection_dir.clone(),
            files: config.files.clone(),
            values: config.values.clone(),
            secret: OwnSecret::of(config),
            renewed: ArcSwapOption::default(),
            refused: ArcSwapOption::default(),
            received: Notify::new(),
            told: ArcSwapOption::default(),
        }
    }

    /// The current connection.
    pub(super) fn connection(&self) -> Result<Connection, LoginError> {
        let mut data = self.read()?;
        if let Some(token) = self.token(data.get(TOKEN)) {
            data.insert(TOKEN.to_owned(), ByteString(token.into_bytes()));
        }
        if let Some(authority) = self.authority(data.get(AUTHORITY)) {
            data.insert(AUTHORITY.to_owned(), authority);
        }
        if !data.contains_key("proxy-url")
            && let Some(proxy) = proxy_of_the_environment(data.get("server"))
        {
            data.insert("proxy-url".to_owned(), ByteString(proxy.into_bytes()));
        }
        Ok(Connection::parse(&data)?)
    }

    /// Whether the system's CAs verify the host, because the files contain none.
    pub(super) fn is_unpinned(&self) -> bool {
        self.read().is_ok_and(|data| !data.contains_key(AUTHORITY))
    }

    /// Issue and expiry time of the token, if the credential is a token with both.
    pub(super) fn life(&self) -> Option<Life> {
        let data = self.read().ok()?;
        Token::of(&self.token(data.get(TOKEN))?).life
    }

    /// Uses the other token for the next attempt, if there is one: that of the files, or the
    /// renewed one. A host that temporarily cannot verify a valid token also refuses it, so neither
    /// token is dropped.
    pub(super) fn was_refused(&self, connection: &Connection) {
        let authorization = connection.authorization();
        let token = authorization.as_ref().and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        self.refused.store(token.map(|token| Arc::new(token.to_owned())));
    }

    /// Resolves when the files change.
    pub(super) async fn has_changed(&self) {
        let before = self.read().ok();
        loop {
            sleep(REREAD).await;
            if self.read().ok() != before {
                return;
            }
        }
    }

    /// Takes a renewed token of the agent's own account. Returns whether the token is one.
    pub(super) fn renew(&self, token: &str) -> bool {
        let account = Token::of(token).account;
        let is_own =
            account.is_some_and(|account| account.namespace == AGENTS && account.name == self.cluster);
        if !is_own || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            warn!("the sidecar sent a credential that is not a token of this agent's account");
            return false;
        }
        self.renewed.store(Some(Arc::new(token.to_owned())));
        info!("credential renewed");
        self.received.notify_one();
        true
    }

    /// Takes the CA of the direct endpoint, if this login uses that server. Returns whether the message was
    /// valid.
    pub(super) fn learn(&self, endpoint: &str) -> bool {
        let Ok(endpoint) = serde_json::from_str::<Publication>(endpoint) else { return false };
        let certificates: Result<Vec<_>, _> =
            CertificateDer::pem_slice_iter(endpoint.authority.as_bytes()).collect();
        if !certificates.is_ok_and(|certificates| !certificates.is_empty()) {
            return false;
        }
        let Ok(data) = self.read() else { return true };
        let server = data.get("server").and_then(|server| std::str::from_utf8(&server.0).ok());
        let is_dialed =
            server.is_some_and(|server| server.trim().trim_end_matches('/') == endpoint.server.url());
        let in_file = data.get(AUTHORITY);
        let authority = ByteString(endpoint.authority.clone().into_bytes());
        // Without a CA in the files, the system's CAs verify the server.
        if is_dialed && in_file.is_some() && self.authority(in_file).as_ref().or(in_file) != Some(&authority)
        {
            self.told.store(Some(Arc::new((authority, in_file.cloned()))));
            info!("CA of the direct endpoint updated");
            self.received.notify_one();
        }
        true
    }

    /// The CA that the sidecar announced, until the files contain a different one than at that
    /// time.
    fn authority(&self, in_file: Option<&ByteString>) -> Option<ByteString> {
        let told = self.told.load_full()?;
        (told.1.as_ref() == in_file).then(|| told.0.clone())
    }

    /// Stores the data that the sidecar sent in the agent's Secret, for the agent's next run.
    /// Failed writes are retried: a token that is only in memory is lost with the process, and the
    /// one in the files expires. Resolves only if there is no Secret.
    pub(super) async fn keep_stored(&self) {
        let Some(secret) = &self.secret else { return };
        let mut stored = BTreeMap::new();
        loop {
            let received = self.read().map(|data| self.received_for(&data)).unwrap_or_default();
            if !received.is_empty() && received != stored {
                match timeout(TIMEOUT, secret.write(&received)).await {
                    Ok(Ok(())) => stored = received,
                    Ok(Err(error)) => {
                        warn!(error = %format!("{error:#}"), "cannot write to the Secret, retrying");
                    }
                    Err(_) => warn!("writing to the Secret timed out, retrying"),
                }
            }
            // Data that arrives in the meantime is written together with it.
            let _ = timeout(RETRY, self.received.notified()).await;
        }
    }

    /// The data that the agent uses instead of the files' values.
    fn received_for(&self, data: &BTreeMap<String, ByteString>) -> BTreeMap<&'static str, String> {
        let used = [
            (TOKEN, self.token(data.get(TOKEN)).map(|token| ByteString(token.into_bytes()))),
            (AUTHORITY, self.authority(data.get(AUTHORITY))),
        ];
        let received = used.into_iter().filter_map(|(key, value)| {
            let value = value.filter(|value| data.get(key) != Some(value))?;
            Some((key, String::from_utf8(value.0).ok()?))
        });
        received.collect()
    }

    fn read(&self) -> Result<BTreeMap<String, ByteString>, LoginError> {
        let mut data = BTreeMap::new();
        for key in KEYS {
            let file = match (self.files.get(key), &self.connection_dir) {
                (Some(file), _) => file.clone(),
                (None, Some(folder)) => folder.join(key),
                (None, None) => continue,
            };
            match std::fs::read(&file) {
                Ok(value) => {
                    data.insert((*key).to_owned(), ByteString(value));
                }
                Err(error)
                    if error.kind() == std::io::ErrorKind::NotFound && !self.files.contains_key(key) => {}
                Err(error) => return Err(LoginError::File { file, error }),
            }
        }
        for (key, value) in &self.values {
            data.insert((*key).to_owned(), ByteString(value.clone().into_bytes()));
        }
        Ok(data)
    }

    /// Of the token in the files and the renewed one, the one that expires later; the other one, if
    /// the host refused that one most recently.
    fn token(&self, in_file: Option<&ByteString>) -> Option<String> {
        let in_file = in_file.and_then(|token| String::from_utf8(token.0.clone()).ok());
        let renewed = self.renewed.load().as_deref().cloned();
        let ends = |token: &Option<String>| Token::of(token.as_deref()?.trim()).life.map(|life| life.ends);
        let (first, second) = match renewed.is_some() && ends(&renewed) >= ends(&in_file) {
            true => (renewed, in_file),
            false => (in_file, renewed),
        };
        let refused = self.refused.load();
        match first.as_deref().map(str::trim) == refused.as_deref().map(String::as_str) {
            true => second.or(first),
            false => first,
        }
    }
}

/// `HTTPS_PROXY`, unless `NO_PROXY` excludes the server, by Go's rules.
fn proxy_of_the_environment(server: Option<&ByteString>) -> Option<String> {
    proxy_of(server, |name| std::env::var(name).ok())
}

fn proxy_of(server: Option<&ByteString>, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let server: http::Uri = std::str::from_utf8(&server?.0).ok()?.trim().parse().ok()?;
    let first = |names: &[&str]| {
        let values = names.iter().filter_map(|name| variable(name));
        values.into_iter().find(|value| !value.is_empty()).unwrap_or_default()
    };
    // Go does not use ALL_PROXY, but other programs do.
    let https = first(&["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]);
    let environment = Environment { https: &https, http: "", no: &first(&["NO_PROXY", "no_proxy"]) };
    environment.proxy("https", server.host()?, server.port_u16())
}

const TOKEN: &str = "token";
const AUTHORITY: &str = "ca.crt";
/// The keys of a connection's Secret.
const KEYS: &[&str] = &[
    "server",
    AUTHORITY,
    "tls-server-name",
    TOKEN,
    "tls.crt",
    "tls.key",
    "proxy-url",
    "proxy-ca.crt",
    "proxy-tls.crt",
    "proxy-tls.key",
];
const TIMEOUT: Duration = Duration::from_secs(10);
const REREAD: Duration = Duration::from_secs(5);
/// Pause before another attempt to store.
const RETRY: Duration = Duration::from_secs(60);

#[cfg(test)]
pub(super) mod tests;
