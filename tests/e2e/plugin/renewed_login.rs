//! When a credential expires, its plugin runs again, once for all clusters, and streams continue as the new
//! user.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use harness::bed::host;
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Request, Step};
use harness::scene::{EVERY_VERB, Scene};
use harness::tool::Tool;
use serde_json::json;

use crate::plugin;

#[test]
fn refused_credential_is_requested_once_more() -> Result<()> {
    let name = "renewed-void";
    let robot = Caller::service_account(&format!("e2e-{name}"), "robot")?;
    let token = robot.token.clone().context("no token")?;
    let (one, two) = pair(name, &[&robot], &["m1", "m2"])?;
    for scene in [&one, &two] {
        let path = format!("/api/v1/namespaces/{}/configmaps/there", scene.name);
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "there"}});
        scene.api.apply(&path, &object)?;
    }
    let tool = with_plugin(robot, &["void", &token])?.with(&["--namespace", &one.name, "-C", "m1,m2"]);
    let names = tool.ok(&["get", "configmaps", "-o", "name"])?;
    assert_eq!(names.lines().filter(|line| line.ends_with("/there")).count(), 2, "{names}");
    assert_eq!(runs(&tool)?, 2);
    Ok(())
}

#[test]
fn credential_plugin_is_not_retried_endlessly() -> Result<()> {
    let name = "renewed-never";
    let robot = Caller::service_account(&format!("e2e-{name}"), "robot")?;
    let tool = with_plugin(robot, &["void", "void-too"])?.with(&["-C", "m1,m2"]);
    let output = tool.run(&["get", "configmaps"])?;
    assert_eq!(output.code, 5, "{output:?}");
    assert!(
        output.stderr.ends_with("2 of 2 clusters failed: 2 host authentication (m1, m2)\n"),
        "{output:?}"
    );
    assert_eq!(runs(&tool)?, 2);
    Ok(())
}

#[test]
fn watch_outlives_its_first_credential() -> Result<()> {
    let name = "renewed-watch";
    let (first, second) = (format!("e2e-{name}-first"), format!("e2e-{name}-second"));
    let (first, second) =
        (Caller::service_account(&first, "robot")?, Caller::service_account(&second, "robot")?);
    let fake = FakeMember::start("e2e-renewed-watch", short_watches)?;
    let _scenes = pair(name, &[&first, &second], &["m1", &fake.name])?;
    let tokens = [first.token.clone().context("no token")?, second.token.clone().context("no token")?];
    let tool = with_plugin(first, &[&tokens[0], &tokens[1]])?;
    let words = ["get", "configmaps", "--watch", "-C", &format!("{},m1", fake.name)];
    let _watch = tool.start(&words)?;
    let of = |user: &str, request: &Request| request.values("impersonate-user") == [user];
    let user = |which: &str| format!("system:serviceaccount:e2e-{name}-{which}:robot");
    fake.wait_for("watch=true", |request| of(&user("first"), request))?;
    // This makes the account's token invalid.
    host()?.delete(&format!("/api/v1/namespaces/e2e-{name}-first/serviceaccounts/robot"))?;
    fake.wait_for("watch=true", |request| of(&user("second"), request))?;
    assert_eq!(runs(&tool)?, 2);
    Ok(())
}

/// Two namespaces of the same name, and callers with all rights in both.
fn pair(name: &str, callers: &[&Caller], clusters: &[&str]) -> Result<(Scene, Scene)> {
    let (one, two) = (Scene::on("m1", name)?, Scene::on("m2", name)?);
    for caller in callers {
        one.let_in(caller, clusters, EVERY_VERB)?;
        one.allow(caller)?;
        two.allow(caller)?;
    }
    Ok((one, two))
}

/// The plugin of a caller with a credential plugin, which returns one token after the other, and then repeats
/// the last one.
fn with_plugin(caller: Caller, tokens: &[&str]) -> Result<Tool> {
    let program = caller.folder().join("login");
    let answer = |token: &str| json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": token}});
    let answers: String = tokens.iter().map(|token| format!("{}\n", answer(token))).collect();
    std::fs::write(caller.folder().join("answers"), answers)?;
    harness::script::write(
        &program,
        "#!/bin/sh\necho run >> \"$RUNS\"\nhead -n $(wc -l < \"$RUNS\") \"$(dirname \"$0\")/answers\" | tail -n 1\n",
    )?;
    let caller = caller.edit(|config| {
        config["users"][0]["user"] = json!({"exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": "./login", "interactiveMode": "Never",
        }});
    })?;
    let tool = plugin(&caller)?;
    let runs = tool.home().join("runs");
    Ok(tool.env("RUNS", runs))
}

/// The number of runs of the credential plugin.
fn runs(tool: &Tool) -> Result<usize> {
    Ok(std::fs::read_to_string(tool.home().join("runs"))?.lines().count())
}

/// Watches that the server ends soon, as every server does eventually.
fn short_watches(request: &Request) -> Vec<Step> {
    static VERSION: AtomicU64 = AtomicU64::new(10);
    let version = VERSION.fetch_add(1, Ordering::Relaxed).to_string();
    let table = json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": version},
        "columnDefinitions": [{"name": "Name", "type": "string"}],
        "rows": [{"cells": ["x"], "object": {"metadata": {"name": "x", "resourceVersion": version}}}],
    });
    let body = match request.target().contains("watch=true") {
        true => json!({"type": "BOOKMARK", "object": table}).to_string() + "\n",
        false => table.to_string(),
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    vec![Step::Pause(Duration::from_millis(300)), Step::Send(head.into_bytes())]
}
