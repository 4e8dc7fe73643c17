//! Enrollment under Cluster Authorization: a bootstrap token gets a certificate for the agent of
//! its own cluster, an agent gets one for itself, and no other caller's request for a certificate
//! reaches the webhook. This is tested on the newest and the oldest host.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use harness::api::Api;
use harness::http1::Endpoint;
use harness::karmada_host::KarmadaHost;
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};

use super::cluster_authorization::program;

#[test]
fn token_enrolls_only_its_own_cluster_on_the_newest_host() -> Result<()> {
    enrollment_is_judged("k1")
}

#[test]
fn token_enrolls_only_its_own_cluster_on_the_oldest_host() -> Result<()> {
    enrollment_is_judged("k2")
}

fn enrollment_is_judged(name: &str) -> Result<()> {
    let mut host = KarmadaHost::take(name, program())?.with_bootstrap_tokens()?;
    host.start_webhook(&[])?;
    host.apply_generated(&["--without-webhook", "a", "b"])?;
    let requesters = Requesters::prepare(&host)?;
    // Waits until the host has read the rights and the webhook's registration.
    eventually("requests are judged", SOON, || {
        let (own, other) = (requesters.token("a", &agent("a")?)?, requesters.token("a", &agent("b")?)?);
        Ok((own.0 == 201 && other.0 == 403 && other.1.contains("kubectl-mc: ")).then_some(()))
    })?;
    tokens_get_their_own_agent(&requesters)?;
    agents_renew_themselves(&host)?;
    others_never_reach_it(&host, &requesters)?;
    weaker_registration_is_shown(&host)?;
    agents_alone_notice_its_end(&mut host, &requesters)?;
    host.plugin.ok(&["authz", "remove", "--for=karmada", "--yes"])?;
    eventually("nothing is judged any more", SOON, || {
        Ok((requesters.token("a", &agent("b")?)?.0 == 201).then_some(()))
    })
}

fn tokens_get_their_own_agent(requesters: &Requesters) -> Result<()> {
    // karmadactl register requests both, in this order.
    for own in [agent("rbac-generator")?, agent("a")?] {
        let (code, text) = requesters.token("a", &own)?;
        ensure!(code == 201, "{code}: {text}");
    }
    let two = ["/O=system:karmada:agents/CN=system:karmada:agent:a/CN=system:karmada:agent:b"];
    let masters = ["/O=system:karmada:agents/O=dev/CN=system:karmada:agent:a"];
    let named =
        ["/O=system:karmada:agents/CN=system:karmada:agent:a", "-addext", "subjectAltName=DNS:kubernetes"];
    let blocks = format!("{}{}", agent("a")?, agent("b")?);
    for (what, pem) in [
        ("another cluster", agent("b")?),
        ("an impersonator", agent("a-impersonator")?),
        ("two names", request(&two)?),
        (
            "two names, the other first",
            request(&[&two[0].replace(":a/CN=system:karmada:agent:b", ":b/CN=system:karmada:agent:a")])?,
        ),
        ("two groups", request(&masters)?),
        ("another group", request(&["/O=dev/CN=system:karmada:agent:a"])?),
        ("no group", request(&["/CN=system:karmada:agent:a"])?),
        ("another name", request(&named)?),
        ("an administrator", request(&["/O=dev/CN=kubernetes-admin"])?),
        ("two blocks", blocks),
    ] {
        let (code, text) = requesters.token("a", &pem)?;
        ensure!(code == 403 && text.contains("kubectl-mc: "), "{what}: {code}: {text}");
    }
    let server = |body: &mut Value| {
        body["spec"]["usages"] = json!(["digital signature", "client auth", "server auth"])
    };
    let kubelet =
        |body: &mut Value| body["spec"]["signerName"] = "kubernetes.io/kube-apiserver-client-kubelet".into();
    for change in [&server as &dyn Fn(&mut Value), &kubelet] {
        let (code, text) = requesters.token_with("a", &agent("a")?, change)?;
        ensure!(code == 403 && text.contains("kubectl-mc: "), "{code}: {text}");
    }
    // A token that belongs to no cluster, as `karmadactl token create` makes it.
    let (code, text) = requesters.token("none", &agent("a")?)?;
    ensure!(code == 403 && text.contains("kubectl mc authz token"), "{code}: {text}");
    Ok(())
}

fn agents_renew_themselves(host: &KarmadaHost) -> Result<()> {
    let a = host.agent("a")?;
    a.expect(201, "POST", REQUESTS, Some(&body(&agent("a")?)))?;
    for other in ["b", "rbac-generator"] {
        let text = a.expect(403, "POST", REQUESTS, Some(&body(&agent(other)?)))?;
        ensure!(text.contains("kubectl-mc: "), "{text}");
    }
    Ok(())
}

/// Requests of a user, of a kubelet with its token, and of a kubelet that renews its certificate.
fn others_never_reach_it(host: &KarmadaHost, requesters: &Requesters) -> Result<()> {
    let webhook = host.webhook.as_ref().context("there is no webhook")?;
    let before = webhook.metric(REVIEWS)?;
    ensure!(before > 10.0, "{before} reviews");
    others_pass(requesters)?;
    ensure!(webhook.metric(REVIEWS)? == before, "the request of another caller reached the webhook");
    Ok(())
}

fn others_pass(requesters: &Requesters) -> Result<()> {
    let node = request(&["/O=system:nodes/CN=system:node:n1"])?;
    for (requester, pem, signer) in [
        (&requesters.admin, request(&["/CN=jane"])?, CLIENT),
        // An administrator may enroll by hand.
        (&requesters.admin, agent("b")?, CLIENT),
        (&requesters.kubelet_token, node.clone(), "kubernetes.io/kube-apiserver-client-kubelet"),
        (&requesters.kubelet, node, "kubernetes.io/kube-apiserver-client-kubelet"),
    ] {
        let mut body = body(&pem);
        body["spec"]["signerName"] = signer.into();
        let answer = requester.request("POST", REQUESTS, "application/json", &body.to_string())?;
        ensure!(answer.status() == 201, "{}", answer.text());
    }
    Ok(())
}

fn weaker_registration_is_shown(host: &KarmadaHost) -> Result<()> {
    let path = format!("{CONFIGURATIONS}/kubectl-mc-karmada-enrollment");
    let verify = || {
        let output = host.plugin.run(&["authz", "verify", "--for=karmada", "--without-webhook", "a"])?;
        let text = output.text();
        Ok::<_, anyhow::Error>(
            text.lines().find(|line| line.contains("certificates of agents")).map(str::to_owned),
        )
    };
    ensure!(verify()?.is_none(), "{:?}", verify()?);
    let original = host.api.get(&path)?["webhooks"].clone();
    let mut weaker = original.clone();
    weaker[0]["failurePolicy"] = "Ignore".into();
    host.api.merge(&path, &json!({"webhooks": weaker}))?;
    let line = verify()?.context("a weaker registration is not shown")?;
    ensure!(line.ends_with("its failurePolicy is not Fail"), "{line}");
    host.api.merge(&path, &json!({"webhooks": original})).map(drop)
}

fn agents_alone_notice_its_end(host: &mut KarmadaHost, requesters: &Requesters) -> Result<()> {
    host.webhook.take().context("there is no webhook")?.kill()?;
    let (code, text) = requesters.token("a", &agent("a")?)?;
    ensure!(code != 201 && text.contains("failed calling webhook"), "{code}: {text}");
    let (code, text) = host.agent("a")?.ask("POST", REQUESTS, Some(&body(&agent("a")?)))?;
    ensure!(code != 201 && text.contains("failed calling webhook"), "{code}: {text}");
    others_pass(requesters)?;
    host.start_webhook(&[])?;
    eventually("the token enrolls again", SOON, || {
        Ok((requesters.token("a", &agent("a")?)?.0 == 201).then_some(()))
    })
}

struct Requesters {
    cluster: &'static testbed::Cluster,
    /// A token of cluster a, and one of no cluster.
    tokens: [String; 2],
    admin: Api,
    kubelet_token: Api,
    kubelet: Api,
}

impl Requesters {
    fn prepare(host: &KarmadaHost) -> Result<Self> {
        let group = "rbac.authorization.k8s.io";
        let metadata =
            json!({"name": "e2e-requesters", "labels": {"app.kubernetes.io/managed-by": "kubectl-mc"}});
        let role = json!({
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": metadata,
            "rules": [{"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"],
                "verbs": ["create", "get"]}],
        });
        let subject = |name: &str| json!({"apiGroup": group, "kind": "Group", "name": name});
        let binding = json!({
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "e2e-requesters"},
            "subjects": [subject("system:bootstrappers"), subject("system:nodes")],
        });
        host.api.apply(&format!("/apis/{group}/v1/clusterroles/e2e-requesters"), &role)?;
        host.api.apply(&format!("/apis/{group}/v1/clusterrolebindings/e2e-requesters"), &binding)?;
        let command = host.plugin.ok(&["authz", "token", "a", "--ttl=1h", "--server=host.example:6443"])?;
        let token = command.split("--token=").nth(1).and_then(|rest| rest.split(' ').next());
        let unbound = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
            "metadata": {"name": "bootstrap-token-e2enon"},
            "stringData": {
                "token-id": "e2enon", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
                "auth-extra-groups": "system:bootstrappers:karmada:default-cluster-token",
            },
        });
        host.api.apply("/api/v1/namespaces/kube-system/secrets/bootstrap-token-e2enon", &unbound)?;
        let as_user = |user: &str, groups: &[&str]| {
            let mut lines = vec![format!("Impersonate-User: {user}")];
            lines.extend(groups.iter().map(|group| format!("Impersonate-Group: {group}")));
            let lines: Vec<_> = lines.iter().map(String::as_str).collect();
            host.api.with(&lines)
        };
        Ok(Self {
            cluster: host.cluster,
            tokens: [token.context("no token")?.to_owned(), "e2enon.0123456789abcdef".to_owned()],
            admin: Api::admin(host.cluster)?,
            kubelet_token: as_user(
                "system:bootstrap:abcdef",
                &["system:bootstrappers", "system:bootstrappers:kubeadm:default-node-token"],
            ),
            kubelet: as_user("system:node:n1", &["system:nodes"]),
        })
    }

    /// The answer to a request with the token of a cluster.
    fn token(&self, cluster: &str, pem: &str) -> Result<(u16, String)> {
        self.token_with(cluster, pem, |_| {})
    }

    fn token_with(&self, cluster: &str, pem: &str, change: impl Fn(&mut Value)) -> Result<(u16, String)> {
        let token = &self.tokens[usize::from(cluster != "a")];
        let mut body = body(pem);
        change(&mut body);
        let body = body.to_string();
        let head = format!(
            "POST {REQUESTS} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n"
        );
        let length = body.len();
        let request =
            format!("{head}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}");
        let answer = Endpoint::cluster(self.cluster, None)?.exchange(request.as_bytes())?;
        Ok((answer.status(), answer.text()))
    }
}

fn body(pem: &str) -> Value {
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"generateName": "e2e-"},
        "spec": {
            "request": STANDARD.encode(pem), "signerName": CLIENT,
            "usages": ["digital signature", "key encipherment", "client auth"],
        },
    })
}

fn agent(cluster: &str) -> Result<String> {
    request(&[&format!("/O=system:karmada:agents/CN=system:karmada:agent:{cluster}")])
}

/// A certificate signing request with this subject, made by openssl.
fn request(subject: &[&str]) -> Result<String> {
    let key = [
        "req",
        "-new",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-keyout",
        "/dev/null",
    ];
    let output = Command::new("openssl").args(key).arg("-subj").args(subject).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests?dryRun=All";
const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const REVIEWS: &str = "mc_sidecar_admission_webhook_reviews_total{webhook=\"enrollment\"";
