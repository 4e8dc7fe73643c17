//! A host whose members run Karmada's agents, for one test at a time: k1, k2 with the oldest
//! Kubernetes, k3 with Kubernetes 1.34, and s4 for sidecars in pods.
//!
//! Clusters and Works are CustomResourceDefinitions with Karmada's groups and names here, unless a
//! test needs Karmada's own. Karmada's aggregated API server uses the same authorizer, and has no
//! admission.

use std::net::TcpListener;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::{ClientCertificate, Cluster};

use crate::api::Api;
use crate::bed::{bed, sidecar, spare};
use crate::http1::Endpoint;
use crate::karmada_own::OwnKinds;
use crate::leftovers::Clean;
use crate::own_sidecar::{Difference, OwnSidecar};
use crate::tool::Tool;
use crate::turn::Turn;
use crate::wait::{SOON, eventually};

/// The host, which is restored when this is dropped.
pub struct KarmadaHost {
    pub cluster: &'static Cluster,
    pub api: Api,
    pub plugin: Tool,
    pub webhook: Option<OwnSidecar>,
    port: u16,
    admission_port: u16,
    files: TempDir,
    /// The flags of its kube-apiserver in addition to those of the bed.
    flags: Vec<String>,
    /// This is dropped before the rest is cleaned.
    _own: Option<OwnKinds>,
    _clean: Clean,
    _turn: Turn,
}

impl KarmadaHost {
    /// A host with Karmada's kinds and namespaces, for clusters a and b, and without a webhook.
    pub fn take(name: &str, plugin: &Path) -> Result<Self> {
        Self::with(name, plugin, |_, api| stand_ins(api).map(|()| None))
    }

    /// The same with Karmada's own aggregated API server and definitions.
    pub fn with_karmada(name: &str, plugin: &Path) -> Result<Self> {
        Self::with(name, plugin, |cluster, api| OwnKinds::of(cluster, api).map(Some))
    }

    fn with(
        name: &str,
        plugin: &Path,
        kinds: impl FnOnce(&'static Cluster, &Api) -> Result<Option<OwnKinds>>,
    ) -> Result<Self> {
        let turn = Turn::take(name)?;
        let cluster = spare(name)?;
        let clean = Clean::take(cluster)?;
        let api = Api::admin(cluster)?;
        let own = kinds(cluster, &api)?;
        for name in ["karmada-cluster", "karmada-system", "karmada-es-a", "karmada-es-b"] {
            let namespace = json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": name, "labels": {"karmada.io/system": "true"}},
            });
            api.apply(&format!("/api/v1/namespaces/{name}"), &namespace)?;
        }
        let [port, admission_port] = free_ports()?;
        let (plugin, files) = (Tool::plugin_at(plugin, &[cluster])?, tempfile::tempdir()?);
        Ok(Self {
            cluster,
            api,
            plugin,
            webhook: None,
            port,
            admission_port,
            files,
            flags: Vec::new(),
            _own: own,
            _clean: clean,
            _turn: turn,
        })
    }

    /// Starts the webhook, and configures the kube-apiserver for it with the files that the plugin
    /// prints.
    pub fn with_webhook(self) -> Result<Self> {
        self.with_webhook_of(&[])
    }

    /// The same with more flags for the sidecar.
    pub fn with_webhook_of(mut self, flags: &[&str]) -> Result<Self> {
        self.start_webhook(flags)?;
        let address = self.webhook_endpoint(None)?.address();
        self.ask_webhook(&[&format!("--webhook-server=https://{address}")])?;
        Ok(self)
    }

    /// Configures the kube-apiserver with the files that `authz generate` prints for these flags.
    pub fn ask_webhook(&mut self, flags: &[&str]) -> Result<()> {
        let dir = self.cluster.dir.display();
        let kubeconfig = self.files.path().join("kubeconfig");
        let print = |part: &str| {
            let command = ["authz", "generate", "--for=karmada", &format!("--only={part}")];
            self.plugin.ok(&[&command[..], flags].concat())
        };
        let text = print("kubeconfig")?
            .replace("/etc/kubernetes/pki/front-proxy-client", &format!("{dir}/front-proxy-client"))
            .replace(
                "/etc/kubernetes/pki/mc-sidecar-ca.crt",
                &sidecar()?.ca_certificate.display().to_string(),
            );
        std::fs::write(&kubeconfig, text)?;
        let config = self.files.path().join("config");
        let text = print("config")?
            .replace("/etc/kubernetes/mc-authz.kubeconfig", &kubeconfig.display().to_string());
        std::fs::write(&config, text)?;
        self.restart_with([
            "!--authorization-mode".to_owned(),
            format!("--authorization-config={}", config.display()),
        ])?;
        // The kube-apiserver takes a moment to read the kinds again.
        for kind in ["cluster.karmada.io/v1alpha1/clusters", "work.karmada.io/v1alpha1/works"] {
            self.api.get(&format!("/apis/{kind}"))?;
        }
        Ok(())
    }

    /// Lets the kube-apiserver accept bootstrap tokens, as Karmada's does. Deletes those that exist.
    pub fn with_bootstrap_tokens(mut self) -> Result<Self> {
        self.restart_with(["--enable-bootstrap-token-auth=true".to_owned()])?;
        let secrets = "/api/v1/namespaces/kube-system/secrets";
        let tokens =
            self.api.get(&format!("{secrets}?fieldSelector=type%3Dbootstrap.kubernetes.io/token"))?;
        for token in tokens["items"].as_array().into_iter().flatten() {
            self.api
                .delete(&format!("{secrets}/{}", token["metadata"]["name"].as_str().unwrap_or_default()))?;
        }
        Ok(self)
    }

    fn restart_with(&mut self, flags: impl IntoIterator<Item = String>) -> Result<()> {
        self.flags.extend(flags);
        let flags: Vec<_> = self.flags.iter().map(String::as_str).collect();
        self.cluster.restart_apiserver_with(&flags)
    }

    /// Starts the sidecar with the webhooks. These flags come after all others.
    pub fn start_webhook(&mut self, more: &[&str]) -> Result<()> {
        let flags = [
            format!("--authorization-webhook-port={}", self.port),
            format!("--admission-webhook-port={}", self.admission_port),
            format!(
                "--authorization-webhook-client-ca-file={}/front-proxy-ca.crt",
                self.cluster.dir.display()
            ),
            "--authorization-webhook-client-name=front-proxy-client".to_owned(),
        ];
        let flags: Vec<_> = flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
        self.webhook = Some(OwnSidecar::with(&Difference { flags: &flags, ..Difference::default() })?);
        Ok(())
    }

    /// The port of the webhook, for a client with this certificate.
    pub fn webhook_endpoint(&self, certificate: Option<&ClientCertificate>) -> Result<Endpoint> {
        let endpoint = self.webhook.as_ref().context("there is no webhook")?.endpoint(certificate)?;
        let mut address = endpoint.address();
        address.set_port(self.port);
        Ok(endpoint.at(address))
    }

    /// The port of the admission webhooks, for a client without a certificate.
    pub fn admission_endpoint(&self) -> Result<Endpoint> {
        let endpoint = self.webhook.as_ref().context("there is no webhook")?.endpoint(None)?;
        let mut address = endpoint.address();
        address.set_port(self.admission_port);
        Ok(endpoint.at(address))
    }

    /// The flags that make the plugin register the admission webhooks of the sidecar, or none.
    pub fn admission_flags(&self) -> Result<Vec<String>> {
        if self.webhook.is_none() {
            return Ok(vec!["--without-admission-webhook".to_owned()]);
        }
        Ok(vec![
            format!("--admission-webhook-server=https://{}", self.admission_endpoint()?.address()),
            format!("--admission-webhook-ca-file={}", sidecar()?.ca_certificate.display()),
        ])
    }

    /// The certificate of the kube-apiserver.
    pub fn front_proxy(&self) -> Result<ClientCertificate> {
        let read = |file: &str| std::fs::read_to_string(self.cluster.dir.join(file));
        Ok(ClientCertificate {
            certificate: read("front-proxy-client.crt")?,
            key: read("front-proxy-client.key")?,
        })
    }

    /// Applies what `authz generate --only=objects` prints. The admission webhooks are those of the sidecar,
    /// if it runs.
    pub fn apply_generated(&self, arguments: &[&str]) -> Result<()> {
        let command = ["authz", "generate", "--for=karmada", "--only=objects"];
        let flags = self.admission_flags()?;
        let flags: Vec<_> = flags.iter().map(String::as_str).collect();
        let objects = self.plugin.ok(&[&command[..], arguments, &flags].concat())?;
        let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
        let namespace = ["create", "namespace", "kubectl-mc-system"];
        let kubectl = Tool::admin(self.cluster)?;
        if objects.contains("kind: Service\n") {
            kubectl.run(&namespace)?;
        }
        kubectl.run_with_input(&apply, objects.as_bytes())?.success()?;
        if objects.contains("kind: MutatingAdmissionPolicy\n") {
            self.owner_policy_knows_works()
        } else {
            Ok(())
        }
    }

    /// Waits until the policy writes owners. The host refuses an agent's Works with 503 from the time it loads
    /// the policy until the policy has read the new kind: every 5 s (`policy/mutating/patch/typeconverter.go`).
    fn owner_policy_knows_works(&self) -> Result<()> {
        let groups = ["system:karmada:agents", "system:masters"];
        let certificate = self.cluster.client_certificate("system:karmada:agent:a", &groups)?;
        let agent = Agent(Endpoint::cluster(self.cluster, Some(&certificate))?);
        let work = json!({
            "apiVersion": "work.karmada.io/v1alpha1", "kind": "Work", "metadata": {"name": "w"}, "spec": {},
        });
        let path = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-a/works?dryRun=All";
        eventually("the owner of a Work is written", 2 * SOON, || {
            let (code, text) = agent.ask("POST", path, Some(&work))?;
            ensure!(code == 201 && text.contains("clusterrestriction.karmada.io/owner"), "{code}: {text}");
            Ok(Some(()))
        })
    }

    /// The agent of a cluster, with its certificate.
    pub fn agent(&self, cluster: &str) -> Result<Agent> {
        let user = format!("system:karmada:agent:{cluster}");
        let certificate = self.cluster.client_certificate(&user, &["system:karmada:agents"])?;
        Ok(Agent(Endpoint::cluster(self.cluster, Some(&certificate))?))
    }

    /// Grants what `karmadactl register` grants the agent of a cluster.
    pub fn grant_as_registered(&self, cluster: &str) -> Result<()> {
        let named = |group: &str, resource: &str, names: &[String], verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "resourceNames": names, "verbs": verbs});
        let any = |group: &str, resource: &str, verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
        let (own, secrets) = ([cluster.to_owned()], [cluster.to_owned(), format!("{cluster}-impersonator")]);
        let read = ["get", "list", "watch"];
        self.grant(
            cluster,
            "agent",
            "",
            &json!([
                named("cluster.karmada.io", "clusters", &own, &["get", "delete"]),
                any("cluster.karmada.io", "clusters", &["create", "list", "watch"]),
                named("cluster.karmada.io", "clusters/status", &own, &["update"]),
                any("config.karmada.io", "resourceinterpreterwebhookconfigurations", &read),
                any("config.karmada.io", "resourceinterpretercustomizations", &read),
                any("", "namespaces", &["get"]),
                any("coordination.k8s.io", "leases", &["get", "create", "update"]),
                any("certificates.k8s.io", "certificatesigningrequests", &["get", "create"]),
                any("", "services", &["list", "watch"]),
                any("", "events", &["patch", "create", "update"]),
            ]),
        )?;
        self.grant(
            cluster,
            "agent-secret",
            "karmada-cluster",
            &json!([named("", "secrets", &secrets, &["get", "patch"]), any("", "secrets", &["create"]),]),
        )?;
        self.grant(
            cluster,
            "agent-work",
            &format!("karmada-es-{cluster}"),
            &json!([
                any("work.karmada.io", "works", &["get", "create", "list", "watch", "update", "delete"]),
                any("work.karmada.io", "works/status", &["patch", "update"]),
            ]),
        )
    }

    fn grant(&self, cluster: &str, suffix: &str, namespace: &str, rules: &Value) -> Result<()> {
        let (role, place) = match namespace {
            "" => ("ClusterRole", String::new()),
            _ => ("Role", format!("namespaces/{namespace}/")),
        };
        let name = format!("system:karmada:{cluster}:{suffix}");
        let labels = json!({"app.kubernetes.io/managed-by": "kubectl-mc"});
        let group = "rbac.authorization.k8s.io";
        for (kind, mut object) in [
            (role.to_owned(), json!({"rules": rules})),
            (
                format!("{role}Binding"),
                json!({
                    "roleRef": {"apiGroup": group, "kind": role, "name": name},
                    "subjects": [{"apiGroup": group, "kind": "User", "name": format!("system:karmada:agent:{cluster}")}],
                }),
            ),
        ] {
            object["apiVersion"] = format!("{group}/v1").into();
            object["kind"] = kind.as_str().into();
            object["metadata"] = json!({"name": name, "labels": labels});
            let plural = format!("{}s", kind.to_lowercase());
            self.api.apply(&format!("/apis/{group}/v1/{place}{plural}/{name}"), &object)?;
        }
        Ok(())
    }
}

impl Drop for KarmadaHost {
    fn drop(&mut self) {
        if !self.flags.is_empty() {
            // The next test restarts it and reports the error.
            let _ = self.cluster.restart_apiserver();
        }
    }
}

/// An agent's requests.
pub struct Agent(Endpoint);

impl Agent {
    /// The status code and the body of the answer.
    pub fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<(u16, String)> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let (length, head) =
            (body.len(), format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"));
        let request = format!("{head}Content-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}");
        let answer = self.0.exchange(request.as_bytes())?;
        Ok((answer.status(), answer.text()))
    }

    /// Fails unless the answer has this status code, and returns its body.
    pub fn expect(&self, status: u16, method: &str, path: &str, body: Option<&Value>) -> Result<String> {
        let (code, text) = self.ask(method, path, body)?;
        ensure!(code == status, "{method} {path}: {code}: {text}");
        Ok(text)
    }
}

/// Two ports that nothing listens on.
fn free_ports() -> Result<[u16; 2]> {
    let address = bed()?.address;
    let [one, other] = [TcpListener::bind((address, 0))?, TcpListener::bind((address, 0))?];
    Ok([one.local_addr()?.port(), other.local_addr()?.port()])
}

/// CustomResourceDefinitions that keep all fields.
fn stand_ins(api: &Api) -> Result<()> {
    for (group, kind, plural, scope) in [
        ("cluster.karmada.io", "Cluster", "clusters", "Cluster"),
        ("work.karmada.io", "Work", "works", "Namespaced"),
    ] {
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.{group}");
        api.apply(&path, &definition(group, kind, plural, scope))?;
        let served = match scope {
            "Cluster" => format!("/apis/{group}/v1alpha1/{plural}"),
            _ => format!("/apis/{group}/v1alpha1/namespaces/default/{plural}"),
        };
        eventually("the kind is served", SOON, || {
            Ok((api.request("GET", &served, "", "")?.status() == 200).then_some(()))
        })?;
    }
    Ok(())
}

fn definition(group: &str, kind: &str, plural: &str, scope: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.{group}"), "labels": {"app.kubernetes.io/managed-by": "kubectl-mc"},
        },
        "spec": {
            "group": group, "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}
