//! With the sidecar in front of Karmada's own server, an agent writes the status of its Cluster and nothing else
//! through it. Karmada's server itself stores the whole document of a status update.

use std::thread;

use anyhow::{Context, Result, ensure};
use harness::caller::Caller;
use harness::http1::Endpoint;
use harness::karmada::InPlace;
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};

use super::karmada_in_place::{JOINED, directly, role, start};

#[test]
fn agent_status_write_changes_nothing_but_the_status() -> Result<()> {
    let karmada = start("in-place-status")?;
    for name in [JOINED, OTHER] {
        karmada.join(name, "m2")?;
    }
    let agent = Agent::of(&karmada)?;
    let before = karmada.host.get(&agent.path)?;
    let unchanged = |what: &str| {
        let now = karmada.host.get(&agent.path)?;
        ensure!(now["spec"] == before["spec"], "{what}: {}", now["spec"]);
        for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
            ensure!(now["metadata"][field] == before["metadata"][field], "{what}: {}", now["metadata"]);
        }
        Ok::<_, anyhow::Error>(now)
    };
    let evil = json!({
        "apiEndpoint": "https://evil.example", "secretRef": {"namespace": "karmada-cluster", "name": OTHER},
        "proxyURL": "http://evil.example",
    });
    let mut whole = before.clone();
    whole["metadata"]["labels"] = json!({"env": "other"});
    for (key, value) in evil.as_object().into_iter().flatten() {
        whole["spec"][key] = value.clone();
    }
    whole["metadata"].as_object_mut().context("no metadata")?.remove("resourceVersion");
    let merge = json!({"metadata": {"labels": {"env": "other"}, "finalizers": ["a/b"]}, "spec": evil});
    let operations = |prefix: &str| {
        let spec = evil.as_object().into_iter().flatten();
        let add = |(key, value): (&String, &Value)| json!({"op": "add", "path": format!("{prefix}/spec/{key}"), "value": value});
        Value::Array(spec.map(add).collect())
    };
    for part in
        ["/status", "/status/", "/status?fieldManager=karmada-agent", "/status/?fieldValidation=Ignore"]
    {
        for (number, (method, kind, mut document, expected)) in [
            ("PUT", "json", whole.clone(), 200),
            ("PATCH", "merge-patch+json", merge.clone(), 200),
            ("PATCH", "strategic-merge-patch+json", merge.clone(), 415),
            ("PATCH", "apply-patch+yaml", merge.clone(), 415),
            ("PATCH", "json-patch+json", operations(""), 415),
            ("PATCH", "json-patch+json", operations("x"), 415),
        ]
        .into_iter()
        .enumerate()
        {
            let version = format!("v1.{number}.{}", part.len());
            if document.is_object() {
                document["status"] = json!({"kubernetesVersion": version});
            }
            let (status, text) = agent.send(method, part, kind, &document)?;
            ensure!(status == expected, "{method} {part} {kind}: {status} {text}");
            let now = unchanged(&format!("{method} {part} {kind}"))?;
            let is_written = now["status"]["kubernetesVersion"] == version.as_str();
            ensure!(is_written == (expected == 200), "{method} {part} {kind}: {}", now["status"]);
        }
    }
    for (part, document) in [("", operations("x")), ("", operations("")), ("/", operations("x/"))] {
        let (status, text) = agent.send("PATCH", part, "json-patch+json", &document)?;
        ensure!(status == 415, "{part}: {status} {text}");
        unchanged("a JSON patch")?;
    }
    for (method, part) in
        [("PUT", "/scale"), ("PATCH", "/finalize"), ("PUT", "/status/more"), ("DELETE", "/status")]
    {
        let (status, text) =
            agent.send(method, part, if method == "PATCH" { "merge-patch+json" } else { "json" }, &whole)?;
        ensure!(status == 403 && text.contains("an agent may"), "{method} {part}: {status} {text}");
        unchanged(part)?;
    }
    // This is what karmada-agent writes: the whole Cluster, with its version.
    let mut own: Value = serde_json::from_str(&agent.send("GET", "", "json", &Value::Null)?.1)?;
    own["status"]["conditions"] = json!([{
        "type": "Ready", "status": "True", "reason": "ClusterReady", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]);
    let (status, text) = agent.send("PUT", "/status", "json", &own)?;
    ensure!(status == 200, "{status} {text}");
    ensure!(unchanged("a status update")?["status"]["conditions"][0]["reason"] == "ClusterReady");
    let (status, text) = agent.send("PUT", "/status", "json", &own)?;
    ensure!(status == 409 && text.contains(r#""reason":"Conflict""#), "an old version: {status} {text}");
    Ok(())
}

#[test]
fn agent_registers_and_deletes_its_own_cluster() -> Result<()> {
    let karmada = start("in-place-register")?;
    let agent = Agent::of(&karmada)?;
    let reference = |name: &str| json!({"namespace": "karmada-cluster", "name": name});
    // This is what karmada-agent writes.
    let mut cluster = json!({
        "kind": "Cluster", "apiVersion": "cluster.karmada.io/v1alpha1",
        "metadata": {"name": JOINED, "creationTimestamp": null},
        "spec": {
            "id": "e2e-in-place", "syncMode": "Pull", "apiEndpoint": "https://192.0.2.1:6443", "zones": ["a"],
            "secretRef": reference(JOINED), "impersonatorSecretRef": reference(&format!("{JOINED}-impersonator")),
        },
        "status": {},
    });
    let collection = |document: &Value| agent.to(CLUSTERS, "POST", "json", document);
    for (pointer, value) in [
        ("/metadata/labels", json!({"env": "other"})),
        ("/spec/taints", json!([{"key": "k", "effect": "NoSchedule"}])),
        ("/spec/secretRef", reference(OTHER)),
        ("/spec/syncMode", "Push".into()),
        ("/metadata/name", OTHER.into()),
    ] {
        let mut redirected = cluster.clone();
        let (parent, field) = pointer.rsplit_once('/').context("no pointer")?;
        redirected.pointer_mut(parent).context("no parent")?[field] = value;
        let (status, text) = collection(&redirected)?;
        ensure!(status == 403, "{pointer}: {status} {text}");
    }
    let (status, text) = collection(&cluster)?;
    ensure!(status == 201, "{status} {text}");
    ensure!(karmada.host.get(&agent.path)?["spec"]["zones"] == json!(["a"]));
    // This replica has other flags.
    cluster = karmada.host.get(&agent.path)?;
    cluster["spec"]["zones"] = json!(["b", "c"]);
    let (status, text) = agent.send("PUT", "", "json", &cluster)?;
    ensure!(status == 200, "{status} {text}");
    ensure!(karmada.host.get(&agent.path)?["spec"]["zones"] == json!(["b", "c"]));
    let (status, text) = agent.send("DELETE", "", "json", &Value::Null)?;
    ensure!(status == 200, "{status} {text}");
    let (status, text) = agent.send("PUT", "/status", "json", &cluster)?;
    ensure!(status == 404 && text.contains("NotFound"), "{status} {text}");
    Ok(())
}

#[test]
fn agent_status_writes_keep_concurrent_changes() -> Result<()> {
    let karmada = start("in-place-race")?;
    karmada.join(JOINED, "m2")?;
    let agent = Agent::of(&karmada)?;
    let last = WRITES.to_string();
    thread::scope(|scope| {
        let admin = scope.spawn(|| {
            for number in 1..=WRITES {
                let labels = json!({"metadata": {"labels": {"turn": number.to_string()}}});
                karmada.host.merge(&agent.path, &labels)?;
            }
            Ok::<_, anyhow::Error>(())
        });
        for number in 1..=WRITES {
            let status = json!({"status": {"kubernetesVersion": number.to_string()}});
            let (method, kind) =
                if number % 2 == 0 { ("PUT", "json") } else { ("PATCH", "merge-patch+json") };
            // Without a version, the write is repeated on the new one, as in a kube-apiserver.
            let (code, text) = agent.send(method, "/status", kind, &status)?;
            ensure!(code == 200 || code == 409, "{method} {number}: {code} {text}");
        }
        admin.join().map_err(|_| anyhow::anyhow!("the administrator's thread panicked"))?
    })?;
    let (code, text) = agent.send(
        "PATCH",
        "/status",
        "merge-patch+json",
        &json!({"status": {"kubernetesVersion": last}}),
    )?;
    ensure!(code == 200, "{code} {text}");
    let now = karmada.host.get(&agent.path)?;
    ensure!(now["metadata"]["labels"]["turn"] == last.as_str(), "{}", now["metadata"]);
    ensure!(now["status"]["kubernetesVersion"] == last.as_str(), "{}", now["status"]);
    Ok(())
}

/// The agent of [`JOINED`], which has more rights on Clusters than it needs.
struct Agent {
    endpoint: Endpoint,
    path: String,
}

impl Agent {
    fn of(karmada: &InPlace) -> Result<Self> {
        let agent =
            Caller::certificate(&format!("system:karmada:agent:{JOINED}"), &["system:karmada:agents"])?;
        let subject = json!({"kind": "Group", "name": "system:karmada:agents", "apiGroup": "rbac.authorization.k8s.io"});
        role(karmada, "e2e-in-place-agents", &["*"], &subject)?;
        let agent = Self { endpoint: directly(karmada, &agent)?, path: format!("{CLUSTERS}/{JOINED}") };
        eventually("the agent may list", SOON, || {
            let (status, text) = agent.to(CLUSTERS, "GET", "json", &Value::Null)?;
            ensure!(status == 200, "{status} {text}");
            Ok(Some(()))
        })?;
        Ok(agent)
    }

    /// Sends a request for its own Cluster.
    fn send(&self, method: &str, part: &str, kind: &str, document: &Value) -> Result<(u16, String)> {
        self.to(&format!("{}{part}", self.path), method, kind, document)
    }

    fn to(&self, path: &str, method: &str, kind: &str, document: &Value) -> Result<(u16, String)> {
        let body = if document.is_null() { String::new() } else { document.to_string() };
        let length = body.len();
        let sent = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/{kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        let answer = self.endpoint.exchange(sent.as_bytes())?;
        Ok((answer.status(), answer.text()))
    }
}

const WRITES: usize = 40;
const OTHER: &str = "e2e-in-place-next";
const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
