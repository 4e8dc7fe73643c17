//! Tests kubeconfigs from other people that name the credential plugin of a login.

use std::fs;
use std::os::unix::fs::symlink;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::Scene;
use crate::tls_server::TlsServer;

/// A kubeconfig of two contexts of this server whose users run this plugin.
fn kubeconfig(scene: &Scene, server: &str, exec: &Value) -> String {
    let authority = STANDARD.encode(scene.authority.pem());
    let cluster = json!({"server": server, "certificate-authority-data": authority});
    let context = |name: &str| json!({"name": name, "context": {"cluster": "c", "user": "u"}});
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "one",
        "clusters": [{"name": "c", "cluster": cluster}],
        "contexts": [context("one"), context("two")],
        "users": [{"name": "u", "user": {"exec": exec}}],
    })
    .to_string()
}

/// The plugin of the login with these variables from a kubeconfig, under every name that leads to
/// it.
fn forms(scene: &Scene, variables: &Value) -> Vec<Value> {
    let plugin = env!("CARGO_BIN_EXE_kubectl-mc");
    for link in ["bin/kmc", "bin/another-name"] {
        symlink(plugin, scene.bed.path(link)).unwrap();
    }
    scene.bed.script(
        "bin/kubectl",
        &format!("#!/bin/sh\n[ \"$1\" = mc ] || exit 1\nshift\nexec {plugin} \"$@\"\n"),
    );
    let exec = |command: &str, before: &[&str]| {
        let mut exec = scene.exec();
        let own = exec["args"].as_array().unwrap().clone();
        exec["command"] = command.into();
        exec["args"] = before.iter().map(|&word| word.into()).chain(own).collect();
        exec["env"] = variables.clone();
        exec
    };
    vec![
        exec(plugin, &[]),
        exec("kmc", &[]),
        exec("another-name", &[]),
        exec("kubectl", &["mc"]),
        exec("env", &["kmc"]),
    ]
}

#[test]
fn fault_81_foreign_server_gets_no_token_of_a_login() {
    let scene = Scene::new(201);
    assert_eq!(scene.login("secret-token", &[]).code, Some(0));
    let evil = TlsServer::new(&scene.authority, |_| (200, r#"{"kind": "ClusterList", "items": []}"#.into()));
    // The request that the real host would cause.
    let variables = json!([{"name": "KUBERNETES_EXEC_INFO", "value": scene.info().to_string()}]);
    for exec in forms(&scene, &variables) {
        fs::write(scene.bed.path("kubeconfig"), kubeconfig(&scene, &evil.url, &exec)).unwrap();
        for words in [
            &["--contexts", "-C", "one,two", "get", "pods"][..],
            &["--contexts", "-C", "one", "get", "pods"],
            &["--contexts", "-C", "one,two", "describe", "pods"],
            &["-C", "m1,m2", "get", "pods"],
            &["-C", "m1", "get", "pods"],
            &["-C", "m1,m2", "describe", "pods"],
            &["clusters"],
            &["version"],
            &["access", "list"],
            &["doctor"],
            &["__complete", "-C", ""],
        ] {
            scene.bed.run(words);
            let heads = evil.requests();
            let has_token = heads.iter().any(|head| head.contains("secret-token"));
            assert!(!has_token, "{words:?} with {exec}: {heads:?}");
        }
    }
}

#[test]
fn fault_81_kubeconfig_variables_do_not_reach_the_login() {
    let scene = Scene::new(201);
    assert_eq!(scene.login("secret-token", &[]).code, Some(0));
    let variables = ["HOME", "XDG_STATE_HOME", "PATH", "KUBERNETES_EXEC_INFO", "KUBECTL_MC_LOG"]
        .map(|name| json!({"name": name, "value": "/nowhere"}));
    scene.host.requests();
    for exec in forms(&scene, &variables.into_iter().collect()) {
        fs::write(scene.bed.path("kubeconfig"), kubeconfig(&scene, &scene.host.url, &exec)).unwrap();
        for words in [&["--contexts", "-C", "one,two", "get", "pods"][..], &["clusters"]] {
            let ran = scene.bed.run(words);
            let heads = scene.host.requests();
            let has_token = heads.iter().any(|head| head.contains("authorization: Bearer secret-token\r\n"));
            assert!(has_token, "{words:?} with {exec}: {ran:?}, {heads:?}");
        }
    }
}

/// kubectl sends the content of a tokenFile, and a kubeconfig can name any file with a path
/// relative to its own.
#[test]
fn fault_81_stored_login_is_no_token_of_a_kubeconfig() {
    let scene = Scene::new(201);
    assert_eq!(scene.login("secret-token", &["--credential-store=file"]).code, Some(0));
    let evil = TlsServer::new(&scene.authority, |_| (200, r#"{"kind": "ClusterList", "items": []}"#.into()));
    let context = |file: &str| {
        let mut config: Value = serde_json::from_str(&kubeconfig(&scene, &evil.url, &json!({}))).unwrap();
        config["users"][0]["user"] = json!({"tokenFile": file});
        fs::write(scene.bed.path("kubeconfig"), config.to_string()).unwrap();
    };
    let words: [&[&str]; 3] =
        [&["--contexts", "-C", "one,two", "get", "pods"], &["-C", "m1", "get", "pods"], &["clusters"]];
    let file = scene.file().unwrap();
    context(file.strip_prefix(scene.bed.path("")).unwrap().to_str().unwrap());
    for words in words {
        let ran = scene.bed.run(words);
        let heads = evil.requests();
        assert!(!heads.iter().any(|head| head.contains("secret-token")), "{words:?}: {heads:?}");
        assert!(!format!("{ran:?}").contains("secret-token") && ran.code != Some(0), "{words:?}: {ran:?}");
    }
    // The file of a token is still used.
    fs::write(scene.bed.path("token"), "of-a-file\n").unwrap();
    context("token");
    scene.bed.run(&["clusters"]);
    assert!(evil.requests().iter().any(|head| head.contains("Bearer of-a-file\r\n")));
}

/// In this test, the command does not end because of a limit of the machine: it reads no more than
/// it needs.
#[test]
fn fault_81_endless_file_of_a_kubeconfig_is_an_error() {
    let scene = Scene::new(201);
    let config = |cluster: &Value, user: &Value| {
        let mut config: Value =
            serde_json::from_str(&kubeconfig(&scene, &scene.host.url, &json!({}))).unwrap();
        config["clusters"][0]["cluster"] = cluster.clone();
        config["users"][0]["user"] = user.clone();
        fs::write(scene.bed.path("kubeconfig"), config.to_string()).unwrap();
    };
    let (server, authority) = (&scene.host.url, STANDARD.encode(scene.authority.pem()));
    let trusted = json!({"server": server, "certificate-authority-data": authority});
    for (cluster, user) in [
        (trusted.clone(), json!({"tokenFile": "/dev/zero"})),
        (trusted, json!({"client-certificate": "/dev/zero", "client-key": "/dev/zero"})),
        (json!({"server": server, "certificate-authority": "/dev/zero"}), json!({"token": "t"})),
    ] {
        config(&cluster, &user);
        let ran = scene.bed.run(&["clusters"]);
        assert!(ran.code != Some(0) && ran.err.contains("it is larger than 8 MiB"), "{user}: {ran:?}");
    }
}

#[test]
fn fault_81_flag_against_verification_gets_no_token() {
    let scene = Scene::new(201);
    assert_eq!(scene.login("secret-token", &[]).code, Some(0));
    scene.bed.kubectl("echo");
    for flag in ["--insecure-skip-tls-verify", "--tls-server-name=evil", "--certificate-authority=other.pem"]
    {
        fs::write(scene.bed.path("other.pem"), crate::tls_server::Authority::new().pem()).unwrap();
        scene.host.requests();
        for words in [&["-C", "m1,m2", "get", "pods"][..], &["--contexts", "-C", "host", "get", "pods"]] {
            scene.bed.run(&[words, &[flag]].concat());
            let heads = scene.host.requests();
            assert!(!heads.iter().any(|head| head.contains("secret-token")), "{flag}: {heads:?}");
        }
    }
}

#[test]
fn wrapped_plugin_takes_its_variables_from_the_login() {
    let scene = Scene::new(201);
    let command = scene.bed.script("word", "#!/bin/sh\necho \"$WORD\"\n").display().to_string();
    scene.kubeconfig(&json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": command, "interactiveMode": "IfAvailable",
        "env": [{"name": "WORD", "value": "a-secret"}, {"name": "KUBERNETES_EXEC_INFO", "value": "none"}],
    }}));
    let ran = scene.bed.run(&["login", "--cache-plugin"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    // The variables may hold a secret.
    assert!(scene.exec()["env"].is_null(), "{}", scene.exec());
    assert_eq!(scene.token(), "a-secret");
    scene.expire();
    let mut plugin = scene.plugin(&scene.info());
    let output = plugin.env("WORD", "of-a-kubeconfig").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\"a-secret\""), "{text}");
}

#[test]
fn policy_holds_for_commands_of_a_kubeconfig() {
    let scene = Scene::new(201);
    let command = scene.bed.script("word", "#!/bin/sh\n: >ran\necho a-token\n").display().to_string();
    scene.kubeconfig(&json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": command, "interactiveMode": "IfAvailable",
    }}));
    let kuberc = scene.bed.path("home/.kube/kuberc");
    fs::create_dir_all(kuberc.parent().unwrap()).unwrap();
    let text =
        "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ncredentialPluginPolicy: DenyAll\n";
    fs::write(kuberc, text).unwrap();
    let is_denied = |words: &[&str]| {
        let _ = fs::remove_file(scene.bed.path("ran"));
        let ran = scene.bed.run(&[&["login"], words].concat());
        let is_denied = ran.err.contains("not allowed: policy set to \"DenyAll\"");
        assert!(is_denied != scene.bed.path("ran").exists(), "{words:?}: {ran:?}");
        is_denied
    };
    assert!(is_denied(&["--cache-plugin"]));
    // The user has typed this command, or has typed it before.
    assert!(!is_denied(&["--", &command]));
    assert!(!is_denied(&[]));
    let exec = scene.exec();
    assert_eq!(scene.bed.run(&["logout"]).code, Some(0));
    scene.kubeconfig(&json!({"exec": exec}));
    assert!(is_denied(&[]));
}
