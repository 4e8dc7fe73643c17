//! Karmada's own aggregated API server and the sidecar answer the same requests of the same callers for one
//! Cluster object. `docs/reference/compatibility.md` lists both servers' answers, and this test
//! compares them with that page.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use harness::bed::bed;
use harness::caller::Caller;
use harness::fake_member::{FakeMember, ok};
use harness::http1::{Endpoint, SIDECAR_NAME, member_path};
use harness::karmada::{Karmada, server};
use harness::noise::{MEBIBYTE, noise};
use harness::scene::{EVERY_VERB, Scene, grant};
use harness::tool::{Output, Tool};
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};
use testbed::Karmada as Server;

#[test]
#[expect(clippy::too_many_lines, reason = "one comparison")]
fn answers_of_both_servers_match_the_docs() -> Result<()> {
    let theirs = bed()?.host.karmada.as_ref().context("the bed has no server of Karmada: --karmada host")?;
    let rights = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sidecar/deploy/karmada.yaml");
    let karmada = Karmada::start("karmada-beside", rights.to_str().context("a path")?, &[])?;
    let scene = Scene::new("karmada-beside")?;
    let [user, stranger] = ["user", "stranger"]
        .map(|name| Caller::certificate(&format!("e2e-beside-{name}"), &["e2e-beside-ops"]));
    let (user, stranger, robot) = (user?, stranger?, Caller::service_account(&scene.name, "robot")?);
    karmada.join(JOINED, &scene.member)?;
    Karmada::unified_auth(&scene.member, &[&user.user], &["robot"], &["e2e-beside-ops"])?;
    for caller in [&user, &robot] {
        scene.allow(caller)?;
        for group in ["cluster.karmada.io", "proxy.kubectl-mc.dev"] {
            let rule = json!({"apiGroups": [group], "resources": ["clusters/proxy"], "resourceNames": [JOINED, UNKNOWN], "verbs": EVERY_VERB});
            let asked = json!({"group": group, "resource": "clusters", "subresource": "proxy", "name": JOINED, "verb": "get"});
            grant(
                &karmada.host,
                &format!("{}-{group}", caller.user.replace(':', "-")),
                caller,
                &rule,
                &asked,
            )?;
        }
    }
    karmada.fleet.until(JOINED, "Ready", "True", "Ready")?;
    scene.pod("shell", "echo started; sleep 1000000")?;

    let both = [Side { karmada: &karmada, theirs: Some(theirs) }, Side { karmada: &karmada, theirs: None }];
    let mut rows = vec![
        "| request | karmada-aggregated-apiserver v1.17.1 | kubectl-mc |".to_owned(),
        "|---|---|---|".to_owned(),
    ];
    let mut row = |request: &str, check: &dyn Fn(&Side<'_>) -> Result<String>| -> Result<()> {
        let [theirs, ours] = both.each_ref().map(|side| check(side).with_context(|| request.to_owned()));
        rows.push(format!("| {request} | {} | {} |", theirs?, ours?));
        Ok(())
    };
    let namespace = ["-n", &scene.name];
    let run = |side: &Side<'_>, caller: &Caller, words: &[&str], input: &[u8]| -> Result<Output> {
        side.kubectl(caller)?.run_with_input(&[&namespace, words].concat(), input)
    };
    row("`get`, `create`, `patch`, `delete`", &|side| {
        for words in [
            &["create", "configmap", "map", "--from-literal=a=1"][..],
            &["patch", "configmap", "map", "--type=merge", "-p", r#"{"data": {"a": "2"}}"#],
            &["get", "configmap", "map"],
            &["delete", "configmap", "map"],
        ] {
            run(side, &user, words, b"")?.success()?;
        }
        Ok(YES.to_owned())
    })?;
    row("`create --dry-run=server`", &|side| {
        verdict(&run(side, &user, &["create", "configmap", "dry", "--dry-run=server"], b"")?)
    })?;
    row("`watch`", &|side| {
        let path = format!("/api/v1/namespaces/{}/pods?watch=1&timeoutSeconds=1", scene.name);
        let text = side.get(&user, &path)?.1;
        ensure!(text.contains("ADDED"), "{text}");
        Ok(YES.to_owned())
    })?;
    row("`logs`", &|side| {
        let text = run(side, &user, &["logs", "shell"], b"")?.success()?;
        ensure!(text == "started\n", "{text}");
        Ok(YES.to_owned())
    })?;
    row("`exec`: 4 MiB there and back, end of input, exit code", &|side| {
        let sent = noise(19, 4 * MEBIBYTE);
        let echoed = run(side, &user, &["exec", "-i", "shell", "--", "cat"], &sent)?;
        let code = run(side, &user, &["exec", "shell", "--", "sh", "-c", "exit 7"], b"")?.code;
        Ok(match echoed.code == 0 && echoed.stdout == sent && code == 7 {
            true => YES.to_owned(),
            false => format!("no: {} of {} bytes came back", echoed.stdout.len(), sent.len()),
        })
    })?;
    row("the member sees the groups of a user", &|side| {
        let seen = run(side, &user, &["auth", "whoami", "-o", "jsonpath={.status.userInfo.groups}"], b"")?;
        ensure!(seen.text().contains("\"e2e-beside-ops\""), "{seen:?}");
        Ok(YES.to_owned())
    })?;
    row("a service account of the host", &|side| verdict(&run(side, &robot, &["get", "pods"], b"")?))?;
    row("a caller without a grant", &|side| side.refusal(&stranger, JOINED))?;
    row("a cluster that does not exist", &|side| side.refusal(&user, UNKNOWN))?;

    let attacker = FakeMember::unregistered("e2e-beside-attacker", |_| ok())?;
    let insecure = json!({"insecureSkipTLSVerification": true});
    karmada.cluster(JOINED, &format!("https://{}", attacker.address), &insecure)?;
    eventually("the sidecar has read it", SOON, || {
        let (status, text, _) = both[1].get(&user, "/version")?;
        ensure!(text.contains("insecureSkipTLSVerification is refused"), "{status}: {text}");
        Ok(Some(()))
    })?;
    row("a Cluster that is changed to another server, and its verification turned off", &|side| {
        let before = attacker.requests("").len();
        side.get(&user, "/api/v1/namespaces")?;
        let sent = attacker.requests("").split_off(before);
        let is_token = sent.iter().any(|request| !request.values("authorization").is_empty());
        Ok(if is_token { "sends it the member's token" } else { "sends it nothing" }.to_owned())
    })?;
    // No server listens on this port.
    karmada.cluster(JOINED, "https://127.0.0.1:1", &json!({}))?;
    eventually("the sidecar has read it", SOON, || {
        let (status, text, _) = both[1].get(&user, "/version")?;
        ensure!(status >= 500 && !text.contains("insecureSkipTLSVerification"), "{status}: {text}");
        Ok(Some(()))
    })?;
    row("a member that cannot be reached", &|side| side.refusal(&user, JOINED))?;
    karmada.cluster(JOINED, server(&scene.member)?, &json!({}))?;

    let table = rows.join("\n");
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/compatibility.md");
    let docs = fs::read_to_string(docs)?;
    ensure!(docs.contains(&table), "docs/reference/compatibility.md should have:\n{table}");
    Ok(())
}

const JOINED: &str = "e2e-beside";
const UNKNOWN: &str = "e2e-beside-none";
const YES: &str = "yes";

/// One of the two servers.
struct Side<'a> {
    karmada: &'a Karmada,
    /// `None` is the sidecar.
    theirs: Option<&'a Server>,
}

impl Side<'_> {
    fn path(&self, cluster: &str, rest: &str) -> String {
        match self.theirs {
            Some(_) => format!("/apis/cluster.karmada.io/v1alpha1/clusters/{cluster}/proxy{rest}"),
            None => member_path(cluster, rest),
        }
    }

    /// kubectl with the member's path at this server, without the host.
    fn kubectl(&self, caller: &Caller) -> Result<Tool> {
        let path = self.path(JOINED, "");
        let cluster = match self.theirs {
            Some(Server { url, ca_certificate, .. }) => {
                json!({"server": format!("{url}{path}"), "certificate-authority": ca_certificate})
            }
            None => {
                let sidecar = &self.karmada.sidecar.sidecar;
                json!({
                    "server": format!("{}{path}", sidecar.url), "certificate-authority": sidecar.ca_certificate,
                    "tls-server-name": SIDECAR_NAME,
                })
            }
        };
        Tool::kubectl(&caller.clone().edit(|config| config["clusters"][0]["cluster"] = cluster)?)
    }

    /// Status, text and hop of the answer for a path of the member.
    fn get(&self, caller: &Caller, path: &str) -> Result<(u16, String, Option<String>)> {
        self.get_of(caller, JOINED, path)
    }

    fn get_of(&self, caller: &Caller, cluster: &str, path: &str) -> Result<(u16, String, Option<String>)> {
        let endpoint = match self.theirs {
            Some(server) => {
                let at = testbed::Cluster {
                    server: server.url.clone(),
                    ca_certificate: server.ca_certificate.clone(),
                    ..bed()?.host.clone()
                };
                Endpoint::cluster(&at, caller.certificate.as_deref())?
            }
            None => self.karmada.sidecar.endpoint(caller.certificate.as_deref())?,
        };
        let (path, authorization) = (self.path(cluster, path), caller.authorization());
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n{authorization}Connection: close\r\n\r\n");
        let answer = endpoint.exchange(request.as_bytes())?;
        let hop = answer.head.value("x-kubectl-mc-hop").map(str::to_owned);
        Ok((answer.status(), answer.text(), hop))
    }

    /// The status code, the reason of the Status, and the hop.
    fn refusal(&self, caller: &Caller, cluster: &str) -> Result<String> {
        let (status, text, hop) = self.get_of(caller, cluster, "/api/v1/namespaces")?;
        ensure!(status >= 400, "{status}: {text}");
        let reason =
            serde_json::from_str::<Value>(&text).unwrap_or_default()["reason"].as_str().map(str::to_owned);
        let reason = reason.map(|reason| format!(" {reason}")).unwrap_or_default();
        let hop = hop.map_or_else(|| "no hop named".to_owned(), |hop| format!("hop `{hop}`"));
        Ok(format!("{status}{reason}, {hop}"))
    }
}

/// Success, or the reason of the failure.
fn verdict(output: &Output) -> Result<String> {
    if output.code == 0 {
        return Ok(YES.to_owned());
    }
    let line = output.stderr.lines().last().context("no error")?;
    if line.contains("(Forbidden)") {
        return Ok("no: 403 Forbidden".to_owned());
    }
    let (_, message) = line.split_once(": ").unwrap_or(("", line));
    Ok(format!("no: {}", message.split(": ").last().unwrap_or(message)))
}
