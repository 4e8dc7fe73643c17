//! Tests `kubectl mc login`, which stores a credential for one host, and the credential plugin that returns
//! it. The credential is in a file, because the tests have no keyring.

mod commands;
mod foreign;
mod oidc;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::bed::{Bed, Ran};
use crate::tls_server::{Authority, TlsServer};

/// A host that answers every self review with this code.
struct Scene {
    host: TlsServer,
    authority: Authority,
    bed: Bed,
}

impl Scene {
    fn new(code: u16) -> Self {
        let authority = Authority::new();
        let review = json!({"status": {"userInfo": {"username": "jane"}}});
        let host = TlsServer::new(&authority, move |_| (code, review.to_string()));
        let scene = Self { host, authority, bed: Bed::unreachable() };
        scene.kubeconfig(&json!({"token": "old"}));
        scene
    }

    /// A kubeconfig as kubectl writes it, with this user.
    fn kubeconfig(&self, user: &Value) {
        let (server, authority) = (&self.host.url, STANDARD.encode(self.authority.pem()));
        let text = format!(
            "# of the team\napiVersion: v1\nkind: Config\nclusters:\n- cluster:\n    certificate-authority-data: {authority}\n    \
             server: {server}\n  name: c\ncontexts:\n- context:\n    cluster: c\n    user: u\n  name: host\n\
             current-context: host\nusers:\n- name: u\n  user: {user}\n"
        );
        fs::write(self.bed.path("kubeconfig"), text).unwrap();
    }

    /// Standard error without the parts that differ from run to run.
    fn stderr(&self, ran: &Ran) -> String {
        let folder = self.bed.path("");
        let lines = ran.err.lines().map(|line| match line.split_once("that can be used: ") {
            Some((begin, _)) => format!("{begin}that can be used: …\n"),
            None => format!("{line}\n"),
        });
        let text = lines.collect::<String>().replace(&self.host.url, "https://HOST");
        text.replace(folder.to_str().unwrap(), "/DIR/").replace(&self.file_name(), "login-KEY.json")
    }

    fn login(&self, token: &str, more: &[&str]) -> Ran {
        fs::write(self.bed.path("token"), token).unwrap();
        self.bed.run(&[&["login", "--token-file=token"], more].concat())
    }

    /// The file of the stored login, if there is one.
    fn file(&self) -> Option<PathBuf> {
        let folder = self.bed.path("home/.local/state/kubectl-mc");
        let mut files = fs::read_dir(folder).ok()?.map(|entry| entry.unwrap().path());
        files.find(|file| file.extension().is_some_and(|end| end == "json"))
    }

    fn file_name(&self) -> String {
        let file = self.file().and_then(|file| Some(file.file_name()?.to_str()?.to_owned()));
        file.unwrap_or_else(|| "no file".to_owned())
    }

    /// Replaces the stored credential with an expired one.
    fn expire(&self) {
        let file = self.file().unwrap();
        let mut record: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        record["credential"]["expires"] = "2020-01-01T00:00:00Z".into();
        fs::write(file, record.to_string()).unwrap();
    }

    /// The `KUBERNETES_EXEC_INFO` of kubectl.
    fn info(&self) -> Value {
        json!({
            "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
            "spec": {"interactive": false, "cluster": {
                "server": format!("{}/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy", self.host.url),
                "certificate-authority-data": STANDARD.encode(self.authority.pem()),
                "config": null,
            }},
        })
    }

    /// The credential plugin as the kubeconfig configures it, with this `KUBERNETES_EXEC_INFO`.
    fn plugin(&self, info: &Value) -> Command {
        let kubeconfig = self.bed.run(&["version"]);
        assert_eq!(kubeconfig.code, Some(0));
        let exec = self.exec();
        let words = exec["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
        let mut command = self.bed.command(&words.collect::<Vec<_>>());
        command.env("KUBERNETES_EXEC_INFO", info.to_string());
        for variable in exec["env"].as_array().into_iter().flatten() {
            command.env(variable["name"].as_str().unwrap(), variable["value"].as_str().unwrap());
        }
        command
    }

    /// The plugin of the context's user.
    fn exec(&self) -> Value {
        let text = self.bed.read("kubeconfig");
        let kubeconfig: Value = serde_saphyr::from_str(&text).unwrap();
        let user = &kubeconfig["contexts"][0]["context"]["user"];
        let mut users = kubeconfig["users"].as_array().unwrap().iter();
        users.find(|entry| entry["name"] == *user).unwrap()["user"]["exec"].clone()
    }

    fn credential(&self, info: &Value) -> Ran {
        self.plugin(info).output().unwrap().into()
    }

    /// The token that a request to the host gets.
    fn token(&self) -> String {
        let ran = self.credential(&self.info());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let answer: Value = serde_json::from_str(&ran.out).unwrap();
        answer["status"]["token"].as_str().unwrap().to_owned()
    }
}

#[test]
fn token_is_tried_stored_and_used_until_logout() {
    let scene = Scene::new(201);
    let before = scene.bed.read("kubeconfig");
    let ran = scene.login("secret-token\n", &[]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), ""), "{ran:?}");
    insta::assert_snapshot!(scene.stderr(&ran), @r#"
    logged in to context "host" (https://HOST) as jane
    warning: the credential is not in a keyring: this system has no keyring that can be used: …
    the credential is in /DIR/home/.local/state/kubectl-mc/login-KEY.json, which only you can read, and /DIR/kubeconfig uses it
    "#);
    let heads = scene.host.requests();
    assert!(heads[0].starts_with("POST /apis/authentication.k8s.io/v1/selfsubjectreviews "), "{heads:?}");
    assert!(heads[0].contains("authorization: Bearer secret-token\r\n"), "{heads:?}");
    let after = scene.bed.read("kubeconfig");
    assert!(!after.contains("secret-token") && after.starts_with("# of the team\n"), "{after}");
    let exec = scene.exec();
    assert_eq!(exec["args"], json!(["credential", "--login=host", format!("--server={}", scene.host.url)]));
    assert_eq!(exec["provideClusterInfo"], true);
    assert_eq!(scene.token(), "secret-token");
    let ran = scene.bed.run(&["logout"]);
    assert_eq!(
        scene.stderr(&ran),
        "logged out of context \"host\" (https://HOST); its user is \"u\" again\n"
    );
    assert_eq!((scene.bed.read("kubeconfig"), scene.file()), (before, None));
    let ran = scene.bed.run(&["logout"]);
    assert_eq!(
        scene.stderr(&ran),
        "error: `kubectl mc login` stored no credential for context \"host\" (https://HOST)\n"
    );
}

#[test]
fn each_context_of_a_host_has_a_login_of_its_own() {
    let scene = Scene::new(201);
    let text = scene.bed.read("kubeconfig");
    let both = "  name: host\n- context:\n    cluster: c\n    user: u\n  name: admin\n";
    fs::write(scene.bed.path("kubeconfig"), text.replace("  name: host\n", both)).unwrap();
    assert_eq!(scene.login("token-of-jane", &[]).code, Some(0));
    assert_eq!(scene.login("token-of-admin", &["--context=admin"]).code, Some(0));
    assert_eq!(scene.token(), "token-of-jane");
    assert_eq!(scene.bed.run(&["logout", "--context=admin"]).code, Some(0));
    assert_eq!(scene.token(), "token-of-jane");
}

#[test]
fn refused_token_changes_nothing() {
    let scene = Scene::new(401);
    let before = scene.bed.read("kubeconfig");
    let ran = scene.login("secret-token", &[]);
    assert_eq!(
        (ran.code, scene.stderr(&ran).as_str()),
        (
            Some(1),
            "error: context \"host\" (https://HOST) does not accept the credential (401 Unauthorized); nothing was changed\n"
        )
    );
    assert_eq!((scene.bed.read("kubeconfig"), scene.file()), (before, None));
}

#[test]
fn fault_81_other_servers_get_no_credential() {
    let scene = Scene::new(201);
    scene.login("secret-token", &[]);
    let evil = TlsServer::new(&scene.authority, |_| (200, "{}".to_owned()));
    let another = STANDARD.encode(Authority::new().pem());
    let changed = |changes: Value| {
        let mut info = scene.info();
        info["spec"]["cluster"].as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        info
    };
    let mut without_cluster = scene.info();
    without_cluster["spec"].as_object_mut().unwrap().remove("cluster");
    for (info, words) in [
        (changed(json!({"server": evil.url})), "and the request is for https://127.0.0.1:"),
        (changed(json!({"certificate-authority-data": another})), "there is no login for https://127.0.0.1:"),
        (changed(json!({"certificate-authority-data": null})), "there is no login for https://127.0.0.1:"),
        (changed(json!({"tls-server-name": "evil"})), "there is no login for https://127.0.0.1:"),
        (changed(json!({"insecure-skip-tls-verify": true})), "is not verified"),
        (changed(json!({"server": scene.host.url.replace("https:", "http:")})), "is reached without TLS"),
        (without_cluster, "the request names no server"),
        (json!("nonsense"), "unknown version of the API"),
        (json!({"apiVersion": "client.authentication.k8s.io/v2"}), "unknown version of the API"),
    ] {
        let ran = scene.credential(&info);
        assert!(ran.code != Some(0) && ran.out.is_empty(), "{info}: {ran:?}");
        assert!(ran.err.contains(words) && !ran.err.contains("secret-token"), "{info}: {ran:?}");
    }
    // A kubeconfig that declares the other server to be that of the login.
    let other = format!("--server={}", evil.url);
    let ran = scene.bed.run_with(
        "KUBERNETES_EXEC_INFO",
        changed(json!({"server": evil.url})).to_string(),
        &["credential", "--login=host", &other],
    );
    assert!(ran.out.is_empty() && ran.err.contains("there is no login for"), "{ran:?}");
    assert_eq!(scene.token(), "secret-token");
}

#[test]
fn credential_plugin_started_by_hand_is_explained() {
    let scene = Scene::new(201);
    let ran = scene.bed.run(&["credential", "--login=h", "--server=https://h"]);
    insta::assert_snapshot!(ran.failed().1, @r"
    error: `kubectl-mc credential` is a credential plugin: kubectl runs it, as a user of the kubeconfig says
    hint: log in: kubectl mc login
    ");
    assert_eq!(scene.bed.run(&["credential"]).failed().0, 2);
}

#[test]
fn fault_81_hosts_without_verified_tls_are_refused() {
    let scene = Scene::new(201);
    let text = scene.bed.read("kubeconfig");
    let authority = format!("certificate-authority-data: {}", STANDARD.encode(scene.authority.pem()));
    for (change, words) in [
        (text.replace(&authority, "insecure-skip-tls-verify: true"), "is not verified"),
        (text.replace("https://", "http://"), "is reached without TLS"),
    ] {
        fs::write(scene.bed.path("kubeconfig"), &change).unwrap();
        let ran = scene.login("secret-token", &[]);
        assert!(ran.code == Some(2) && ran.err.contains(words), "{ran:?}");
        assert!(ran.err.contains("kubectl config set-cluster NAME --certificate-authority=FILE"), "{ran:?}");
        assert_eq!(scene.bed.read("kubeconfig"), change);
    }
    assert!(scene.host.requests().is_empty());
}

#[test]
fn expired_token_asks_for_a_login() {
    let scene = Scene::new(201);
    scene.login("secret-token", &[]);
    scene.expire();
    let ran = scene.credential(&scene.info());
    assert_eq!(
        (ran.code, scene.stderr(&ran).as_str()),
        (
            Some(1),
            "error: cannot renew the credential for https://HOST: the token has expired\nhint: log in again: kubectl mc login\n"
        )
    );
    scene.login("another", &[]);
    assert_eq!(scene.token(), "another");
}

#[test]
fn text_that_is_not_a_token_is_refused() {
    let scene = Scene::new(201);
    for text in ["", "two words", "line\nbreak", "ü"] {
        let ran = scene.login(text, &[]);
        assert_eq!((ran.code, ran.err.as_str()), (Some(2), "error: the input is not a token\n"), "{text:?}");
    }
    insta::assert_snapshot!(scene.stderr(&scene.bed.run(&["login"])), @r"
    error: cannot prompt for a token: standard input is not a terminal
    hint: --token-file=- reads it from standard input; --oidc-issuer-url logs in by OpenID Connect; `kubectl mc login -- COMMAND` takes what a command prints
    ");
    insta::assert_snapshot!(scene.stderr(&scene.bed.run(&["login", "-C", "m1"])), @r"
    error: `kubectl mc login` takes no choice of clusters
    hint: --context=NAME names another host
    ");
}
