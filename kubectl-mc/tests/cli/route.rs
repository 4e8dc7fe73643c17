//! Tests the route to members: through the direct endpoint that the host publishes, or through the
//! host.

use std::net::TcpListener;
use std::path::PathBuf;

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::bed::{Bed, Ran};
use crate::tls_server::{Authority, TlsServer};

/// A host that publishes the content of `published`, and a bed whose kubeconfig points to it.
struct Scene {
    host: TlsServer,
    published: watch::Sender<Option<Value>>,
    bed: Bed,
}

impl Scene {
    fn new() -> Self {
        let authority = Authority::new();
        let (published, known) = watch::channel(None::<Value>);
        let host = TlsServer::new(&authority, move |path| match (path, &*known.borrow()) {
            (CONFIG_MAP, Some(data)) => (200, json!({"data": data}).to_string()),
            (CONFIG_MAP, None) => (404, "{}".to_owned()),
            _ => (200, "{}".to_owned()),
        });
        let bed = Bed::unreachable().by_kubectl();
        let scene = Self { host, published, bed };
        scene.kubeconfig(&authority, &json!({"token": "secret"}), &json!({}));
        scene
    }

    fn kubeconfig(&self, authority: &Authority, user: &Value, more: &Value) {
        use base64::Engine;
        let pem = base64::engine::general_purpose::STANDARD.encode(authority.pem());
        let mut cluster = json!({"server": self.host.url, "certificate-authority-data": pem});
        cluster.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let config = json!({
            "current-context": "host",
            "clusters": [{"name": "c", "cluster": cluster}],
            "contexts": [{"name": "host", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": user}],
        });
        std::fs::write(self.bed.path("kubeconfig"), config.to_string()).unwrap();
    }

    fn publish(&self, url: &str, authority: &Authority) {
        self.published.send_replace(Some(json!({"server": url, "ca.crt": authority.pem()})));
    }

    fn get(&self, more: &[&str]) -> Ran {
        self.bed.run(&[more, &["-C", "m1", "get", "pods"]].concat())
    }

    /// The server in the kubeconfig that kubectl gets.
    fn used(&self, more: &[&str]) -> String {
        let ran = self.get(more);
        assert_eq!(ran.code, Some(42), "{ran:?}");
        let overlay = std::fs::read(ran.kubeconfig().0).unwrap();
        let overlay: Value = serde_json::from_slice(&overlay).unwrap();
        let server = overlay["clusters"][0]["cluster"]["server"].as_str().unwrap();
        server.split("/apis/").next().unwrap().to_owned()
    }
}

/// An endpoint that accepts the caller's credential.
fn endpoint(authority: &Authority) -> TlsServer {
    TlsServer::new(authority, |_| (200, "{}".to_owned()))
}

#[test]
fn published_endpoint_is_used_and_remembered() {
    let (scene, authority) = (Scene::new(), Authority::new());
    let endpoint = endpoint(&authority);
    scene.publish(&endpoint.url, &authority);
    assert_eq!(scene.used(&[]), endpoint.url);
    assert_eq!(scene.host.paths(), [CONFIG_MAP]);
    let asked = endpoint.requests();
    assert!(asked[0].starts_with("GET /readyz ") && !asked[0].contains("secret"), "{asked:?}");
    assert!(asked[1].starts_with(CLUSTERS) && asked[1].contains("Bearer secret"), "{asked:?}");
    assert!(asked[2].starts_with("GET /apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy/version "));
    assert_eq!(asked.len(), 3);

    assert_eq!(scene.used(&[]), endpoint.url);
    assert_eq!(scene.host.paths(), [""; 0], "the publication is remembered");
    assert_eq!(scene.used(&["--route=host"]), scene.host.url);
}

#[test]
fn missing_publication_is_remembered() {
    let scene = Scene::new();
    assert_eq!(scene.used(&[]), scene.host.url);
    assert_eq!(scene.host.paths().iter().filter(|path| *path == CONFIG_MAP).count(), 1);
    assert_eq!(scene.used(&[]), scene.host.url);
    assert!(!scene.host.paths().contains(&CONFIG_MAP.to_owned()));
}

#[test]
fn host_route_asks_for_no_publication() {
    let scene = Scene::new();
    for chosen in [scene.used(&["--route=host"]), scene.used(&["--route", "host"])] {
        assert_eq!(chosen, scene.host.url);
    }
    let ran = scene.bed.run_with("KUBECTL_MC_ROUTE", "host", &["-C", "m1", "get", "pods"]);
    assert_eq!(ran.code, Some(42));
    assert!(!scene.host.paths().contains(&CONFIG_MAP.to_owned()));
    let ran = scene.bed.run_with("KUBECTL_MC_ROUTE", "shortest", &["-C", "m1", "get", "pods"]);
    let said = "error: invalid KUBECTL_MC_ROUTE \"shortest\": expected auto, host or direct\n";
    assert_eq!(ran.failed(), (2, said));
}

#[test]
fn unreachable_endpoint_falls_back_to_the_host() {
    let (scene, authority) = (Scene::new(), Authority::new());
    // The first address refuses connections; the server at the second one never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for address in [closed, silent.local_addr().unwrap()] {
        scene.publish(&format!("https://{address}"), &authority);
        let _ = std::fs::remove_dir_all(scene.bed.path("home/.cache"));
        assert_eq!(scene.used(&[]), scene.host.url, "{address}");
        let error = scene.get(&["--route=direct"]);
        let reason = format!("cannot reach https://{address}: ");
        assert!(error.code == Some(1) && error.err.contains(&reason), "{error:?}");
        assert!(error.err.ends_with("hint: --route=host goes through the host\n"), "{error:?}");
        scene.host.paths();
        assert_eq!(scene.used(&[]), scene.host.url);
        assert!(
            !scene.host.paths().contains(&CONFIG_MAP.to_owned()),
            "that it was not reached is remembered"
        );
    }
}

#[test]
fn credential_is_not_sent_to_an_unverified_endpoint() {
    let (scene, authority) = (Scene::new(), Authority::new());
    let impostor = endpoint(&Authority::new());
    scene.publish(&impostor.url, &authority);
    assert_eq!(scene.used(&[]), scene.host.url);
    assert_eq!(scene.get(&["--route=direct"]).code, Some(1));
    assert_eq!(impostor.requests(), [""; 0]);
}

#[test]
fn endpoint_that_rejects_the_credential_is_not_used() {
    let (scene, authority) = (Scene::new(), Authority::new());
    let endpoint = TlsServer::new(&authority, |path| match path {
        "/readyz" => (200, "ok".to_owned()),
        _ => (401, r#"{"kind": "Status", "message": "Unauthorized"}"#.to_owned()),
    });
    scene.publish(&endpoint.url, &authority);
    assert_eq!(scene.used(&[]), scene.host.url);
    assert_eq!(endpoint.paths().len(), 2);
    assert_eq!(scene.used(&[]), scene.host.url);
    assert_eq!(endpoint.paths().len(), 0);
    let error = scene.get(&["--route=direct"]);
    assert!(
        error.err.contains(&format!("{} does not accept the credential of the host", endpoint.url)),
        "{error:?}"
    );
}

#[test]
fn moved_endpoint_is_used_at_once() {
    let (scene, first, next) = (Scene::new(), Authority::new(), Authority::new());
    // Another CA, as after a rotation. The cached findings are two minutes old.
    let (before, after) = (endpoint(&first), endpoint(&next));
    scene.publish(&before.url, &first);
    assert_eq!(scene.used(&[]), before.url);
    scene.publish(&after.url, &next);
    change_findings(&scene, |findings| {
        findings["endpoint"]["server"] = after.url.as_str().into();
        for time in ["read", "reached"] {
            findings[time] = (findings[time].as_u64().unwrap() - 120).into();
        }
    });
    assert_eq!(scene.used(&[]), after.url);
}

#[test]
fn lost_endpoint_fails_no_command() {
    let (scene, authority) = (Scene::new(), Authority::new());
    let endpoint = endpoint(&authority);
    scene.publish(&endpoint.url, &authority);
    assert_eq!(scene.used(&[]), endpoint.url);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    change_findings(&scene, |findings| findings["endpoint"]["server"] = format!("https://{closed}").into());
    assert_eq!(scene.used(&[]), scene.host.url);
}

#[test]
fn many_clusters_take_the_same_route() {
    let (scene, authority) = (Scene::new(), Authority::new());
    let endpoint = endpoint(&authority);
    scene.publish(&endpoint.url, &authority);
    scene.bed.kubectl("echo from $cluster");
    let ran = scene.bed.run(&["-C", "m1,m2", "describe", "pods"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let asked = |paths: Vec<String>| paths.iter().filter(|path| path.contains("/proxy/version")).count();
    assert_eq!((asked(scene.host.paths()), asked(endpoint.paths())), (0, 2));
}

#[test]
fn direct_route_needs_a_publication() {
    let scene = Scene::new();
    let ran = scene.get(&["--route=direct"]);
    let said = format!(
        "error: no direct route to members of host \"host\" ({}): the host publishes no direct endpoint\n\
         hint: --route=host goes through the host; an admin of the host publishes a direct endpoint: \
         kubectl mc --context=host install --expose=TYPE\n",
        scene.host.url
    );
    assert_eq!(ran.failed(), (1, said.as_str()));
}

#[test]
fn local_command_looks_up_no_route() {
    let scene = Scene::new();
    assert_eq!(scene.bed.run(&["-C", "m1", "version", "--client"]).code, Some(42));
    assert_eq!(scene.host.paths(), [""; 0]);
}

/// Changes the plugin's cached findings about the endpoint.
fn change_findings(scene: &Scene, change: impl Fn(&mut Value)) {
    let entries = std::fs::read_dir(scene.bed.path("home/.cache/kubectl-mc")).unwrap();
    let mut paths = entries.map(|entry| entry.unwrap().path());
    let is_it = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("route-");
    let path = paths.find(is_it).unwrap();
    let mut findings = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    change(&mut findings);
    std::fs::write(path, findings.to_string()).unwrap();
}

const CONFIG_MAP: &str = "/api/v1/namespaces/kube-public/configmaps/kubectl-mc";
const CLUSTERS: &str = "GET /apis/proxy.kubectl-mc.dev/v1alpha1/clusters?limit=1 ";
