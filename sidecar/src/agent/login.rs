//! Determines the address of the host and the credential for it from files and flags, read again at each
//! attempt. A renewed token is used until the files contain one that expires later.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use hyper_util::client::proxy::matcher::Matcher;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kubectl_mc_api::direct::Publication;
use kubectl_mc_api::names::AGENTS;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde_json::json;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::config::Config;
use crate::token::{Life, Token};
use crate::upstream::connection::{self, Connection};

/// The agent's login to the host.
pub(super) struct Login {
    cluster: String,
    connection_dir: Option<PathBuf>,
    files: BTreeMap<&'static str, PathBuf>,
    values: BTreeMap<&'static str, String>,
    secret: Option<(String, String)>,
    kubeconfig: Option<PathBuf>,
    renewed: ArcSwapOption<String>,
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
            secret: config.token_secret.clone(),
            kubeconfig: config.kubeconfig.clone(),
            renewed: ArcSwapOption::default(),
            told: ArcSwapOption::default(),
        }
    }

    /// The current connection.
    pub(super) fn connection(&self) -> Result<Connection, LoginError> {
        let mut data = self.read()?;
        if let Some(token) = self.token(data.get("token")) {
            data.insert("token".to_owned(), ByteString(token.into_bytes()));
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

    /// Issue and expiry time of the token, if the credential is a token with both.
    pub(super) fn life(&self) -> Option<Life> {
        let data = self.read().ok()?;
        Token::of(&self.token(data.get("token"))?).life
    }

    /// Returns to the token in the files, because the host refused the renewed one.
    pub(super) fn forget_renewed(&self) {
        self.renewed.store(None);
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

    /// Takes a renewed token of the agent's own account, and stores it for the next run of the agent. Returns
    /// whether the token is one.
    pub(super) async fn renew(&self, token: &str) -> bool {
        let account = Token::of(token).account;
        let is_own =
            account.is_some_and(|account| account.namespace == AGENTS && account.name == self.cluster);
        if !is_own || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            warn!("the sidecar sent a credential that is not a token of this agent's account");
            return false;
        }
        self.renewed.store(Some(Arc::new(token.to_owned())));
        info!("credential renewed");
        self.write("token", token).await;
        true
    }

    /// Takes the CA of the direct endpoint, if this login uses that server, and stores it for the next run of
    /// the agent. Returns whether the message was valid.
    pub(super) async fn learn(&self, endpoint: &str) -> bool {
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
            self.write(AUTHORITY, &endpoint.authority).await;
        }
        true
    }

    /// The CA that the sidecar announced, until the files contain another one than at that time.
    fn authority(&self, in_file: Option<&ByteString>) -> Option<ByteString> {
        let told = self.told.load_full()?;
        (told.1.as_ref() == in_file).then(|| told.0.clone())
    }

    /// Writes a key of the agent's Secret, if there is one.
    async fn write(&self, key: &str, value: &str) {
        let Some((namespace, name)) = &self.secret else { return };
        let written = async {
            let member = crate::host_client::new(self.kubeconfig.as_deref()).await?;
            let secrets = Api::<Secret>::namespaced(member, namespace);
            let patch = Patch::Merge(json!({"stringData": {key: value}}));
            secrets.patch(name, &PatchParams::default(), &patch).await?;
            Ok::<(), anyhow::Error>(())
        };
        match timeout(TIMEOUT, written).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(key, error = %format!("{error:#}"), "cannot write to the Secret"),
            Err(_) => warn!(key, "writing to the Secret timed out"),
        }
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

    /// The token that expires later: that of the files, or the renewed one.
    fn token(&self, in_file: Option<&ByteString>) -> Option<String> {
        let in_file = in_file.and_then(|token| String::from_utf8(token.0.clone()).ok());
        let renewed = self.renewed.load().as_deref().cloned();
        let ends = |token: &Option<String>| Token::of(token.as_deref()?.trim()).life.map(|life| life.ends);
        match (&renewed, ends(&renewed) >= ends(&in_file)) {
            (Some(_), true) => renewed,
            _ => in_file,
        }
    }
}

/// `HTTPS_PROXY`, unless `NO_PROXY` excludes the server.
fn proxy_of_the_environment(server: Option<&ByteString>) -> Option<String> {
    let server = std::str::from_utf8(&server?.0).ok()?.trim().parse().ok()?;
    Matcher::from_env().intercept(&server)?;
    ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|url| !url.is_empty()))
}

const AUTHORITY: &str = "ca.crt";
/// The keys of a connection's Secret.
const KEYS: &[&str] = &[
    "server",
    AUTHORITY,
    "tls-server-name",
    "token",
    "tls.crt",
    "tls.key",
    "proxy-url",
    "proxy-ca.crt",
    "proxy-tls.crt",
    "proxy-tls.key",
];
const TIMEOUT: Duration = Duration::from_secs(10);
const REREAD: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;

    fn token(ends: i64) -> String {
        let claims = json!({"sub": "system:serviceaccount:kubectl-mc-agents:m1", "iat": 1000, "exp": ends})
            .to_string();
        format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(claims))
    }

    fn login(folder: &std::path::Path) -> Login {
        Login {
            cluster: "m1".to_owned(),
            connection_dir: Some(folder.to_owned()),
            files: BTreeMap::new(),
            values: BTreeMap::new(),
            secret: None,
            kubeconfig: None,
            renewed: ArcSwapOption::default(),
            told: ArcSwapOption::default(),
        }
    }

    #[tokio::test]
    async fn token_that_expires_later_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let write = |ends| std::fs::write(folder.path().join("token"), token(ends)).unwrap();
        let login = login(folder.path());
        let now = || login.life().unwrap().ends.as_second();
        write(2000);
        assert_eq!(now(), 2000);
        assert!(login.renew(&token(3000)).await);
        assert_eq!(now(), 3000);
        write(2500);
        assert_eq!(now(), 3000);
        write(4000);
        assert_eq!(now(), 4000);
        write(2500);
        login.forget_renewed();
        assert_eq!(now(), 2500);
    }

    #[tokio::test]
    async fn token_of_another_account_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let login = Login { cluster: "m2".to_owned(), ..login(folder.path()) };
        assert!(!login.renew(&token(3000)).await);
        assert!(!login.renew("opaque").await);
        assert!(login.life().is_none());
    }

    fn authority() -> String {
        let key = rcgen::KeyPair::generate().unwrap();
        rcgen::CertificateParams::default().self_signed(&key).unwrap().pem()
    }

    fn endpoint(server: &str, authority: &str) -> String {
        json!({"server": server, "ca.crt": authority}).to_string()
    }

    impl Login {
        /// The CA that the login trusts.
        pub(in crate::agent) fn trusted(&self) -> Option<Vec<u8>> {
            let in_file = self.read().unwrap().remove(AUTHORITY);
            let told = self.authority(in_file.as_ref());
            told.or(in_file).map(|authority| authority.0)
        }
    }

    fn trusted(login: &Login) -> Option<String> {
        login.trusted().map(|authority| String::from_utf8(authority).unwrap())
    }

    #[tokio::test]
    async fn announced_ca_is_used_until_the_files_change() {
        crate::server::tls::install_provider();
        let folder = tempfile::tempdir().unwrap();
        let write = |key: &str, value: &str| std::fs::write(folder.path().join(key), value).unwrap();
        let (old, new, other) = (authority(), authority(), authority());
        let login = login(folder.path());
        write("server", "https://mc.example/\n");
        write(AUTHORITY, &old);
        assert!(login.learn(&endpoint("https://mc.example", &new)).await);
        assert_eq!(trusted(&login), Some(new.clone()));
        write("token", &token(2000));
        login.connection().unwrap();
        // First the mounted files show the written Secret, then an administrator's change.
        write(AUTHORITY, &new);
        assert_eq!(trusted(&login), Some(new));
        write(AUTHORITY, &other);
        assert_eq!(trusted(&login), Some(other));
    }

    #[tokio::test]
    async fn ca_of_another_server_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let write = |key: &str, value: &str| std::fs::write(folder.path().join(key), value).unwrap();
        let (old, new) = (authority(), authority());
        let login = login(folder.path());
        // An agent that dials the host's kube-apiserver.
        write("server", "https://host.example:6443");
        write(AUTHORITY, &old);
        assert!(login.learn(&endpoint("https://mc.example", &new)).await);
        assert_eq!(trusted(&login), Some(old));
        // An agent that trusts the system's CAs.
        write("server", "https://mc.example");
        std::fs::remove_file(folder.path().join(AUTHORITY)).unwrap();
        assert!(login.learn(&endpoint("https://mc.example", &new)).await);
        assert_eq!(trusted(&login), None);
    }

    #[tokio::test]
    async fn endpoint_without_certificates_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let login = login(folder.path());
        let broken = "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n";
        for text in [
            "",
            "{}",
            &endpoint("https://mc.example", ""),
            &endpoint("https://mc.example", broken),
            &endpoint("mc", &authority()),
        ] {
            assert!(!login.learn(text).await, "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn changed_files_are_detected() {
        let folder = tempfile::tempdir().unwrap();
        let login = login(folder.path());
        let hour = Duration::from_secs(3600);
        assert!(timeout(hour, login.has_changed()).await.is_err());
        let write = async {
            sleep(hour).await;
            std::fs::write(folder.path().join("token"), token(2000)).unwrap();
            sleep(2 * REREAD).await;
        };
        tokio::select! {
            biased;
            () = login.has_changed() => {}
            () = write => panic!("it was not noticed"),
        }
    }

    #[test]
    fn missing_file_of_a_flag_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let mut login = login(folder.path());
        login.files.insert("ca.crt", "/does/not/exist".into());
        assert!(login.connection().unwrap_err().to_string().contains("/does/not/exist"));
    }
}
