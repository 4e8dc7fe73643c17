//! Tests OpenID Connect issuers that cannot be used. The end-to-end tests use a real issuer.

use serde_json::{Value, json};
use tokio::sync::watch;

use super::Scene;
use crate::bed::Ran;
use crate::tls_server::TlsServer;

impl Scene {
    fn oidc(&self, issuer: &str, more: &[&str]) -> Ran {
        std::fs::write(self.bed.path("ca.pem"), self.authority.pem()).unwrap();
        let issuer = format!("--oidc-issuer-url={issuer}");
        let flags = ["login", &issuer, "--oidc-client-id=kubectl", "--oidc-certificate-authority=ca.pem"];
        self.bed.run(&[&flags, more].concat())
    }
}

#[test]
fn unusable_issuers_are_named() {
    let scene = Scene::new(201);
    let answering = |code, body: String| TlsServer::new(&scene.authority, move |_| (code, body.clone()));
    for (issuer, more, words) in [
        (answering(404, "no".to_owned()), &[][..], "openid-configuration answered 404: no"),
        (answering(200, "{}".to_owned()), &[], "unexpected answer of "),
        (answering(200, "<html>".to_owned()), &[], "unexpected answer of "),
        (
            answering(
                200,
                json!({"issuer": "https://evil\u{1b}", "token_endpoint": "https://x"}).to_string(),
            ),
            &[],
            ", found https://evil^[",
        ),
    ] {
        let ran = scene.oidc(&issuer.url, more);
        assert!(ran.code == Some(1) && ran.err.contains(words), "{ran:?}");
    }
    let ran = scene.oidc("http://127.0.0.1:1", &[]);
    assert!(ran.err.contains("is not an https URL"), "{ran:?}");
    let ran = scene.oidc("https://127.0.0.1:1", &[]);
    assert!(ran.err.contains("cannot reach the issuer at https://127.0.0.1:1/.well-known/"), "{ran:?}");
    assert_eq!(scene.file(), None);
}

/// An attacker's kubeconfig names the real host and an issuer of the attacker.
#[test]
fn refresh_token_goes_to_no_other_issuer() {
    let scene = Scene::new(201);
    let ran = scene.login("secret-token", &[]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let file = scene.file().unwrap();
    let mut record: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let server = format!("--server={}", scene.host.url);
    let own =
        ["credential", "--login=host", &server, "--oidc-issuer-url=https://i", "--oidc-client-id=kubectl"];
    record["arguments"] = json!(own);
    record["refresh_token"] = "secret-refresh".into();
    record["client_secret"] = "secret-client".into();
    std::fs::write(&file, record.to_string()).unwrap();
    scene.expire();
    let (known, url) = watch::channel(String::new());
    let evil = TlsServer::new(&scene.authority, move |path| {
        let url = url.borrow().clone();
        let at = |path: &str| format!("{url}/{path}");
        let body = match path {
            "/device" => {
                json!({"device_code": "d", "user_code": "u", "verification_uri": url, "expires_in": 1})
            }
            _ => json!({
                "issuer": url, "token_endpoint": at("token"), "device_authorization_endpoint": at("device"),
                "revocation_endpoint": at("revoke"),
            }),
        };
        (200, body.to_string())
    });
    known.send_replace(evil.url.clone());
    std::fs::write(scene.bed.path("ca.pem"), scene.authority.pem()).unwrap();
    let issuer = format!("--oidc-issuer-url={}", evil.url);
    let authority = format!("--oidc-certificate-authority={}", scene.bed.path("ca.pem").display());
    let words = [
        "credential",
        "--login=host",
        &server,
        &issuer,
        "--oidc-client-id=kubectl",
        &authority,
        "--oidc-device-code",
    ];
    let ran = scene.bed.run_with("KUBERNETES_EXEC_INFO", scene.info().to_string(), &words);
    assert!(ran.code == Some(1) && ran.err.contains("does not match the arguments"), "{ran:?}");
    scene.kubeconfig(&json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "kubectl-mc", "args": words,
        "provideClusterInfo": true, "interactiveMode": "Never",
    }}));
    let ran = scene.bed.run(&["login"]);
    assert!(ran.err.contains("enter the code u\n"), "{ran:?}");
    scene.bed.run(&["logout"]);
    let requests = evil.requests().concat();
    assert!(requests.contains("POST /device ") && !requests.contains("authorization:"), "{requests}");
    assert!(!requests.contains("/token ") && !requests.contains("/revoke "), "{requests}");
}

#[test]
fn flags_of_two_login_methods_exclude_each_other() {
    let scene = Scene::new(201);
    for words in [
        &["--token-file=x", "--cache-plugin"][..],
        &["--oidc-issuer-url=https://i"],
        &["--oidc-client-id=x"],
        &["--oidc-issuer-url=https://i", "--oidc-client-id=x", "--token-file=x"],
        &["--oidc-issuer-url=https://i", "--oidc-client-id=x", "--", "command"],
        &["--cache-plugin", "--", "command"],
    ] {
        let ran = scene.bed.run(&[&["login"], words].concat());
        assert_eq!(ran.failed().0, 2, "{words:?}: {ran:?}");
    }
}
