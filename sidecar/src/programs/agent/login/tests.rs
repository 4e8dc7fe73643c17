use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;

use super::*;
use crate::host::fake;
use crate::programs::agent;

fn token(ends: i64) -> String {
    let claims =
        json!({"sub": "system:serviceaccount:kubectl-mc-agents:m1", "iat": 1000, "exp": ends}).to_string();
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
        refused: ArcSwapOption::default(),
        received: Notify::new(),
        told: ArcSwapOption::default(),
    }
}

#[test]
fn token_that_expires_later_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let write = |ends| std::fs::write(folder.path().join("token"), token(ends)).unwrap();
    let login = login(folder.path());
    let now = || login.life().unwrap().ends.as_second();
    write(2000);
    assert_eq!(now(), 2000);
    assert!(login.renew(&token(3000)));
    assert_eq!(now(), 3000);
    write(2500);
    assert_eq!(now(), 3000);
    write(4000);
    assert_eq!(now(), 4000);
}

/// A host that temporarily cannot verify tokens refuses a valid one.
#[test]
fn refused_token_and_the_other_one_are_used_in_turn() {
    let folder = tempfile::tempdir().unwrap();
    let write = |key: &str, value: &str| std::fs::write(folder.path().join(key), value).unwrap();
    write("server", "https://mc.example");
    write("token", &format!("{}\n", token(2000)));
    let login = login(folder.path());
    let is_refused = || login.was_refused(&login.connection().unwrap());
    let now = || login.life().unwrap().ends.as_second();
    is_refused();
    assert_eq!(now(), 2000, "there is no other token");
    assert!(login.renew(&token(3000)));
    for expected in [3000, 2000, 3000] {
        assert_eq!(now(), expected);
        is_refused();
    }
    assert!(login.renew(&token(4000)));
    assert_eq!(now(), 4000);
}

#[tokio::test(start_paused = true)]
async fn token_that_could_not_be_stored_is_stored_later() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("token"), token(2000)).unwrap();
    let ((log, written), storing) = (mpsc::channel(), AtomicUsize::new(0));
    let (member, attempts) = fake::host(move |body| {
        if storing.fetch_add(1, Ordering::SeqCst) < 2 {
            return (403, json!({"kind": "Status", "apiVersion": "v1", "code": 403, "message": "no"}));
        }
        log.send(body["stringData"].clone()).unwrap();
        (200, json!({"kind": "Secret", "apiVersion": "v1"}))
    });
    let config = Config {
        token_secret: Some(("n".to_owned(), "s".to_owned())),
        ..agent::tests::config("127.0.0.1:1", 4)
    };
    let secret = OwnSecret::of(&config).unwrap();
    assert!(secret.member.set(member).is_ok());
    let login = Login { secret: Some(secret), ..login(folder.path()) };
    assert!(login.renew(&token(3000)));
    let day = Duration::from_secs(24 * 3600);
    assert!(timeout(day, login.keep_stored()).await.is_err());
    assert_eq!(written.try_iter().collect::<Vec<_>>(), [json!({"token": token(3000)})]);
    assert_eq!(attempts.load(Ordering::SeqCst), 3);
}

/// An administrator's token must not be overwritten.
#[test]
fn token_that_is_not_used_any_more_is_not_stored() {
    let folder = tempfile::tempdir().unwrap();
    let write = |ends| std::fs::write(folder.path().join("token"), token(ends)).unwrap();
    let login = login(folder.path());
    write(2000);
    assert!(login.renew(&token(3000)));
    let received = || login.received_for(&login.read().unwrap());
    assert_eq!(received(), BTreeMap::from([(TOKEN, token(3000))]));
    write(4000);
    assert_eq!(received(), BTreeMap::new());
}

#[test]
fn token_of_another_account_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let login = Login { cluster: "m2".to_owned(), ..login(folder.path()) };
    assert!(!login.renew(&token(3000)));
    assert!(!login.renew("opaque"));
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
    pub(in crate::programs::agent) fn trusted(&self) -> Option<Vec<u8>> {
        let in_file = self.read().unwrap().remove(AUTHORITY);
        let told = self.authority(in_file.as_ref());
        told.or(in_file).map(|authority| authority.0)
    }
}

fn trusted(login: &Login) -> Option<String> {
    login.trusted().map(|authority| String::from_utf8(authority).unwrap())
}

#[test]
fn announced_ca_is_used_until_the_files_change() {
    crate::connection::tls::install_provider();
    let folder = tempfile::tempdir().unwrap();
    let write = |key: &str, value: &str| std::fs::write(folder.path().join(key), value).unwrap();
    let (old, new, other) = (authority(), authority(), authority());
    let login = login(folder.path());
    write("server", "https://mc.example/\n");
    write(AUTHORITY, &old);
    assert!(login.learn(&endpoint("https://mc.example", &new)));
    assert_eq!(trusted(&login), Some(new.clone()));
    write("token", &token(2000));
    login.connection().unwrap();
    // First the mounted files show the written Secret, then an administrator's change.
    write(AUTHORITY, &new);
    assert_eq!(trusted(&login), Some(new));
    write(AUTHORITY, &other);
    assert_eq!(trusted(&login), Some(other));
}

#[test]
fn ca_of_another_server_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let write = |key: &str, value: &str| std::fs::write(folder.path().join(key), value).unwrap();
    let (old, new) = (authority(), authority());
    let login = login(folder.path());
    // An agent that dials the host's kube-apiserver.
    write("server", "https://host.example:6443");
    write(AUTHORITY, &old);
    assert!(login.learn(&endpoint("https://mc.example", &new)));
    assert_eq!(trusted(&login), Some(old));
    // An agent that trusts the system's CAs.
    write("server", "https://mc.example");
    std::fs::remove_file(folder.path().join(AUTHORITY)).unwrap();
    assert!(login.learn(&endpoint("https://mc.example", &new)));
    assert_eq!(trusted(&login), None);
}

#[test]
fn endpoint_without_certificates_is_refused() {
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
        assert!(!login.learn(text), "{text}");
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

#[test]
fn proxy_of_the_environment_has_the_rules_of_go() {
    let server = ByteString(b"https://api.example.com:6443\n".to_vec());
    let proxy = |https: &str, no: &str| {
        let variable = |name: &str| match name {
            "all_proxy" => Some(https.to_owned()),
            "NO_PROXY" => Some(no.to_owned()),
            _ => None,
        };
        proxy_of(Some(&server), variable)
    };
    assert_eq!(proxy("p:3128", "").as_deref(), Some("http://p:3128"));
    assert_eq!(proxy("socks5h://p", "example.com:443").as_deref(), Some("socks5h://p"));
    for no in ["*", "example.com:6443", ".example.com"] {
        assert_eq!(proxy("p:3128", no), None, "{no}");
    }
}
