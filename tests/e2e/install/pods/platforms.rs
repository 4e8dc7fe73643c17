//! A member joins on each platform as the table in docs/how-to/join.md describes: with the
//! platform's kubeconfig, the names that its network resolves, and the addresses that its control
//! plane reaches. kubeadm needs none of this and is tested in [`crate::members::joined`].

mod kubeconfig;
pub(crate) mod network;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use harness::bed::{SYSTEM, bed};
use harness::both_sides::{Alone, alone, both};
use harness::caller::Caller;
use harness::connect_proxy::ConnectProxy;
use harness::relay::Relay;
use harness::tool::Tool;
use kubeconfig::{ClusterInfo, Kubeconfig, with_member};
use network::{Firewall, Overlay, endpoints};
use serde_json::{Value, json};

use crate::install::pods::in_pods::Scene;
use crate::members::joined::{NAME, Traces, follow};
use crate::plugin;

/// kind publishes a port of this machine. The names of its nodes resolve only in Docker's network,
/// which the sidecar is in and this machine is not.
#[test]
fn kind_joins_by_the_suggested_node_name() -> Result<()> {
    let alone = alone()?;
    let before = Traces::of(&alone)?;
    let node = format!("{}-control-plane", alone.cluster.name);
    ensure!((node.as_str(), 6443).to_socket_addrs().is_err(), "this machine knows the name too");
    let published = ClusterInfo::publish(&alone, &format!("https://{node}:6443"))?;
    let relay = Relay::at(IpAddr::V4(Ipv4Addr::LOCALHOST), &alone.cluster.server)?;
    let user = Kubeconfig::of(&alone)?.user;
    let caller = with_member(&alone, "kind-shop", &format!("https://{}", relay.address), &user)?;
    let join = ["join", NAME, "--member-context=kind-shop"];
    let suggested = refused_with_a_server(&caller, &join)?;
    assert_eq!(suggested, format!("--server=https://{node}:6443"), "it suggests another address");
    join_use_and_leave(&caller, &[&join[..], &[suggested.as_str()]].concat(), "--member-context=kind-shop")?;
    drop(published);
    Traces::of(&alone)?.same_as(&before)
}

#[test]
fn k3s_joins_by_the_suggested_server_address() -> Result<()> {
    of_a_server("k3s.yaml")
}

#[test]
fn rke2_joins_by_the_suggested_server_address() -> Result<()> {
    of_a_server("rke2.yaml")
}

/// The kubeconfig of `talosctl kubeconfig`: a client certificate, and the address of the control plane.
#[test]
fn talos_joins_without_a_further_flag() -> Result<()> {
    let alone = alone()?;
    let before = Traces::of(&alone)?;
    let user = Kubeconfig::of(&alone)?.user;
    let caller = with_member(&alone, "admin@shop", &alone.cluster.server, &user)?;
    let member = "--member-context=admin@shop";
    join_use_and_leave(&caller, &["join", NAME, member], member)?;
    Traces::of(&alone)?.same_as(&before)
}

/// minikube writes the paths of files, not their content.
#[test]
fn minikube_joins_by_the_files_of_its_kubeconfig() -> Result<()> {
    let alone = alone()?;
    let before = Traces::of(&alone)?;
    let folder = tempfile::tempdir()?;
    let mut user = Kubeconfig::of(&alone)?.user;
    let fields = user.as_object_mut().context("no user")?;
    for (data, file) in [("client-certificate-data", "client-certificate"), ("client-key-data", "client-key")]
    {
        if let Some(content) = fields.remove(data) {
            let path = folder.path().join(file);
            std::fs::write(&path, STANDARD.decode(content.as_str().context("no text")?)?)?;
            fields.insert(file.to_owned(), path.display().to_string().into());
        }
    }
    let caller = with_member(&alone, "minikube", &alone.cluster.server, &user)?.edit(|config| {
        let clusters = config["clusters"].as_array_mut().into_iter().flatten();
        for cluster in clusters.filter(|cluster| cluster["name"] == "minikube") {
            let authority = alone.cluster.ca_certificate.display().to_string();
            cluster["cluster"] = json!({"server": alone.cluster.server, "certificate-authority": authority});
        }
    })?;
    let member = "--member-context=minikube";
    join_use_and_leave(&caller, &["join", NAME, member], member)?;
    Traces::of(&alone)?.same_as(&before)
}

/// k3s and RKE2 write their own kubeconfig, in which every entry has the name `default`.
fn of_a_server(file: &str) -> Result<()> {
    let alone = alone()?;
    let before = Traces::of(&alone)?;
    let relay = Relay::at(IpAddr::V4(Ipv4Addr::LOCALHOST), &alone.cluster.server)?;
    let caller = Caller::certificate("e2e-join-admin", &["system:masters"])?;
    let kubeconfig = caller.folder().join(file);
    let Kubeconfig { ca, user } = Kubeconfig::of(&alone)?;
    let cluster = json!({"certificate-authority-data": ca, "server": format!("https://{}", relay.address)});
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "default", "preferences": {},
        "clusters": [{"name": "default", "cluster": cluster}],
        "users": [{"name": "default", "user": user}],
        "contexts": [{"name": "default", "context": {"cluster": "default", "user": "default"}}],
    });
    std::fs::write(&kubeconfig, config.to_string())?;
    let member = format!("--member-kubeconfig={}", kubeconfig.display());
    let join = ["join", NAME, &member];
    let suggested = refused_with_a_server(&caller, &join)?;
    assert_eq!(suggested, format!("--server={}", alone.cluster.server), "it suggests another address");
    join_use_and_leave(&caller, &[&join[..], &[suggested.as_str()]].concat(), &member)?;
    Traces::of(&alone)?.same_as(&before)
}

/// The kubeconfig of `aws eks update-kubeconfig`.
#[test]
fn eks_credential_is_used_for_join_and_not_stored() -> Result<()> {
    let exec = json!({
        "apiVersion": "client.authentication.k8s.io/v1beta1", "command": "aws",
        "args": ["--region", "eu-west-1", "eks", "get-token", "--cluster-name", "shop", "--output", "json"],
    });
    let asked =
        r#"[ "$*" = "--region eu-west-1 eks get-token --cluster-name shop --output json" ] || exit 252"#;
    by_plugin("arn:aws:eks:eu-west-1:111122223333:cluster/shop", &exec, asked)
}

/// The kubeconfig of `gcloud container clusters get-credentials`; its plugin gets the cluster's data.
#[test]
fn gke_credential_is_used_for_join_and_not_stored() -> Result<()> {
    let asked = r#"
        case "$KUBERNETES_EXEC_INFO" in
            *'"apiVersion":"client.authentication.k8s.io/v1beta1"'*'"server":"https://'*) ;;
            *) echo "no cluster in KUBERNETES_EXEC_INFO" >&2; exit 1 ;;
        esac"#;
    by_plugin("gke_shop-123456_europe-west1_shop", &gcloud(), asked)
}

/// The kubeconfig of `az aks get-credentials` for a cluster with Entra ID, after `kubelogin
/// convert-kubeconfig -l azurecli`.
#[test]
fn aks_credential_is_used_for_join_and_not_stored() -> Result<()> {
    let exec = json!({
        "apiVersion": "client.authentication.k8s.io/v1beta1", "command": "kubelogin", "provideClusterInfo": false,
        "args": ["get-token", "--login", "azurecli", "--server-id", "6dae42f8-4368-4678-94ff-3960e28e3630"],
        "installHint": "kubelogin is not installed which is required to connect to AAD enabled cluster.",
    });
    let asked = r#"
        [ "$*" = "get-token --login azurecli --server-id 6dae42f8-4368-4678-94ff-3960e28e3630" ] || exit 1"#;
    by_plugin("shop", &exec, asked)
}

#[test]
fn missing_or_failing_credential_plugin_is_named_with_a_hint() -> Result<()> {
    let alone = alone()?;
    let missing = with_member(&alone, "gke", &alone.cluster.server, &json!({"exec": gcloud()}))?;
    // The user who runs the tests may have the plugin in their own PATH.
    let without = plugin(&missing)?.env("PATH", &bed()?.bin);
    without.run(&["join", NAME, "--member-context=gke"])?.failure(&[
        "context \"gke\"",
        "cannot run the credential plugin gke-gcloud-auth-plugin: no such file in PATH",
        "Install gke-gcloud-auth-plugin",
    ])?;
    let exec = json!({"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "./aws"});
    let fails = with_member(&alone, "eks", &alone.cluster.server, &json!({"exec": exec}))?;
    let script = "echo secret-on-stdout; echo 'Unable to locate credentials' >&2; exit 255";
    write_script(&fails.folder().join("aws"), script)?;
    let said = plugin(&fails)?.run(&["join", NAME, "--member-context=eks"])?.failure(&[
        "Unable to locate credentials",
        "context \"eks\"",
        "aws failed: exit status: 255",
    ])?;
    ensure!(!said.contains("secret-on-stdout"), "{said}");
    Ok(())
}

#[test]
fn member_behind_a_proxy_is_joined_and_used_through_it() -> Result<()> {
    let alone = alone()?;
    let before = Traces::of(&alone)?;
    let proxy = ConnectProxy::start()?;
    let caller = both(alone.cluster, |_| {})?;
    let through = format!("--proxy-url={}", proxy.url(""));
    join_use_and_leave(
        &caller,
        &["join", NAME, "--member-context=member", &through],
        "--member-context=member",
    )?;
    let (asked, address) = (proxy.asked(), alone.cluster.server.trim_start_matches("https://"));
    ensure!(
        !asked.is_empty() && asked.iter().all(|asked| asked == address),
        "the proxy was to be asked for {address} alone, and was for {asked:?}"
    );
    Traces::of(&alone)?.same_as(&before)
}

/// The control plane has no route to the addresses of pods, only to those of nodes.
#[test]
fn eks_overlay_network_works_with_the_suggested_host_network() -> Result<()> {
    let scene = Scene::take()?;
    let overlay = Overlay::over(&scene)?;
    scene
        .install(&["--replicas=1", "--timeout=40s"])?
        .failure(&["the host cannot reach the sidecars", "--host-network"])?;
    scene.install(&["--replicas=1", "--timeout=40s", "--host-network"])?.success()?;
    scene.plugin.ok(&["clusters"])?;
    let endpoints = endpoints(&scene, SYSTEM)?;
    ensure!(endpoints == [SocketAddr::new(overlay.node, 10260)], "{endpoints:?}");
    scene.uninstall().map(drop)
}

/// The firewall between a private cluster's control plane and its nodes admits two ports.
#[test]
fn gke_private_nodes_admit_the_sidecars_port() -> Result<()> {
    let scene = Scene::take()?;
    let _firewall = Firewall::before(&scene)?;
    scene.install(&["--replicas=1", "--timeout=40s"])?.success()?;
    scene.plugin.ok(&["clusters"])?;
    let endpoints = endpoints(&scene, SYSTEM)?;
    let [endpoint] = endpoints[..] else { anyhow::bail!("{endpoints:?}") };
    assert_eq!(endpoint.port(), 10250);
    let metrics = SocketAddr::new(endpoint.ip(), 8080);
    ensure!(TcpStream::connect_timeout(&metrics, Duration::from_secs(2)).is_err(), "there is no firewall");
    scene.uninstall().map(drop)
}

/// Joins with a kubeconfig that runs a program that returns a credential of the member's
/// administrator. `asked` is a shell script that checks the program's arguments.
fn by_plugin(context: &str, exec: &Value, asked: &str) -> Result<()> {
    let alone = alone()?;
    let before = Traces::of(&alone)?;
    let administrator = Administrator::of(&alone)?;
    let token = administrator.token()?;
    let caller = with_member(&alone, context, &alone.cluster.server, &json!({"exec": exec}))?;
    let program = exec["command"].as_str().context("no command")?;
    let answer = json!({
        "kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1beta1", "spec": {},
        "status": {"expirationTimestamp": "@SOON@", "token": token},
    });
    let script = format!(
        "echo run >> {runs}\n{asked}\nsoon=$(date -u -d '+14 minutes' +%Y-%m-%dT%H:%M:%SZ)\n\
         sed \"s/@SOON@/$soon/\" <<'END'\n{answer}\nEND",
        runs = caller.folder().join("runs").display()
    );
    write_script(&caller.folder().join(program), &script)?;
    let path = [caller.folder(), bed()?.bin.as_path()].map(|folder| folder.display().to_string()).join(":");
    let path = format!("{path}:{}", std::env::var("PATH").unwrap_or_default());
    let runs = || Ok::<_, anyhow::Error>(std::fs::read_to_string(caller.folder().join("runs"))?.len());

    let tool = plugin(&caller)?.env("PATH", &path);
    let member = format!("--member-context={context}");
    let said = tool.ok(&["join", NAME, &member])?;
    let for_the_join = runs()?;
    // The plugin is no longer needed.
    std::fs::remove_file(caller.folder().join(program))?;
    follow(&caller, &said)?;
    assert_eq!(runs()?, for_the_join, "the plugin was run for more than the join");
    for cluster in [&bed()?.host, alone.cluster] {
        holds_nothing_of(&Tool::admin(cluster)?, &token)
            .with_context(|| format!("{} keeps the token of the join", cluster.name))?;
    }
    write_script(&caller.folder().join(program), &script)?;
    tool.ok(&["unjoin", NAME, &member, "--yes"])?;
    drop(administrator);
    Traces::of(&alone)?.same_as(&before)
}

/// Checks that no Secret, ConfigMap or account of a cluster contains the token, at any depth.
fn holds_nothing_of(admin: &Tool, token: &str) -> Result<()> {
    let all = admin.ok(&["get", "secrets,configmaps,serviceaccounts", "-A", "-o", "json"])?;
    ensure!(!all.contains(token), "it is there as it is");
    let all: Value = serde_json::from_str(&all)?;
    for object in all["items"].as_array().into_iter().flatten() {
        for (key, value) in object["data"].as_object().into_iter().flatten() {
            let decoded = STANDARD.decode(value.as_str().unwrap_or_default()).unwrap_or_default();
            let (kind, name) = (&object["kind"], &object["metadata"]["name"]);
            let found = String::from_utf8_lossy(&decoded).contains(token);
            ensure!(!found, "it is in {key} of {kind} {name}");
        }
    }
    Ok(())
}

/// An administrator of the cluster with a cloud user's rights, until dropped.
struct Administrator(Tool);

impl Administrator {
    fn of(alone: &Alone) -> Result<Self> {
        let administrator = Self(Tool::admin(alone.cluster)?);
        let Self(kubectl) = &administrator;
        kubectl.ok(&["create", "serviceaccount", CLOUD, "-n", "default"])?;
        let account = format!("--serviceaccount=default:{CLOUD}");
        kubectl.ok(&["create", "clusterrolebinding", CLOUD, "--clusterrole=cluster-admin", &account])?;
        Ok(administrator)
    }

    /// A token with the lifetime of a cloud's tokens.
    fn token(&self) -> Result<String> {
        let token = self.0.ok(&["create", "token", CLOUD, "-n", "default", "--duration=14m"])?;
        Ok(token.trim().to_owned())
    }
}

impl Drop for Administrator {
    fn drop(&mut self) {
        let _ = self.0.run(&["delete", "clusterrolebinding", CLOUD]);
        let _ = self.0.run(&["delete", "serviceaccount", CLOUD, "-n", "default"]);
    }
}

/// The server that the join suggests when it refuses the address of the kubeconfig.
fn refused_with_a_server(caller: &Caller, join: &[&str]) -> Result<String> {
    let said = plugin(caller)?.run(join)?.failure(&["a loopback address"])?;
    let server = said.split_whitespace().find(|word| word.starts_with("--server=https://"));
    Ok(server.with_context(|| format!("no server is suggested: {said}"))?.to_owned())
}

/// Joins, runs the commands that the join prints, reads, and unjoins.
fn join_use_and_leave(caller: &Caller, join: &[&str], member: &str) -> Result<()> {
    let said = plugin(caller)?.ok(join)?;
    follow(caller, &said)?;
    let cluster = format!("--cluster={NAME}");
    let names = plugin(caller)?.ok(&[&cluster, "get", "namespaces", "-o", "name"])?;
    ensure!(names.contains(&format!("namespace/{SYSTEM}")), "it is not the member: {names}");
    plugin(caller)?.ok(&["unjoin", NAME, member, "--yes"]).map(drop)
}

fn write_script(path: &Path, script: &str) -> Result<()> {
    harness::script::write(path, &format!("#!/bin/sh\n{script}\n"))
}

fn gcloud() -> Value {
    json!({
        "apiVersion": "client.authentication.k8s.io/v1beta1", "command": "gke-gcloud-auth-plugin",
        "installHint": "Install gke-gcloud-auth-plugin for use with kubectl by following\n\
            https://cloud.google.com/kubernetes-engine/docs/how-to/cluster-access-for-kubectl#install_plugin",
        "provideClusterInfo": true,
    })
}

const CLOUD: &str = "e2e-cloud";
