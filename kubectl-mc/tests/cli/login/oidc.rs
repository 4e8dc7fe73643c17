//! Issuers that cannot be used. What a real one does is tested on the test bed.

use serde_json::json;

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
fn issuers_that_cannot_be_used_are_named() {
    let scene = Scene::new(201);
    let answering = |code, body: String| TlsServer::new(&scene.authority, move |_| (code, body.clone()));
    for (issuer, more, words) in [
        (answering(404, "no".to_owned()), &[][..], "openid-configuration answered 404: no"),
        (answering(200, "{}".to_owned()), &[], "answered with something else than expected: no issuer"),
        (answering(200, "<html>".to_owned()), &[], "answered with something else than expected: no issuer"),
        (
            answering(
                200,
                json!({"issuer": "https://evil\u{1b}", "token_endpoint": "https://x"}).to_string(),
            ),
            &[],
            "the issuer calls itself https://evil^[, and not https://127.0.0.1:",
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

#[test]
fn flags_of_two_ways_exclude_each_other() {
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
