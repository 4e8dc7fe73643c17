//! How the host is reached and with which credential: the keys of a connection, as files or flags have them, read again
//! at every attempt. A renewed token counts until the files have one that lasts longer.

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
use kubectl_mc_api::names::AGENTS;
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
    renewed: ArcSwapOption<String>,
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
            renewed: ArcSwapOption::default(),
        }
    }

    /// The connection as it is now.
    pub(super) fn connection(&self) -> Result<Connection, LoginError> {
        let mut data = self.read()?;
        if let Some(token) = self.token(data.get("token")) {
            data.insert("token".to_owned(), ByteString(token.into_bytes()));
        }
        if !data.contains_key("proxy-url")
            && let Some(proxy) = proxy_of_the_environment(data.get("server"))
        {
            data.insert("proxy-url".to_owned(), ByteString(proxy.into_bytes()));
        }
        Ok(Connection::parse(&data)?)
    }

    /// The life of the token, if the login is one that says it.
    pub(super) fn life(&self) -> Option<Life> {
        let data = self.read().ok()?;
        Token::of(&self.token(data.get("token"))?).life
    }

    /// Goes back to the token in the files: the host refused the renewed one.
    pub(super) fn forget_renewed(&self) {
        self.renewed.store(None);
    }

    /// Resolves when the files are others than now.
    pub(super) async fn has_changed(&self) {
        let before = self.read().ok();
        loop {
            sleep(REREAD).await;
            if self.read().ok() != before {
                return;
            }
        }
    }

    /// Takes a renewed token of the agent's own account, and writes it where the next run of the agent finds it. Says
    /// whether it is one.
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
        let Some((namespace, name)) = &self.secret else { return true };
        let written = async {
            let member = crate::app::host(None).await?;
            let secrets = Api::<Secret>::namespaced(member, namespace);
            let patch = Patch::Merge(json!({"stringData": {"token": token}}));
            secrets.patch(name, &PatchParams::default(), &patch).await?;
            Ok::<(), anyhow::Error>(())
        };
        match timeout(TIMEOUT, written).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                warn!(error = %format!("{error:#}"), "cannot write the renewed credential to the Secret")
            }
            Err(_) => warn!("writing the renewed credential to the Secret timed out"),
        }
        true
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

    /// Of the token in the files and the renewed one, the one that lasts longer.
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

/// What a connection's Secret can have.
const KEYS: &[&str] = &[
    "server",
    "ca.crt",
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
            renewed: ArcSwapOption::default(),
        }
    }

    #[tokio::test]
    async fn the_token_that_lasts_longer_counts() {
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
    async fn token_of_another_account_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let login = Login { cluster: "m2".to_owned(), ..login(folder.path()) };
        assert!(!login.renew(&token(3000)).await);
        assert!(!login.renew("opaque").await);
        assert!(login.life().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn changed_files_are_noticed() {
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
    fn missing_file_that_a_flag_names_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let mut login = login(folder.path());
        login.files.insert("ca.crt", "/does/not/exist".into());
        assert!(login.connection().unwrap_err().to_string().contains("/does/not/exist"));
    }
}
