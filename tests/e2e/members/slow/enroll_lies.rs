//! An agent does not enroll a member whose API server gives false answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use harness::bed::{SYSTEM, host, member};
use harness::fake_member::{FakeMember, Request, Step, reply};
use harness::own_agent::{Difference, OwnAgent, account, account_path};
use harness::own_fleet::unsigned_token;
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};

use crate::members::enroll::{MEMBER_CLUSTERS, UNTIL, at, condition_of, of_account};

#[test]
fn lying_agent_enrolls_no_member() -> Result<()> {
    let lie = Arc::new(AtomicUsize::new(0));
    let told = lie.clone();
    let host_uid = host()?.get("/api/v1/namespaces/kube-system")?["metadata"]["uid"].clone();
    let fake = FakeMember::unregistered("liar", move |request| {
        answer(request, told.load(Ordering::SeqCst), &host_uid)
    })?;
    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("kubeconfig");
    let cluster = json!({
        "server": format!("https://{}", fake.address), "certificate-authority-data": STANDARD.encode(fake.ca()),
    });
    std::fs::write(&kubeconfig, of_account(&cluster, "token").to_string())?;
    account(LIAR)?;
    let member_cluster = format!("{MEMBER_CLUSTERS}/{LIAR}");
    let twin = format!("{MEMBER_CLUSTERS}/{LIAR}-twin");
    let object = |name: &str| json!({"apiVersion": "fleet.kubectl-mc.dev/v1alpha1", "kind": "MemberCluster", "metadata": {"name": name}, "spec": {}});
    host()?.apply(&member_cluster, &object(LIAR))?;
    let mut known = object(&format!("{LIAR}-twin"));
    known["metadata"]["annotations"] = json!({"fleet.kubectl-mc.dev/uid": TWIN});
    host()?.apply(&twin, &known)?;
    let mut flags = vec![format!("--kubeconfig={}", kubeconfig.display())];
    flags.push(format!("--enroll-until={}", at(3600)?));
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let _agent =
        OwnAgent::start(LIAR, member("m1")?, &Difference { flags: &flags, ..Difference::default() })?;
    for (number, (_, reason)) in LIES.iter().enumerate() {
        lie.store(number, Ordering::SeqCst);
        for end in ["manager", "member"] {
            let uid = host()?.get("/api/v1/namespaces/kube-system")?["metadata"]["uid"].clone();
            let secret = json!({
                "apiVersion": "v1", "kind": "Secret", "type": "fleet.kubectl-mc.dev/member",
                "metadata": {
                    "name": format!("{LIAR}.{end}"),
                    "annotations": {UNTIL: at(600 + i64::try_from(number)?)?, "fleet.kubectl-mc.dev/host": uid},
                },
                "stringData": {"via": "agent", "server": "https://kubernetes.default.svc"},
            });
            host()?.apply(&format!("/api/v1/namespaces/{SYSTEM}/secrets/{LIAR}.{end}"), &secret)?;
        }
        eventually(&format!("the condition names the lie: {reason}"), 3 * SOON, || {
            let (why, said) = condition_of(LIAR)?;
            ensure!(why == "EnrollmentFailed" && said.contains(reason), "{why}: {said}");
            Ok(Some(()))
        })?;
        for end in ["manager", "member"] {
            let secret = host()?.get(&format!("/api/v1/namespaces/{SYSTEM}/secrets/{LIAR}.{end}"))?;
            let keys: Vec<_> = secret["data"].as_object().context("no data")?.keys().collect();
            ensure!(keys == ["server", "via"], "{reason}: {keys:?}");
        }
    }
    for path in [member_cluster, twin, account_path(LIAR)] {
        host()?.delete(&path)?;
    }
    for end in ["manager", "member"] {
        host()?.delete(&format!("/api/v1/namespaces/{SYSTEM}/secrets/{LIAR}.{end}"))?;
    }
    Ok(())
}

/// Each false answer, and the condition's message about it.
const LIES: &[(&str, &str)] = &[
    ("account", "has no token of service account kubectl-mc-system/kubectl-mc-"),
    ("authority", "key ca.crt: it is no PEM certificate"),
    ("flood", "did not answer, or its answer was too long"),
    ("host", "the agent runs on the host itself"),
    ("twin", "the cluster is joined already, as e2e-liar-twin"),
    ("silence", "the member's API server did not answer in time"),
];

/// A member's API that answers with one of the lies.
fn answer(request: &Request, lie: usize, host_uid: &Value) -> Vec<Step> {
    let (lie, target) = (LIES[lie].0, request.target());
    let account = target.rsplit('/').nth(1).unwrap_or_default();
    let account = if lie == "account" { "default" } else { account };
    let pem = "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n";
    let body = match target {
        _ if lie == "silence" => return vec![Step::Hang],
        _ if target.ends_with("/token") => json!({
            "spec": {"audiences": ["a"]},
            "status": {"token": unsigned_token(&json!({
                "sub": format!("system:serviceaccount:kubectl-mc-system:{account}"), "iat": 1_700_000_000, "exp": 9_000_000_000_u64,
            }))},
        }),
        _ if target.contains("kube-root-ca.crt") => json!({"data": {"ca.crt": match lie {
            "flood" => pem.repeat(20_000),
            _ => pem.to_owned(),
        }}}),
        _ if target.ends_with("/kube-system") => json!({"metadata": {"uid": match lie {
            "host" => host_uid.clone(),
            "twin" => TWIN.into(),
            _ => "of-the-liar".into(),
        }}}),
        _ => json!({}),
    };
    reply("200 OK", "Content-Type: application/json\r\n", &body.to_string())
}

const LIAR: &str = "e2e-liar";
const TWIN: &str = "uid-of-the-twin";
