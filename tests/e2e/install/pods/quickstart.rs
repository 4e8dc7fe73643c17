//! `docs/tutorials/quickstart.sh` runs as documented, with a fake kind that hands out the bed's
//! clusters. Their kubeconfigs have a port of this machine, and the names of their nodes resolve
//! only in the host's pods.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use harness::api::Api;
use harness::bed::{bed, spare};
use harness::both_sides::alone;
use harness::leftovers::Clean;
use harness::relay::Relay;
use harness::spare_host::SIDECAR;
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::Cluster;

use crate::install::pods::in_pods::{Scene, program};

#[test]
fn quickstart_completes_and_prints_the_text_of_its_picture() -> Result<()> {
    let scene = Scene::take()?;
    let (first, second) = (alone()?, Clean::take(spare("s2")?)?);
    let host = scene.host.cluster;
    let kind = Kind::with([host, first.cluster, second.cluster])?;
    let _names = Names::known_to_pods(host, &[first.cluster, second.cluster])?;
    let output = kind.quickstart(&[])?;
    let expected = include_str!("../../../../docs/images/quickstart.txt");
    let shown = output.find("# Commands on one member").context("it shows no commands")?;
    assert_eq!(kind.as_in_the_docs(&output[shown..]), without_ages(expected), "the whole output: {output}");
    let called = kind.called()?;
    for command in ["make image IMAGE=mc-sidecar:quickstart", "cargo build --package kubectl-mc"] {
        ensure!(called.contains(command), "{command}: {called}");
    }
    kind.quickstart(&["down"])?;
    for cluster in ["s1", "j1", "s2"] {
        ensure!(kind.called()?.contains(&format!("kind delete cluster --name {cluster}")), "{cluster} stays");
    }
    Ok(())
}

/// Stand-ins for kind, docker, cargo and make.
struct Kind {
    folder: TempDir,
    // The published ports of the clusters.
    _relays: Vec<Relay>,
    host: &'static Cluster,
}

impl Kind {
    fn with(clusters: [&'static Cluster; 3]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut relays = Vec::new();
        for cluster in clusters {
            let relay = Relay::at([127, 0, 0, 1].into(), &cluster.server)?;
            let context = format!("kind-{}", cluster.name);
            let mut config: Value = serde_json::from_slice(&std::fs::read(&cluster.kubeconfig)?)?;
            config["clusters"][0]["cluster"]["server"] = format!("https://{}", relay.address).into();
            for list in ["clusters", "users", "contexts"] {
                config[list][0]["name"] = context.as_str().into();
            }
            config["contexts"][0]["context"] = json!({"cluster": context, "user": context});
            config["current-context"] = context.into();
            std::fs::write(folder.path().join(&cluster.name), config.to_string())?;
            relays.push(relay);
        }
        let kind = Self { folder, _relays: relays, host: clusters[0] };
        for (name, script) in
            [("kind", KIND.replace("IMAGE", SIDECAR).as_str()), ("docker", ""), ("cargo", ""), ("make", "")]
        {
            let path = kind.folder.path().join("bin").join(name);
            let script = format!("#!/bin/sh\nset -e\necho {name} \"$@\" >>\"$KIND/called\"\n{script}");
            harness::script::write(&path, &script)?;
        }
        // A copy of the two files, because the script creates a folder next to them.
        let tutorials = kind.folder.path().join("docs/tutorials");
        std::fs::create_dir_all(&tutorials)?;
        std::fs::copy(SCRIPT, tutorials.join("quickstart.sh"))?;
        let debug = kind.folder.path().join("target/debug");
        std::fs::create_dir_all(&debug)?;
        std::os::unix::fs::symlink(program(), debug.join("kubectl-mc"))?;
        Ok(kind)
    }

    fn quickstart(&self, arguments: &[&str]) -> Result<String> {
        let path = [&self.folder.path().join("bin"), &bed()?.bin].map(|folder| folder.display().to_string());
        let output = Command::new("bash")
            .arg(self.folder.path().join("docs/tutorials/quickstart.sh"))
            .args(arguments)
            .env_clear()
            .env("PATH", format!("{}:{}", path.join(":"), std::env::var("PATH")?))
            .env("HOME", self.folder.path())
            .env("KIND", self.folder.path())
            .env("KIND_NODE", self.containerd())
            .env("QUICKSTART_HOST", &self.host.name)
            .env("QUICKSTART_MEMBERS", "j1 s2")
            .stdin(Stdio::null())
            .output()?;
        let told = String::from_utf8(output.stdout)?;
        ensure!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
        Ok(told)
    }

    /// The output with the names of the documentation, without parts that differ from run to run.
    fn as_in_the_docs(&self, output: &str) -> String {
        let shown = output.split("\n# Go on:").next().unwrap_or_default();
        let names = [("j1", "m1"), ("s2", "m2"), ("kind-s1", "kind-host")];
        without_ages(&names.into_iter().fold(shown.to_owned(), |text, (from, to)| text.replace(from, to)))
    }

    fn called(&self) -> Result<String> {
        Ok(std::fs::read_to_string(self.folder.path().join("called"))?)
    }

    fn containerd(&self) -> PathBuf {
        self.host.dir.join("node/containerd.sock")
    }
}

impl Drop for Kind {
    fn drop(&mut self) {
        let images = ["-n", "k8s.io", "images", "rm", LOADED];
        let _ = Command::new("ctr").arg("--address").arg(self.containerd()).args(images).output();
    }
}

/// Stands in for Docker's DNS, which the pods of kind's nodes use.
struct Names(Api);

impl Names {
    fn known_to_pods(host: &'static Cluster, members: &[&Cluster]) -> Result<Self> {
        let names = Self(Api::admin(host)?);
        let aliases = members.iter().map(|cluster| {
            let address = cluster.server.trim_start_matches("https://").trim_end_matches(":6443");
            // These are untyped maps, because kube-apiserver 1.36.3 aborts the request when it
            // finds a typed object in a list.
            format!(
                "{{\"ip\": dyn(\"{address}\"), \"hostnames\": dyn([\"{}-control-plane\"])}}",
                cluster.name
            )
        });
        let aliases = aliases.collect::<Vec<_>>().join(", ");
        let patch = format!("[JSONPatch{{op: \"add\", path: \"/spec/hostAliases\", value: [{aliases}]}}]");
        let pods = json!({
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"],
        });
        let policy = json!({
            "apiVersion": ADMISSION, "kind": "MutatingAdmissionPolicy", "metadata": {"name": POLICY},
            "spec": {
                "matchConstraints": {"resourceRules": [pods]}, "failurePolicy": "Fail", "reinvocationPolicy": "Never",
                "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}],
            },
        });
        let binding = json!({
            "apiVersion": ADMISSION, "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": POLICY},
            "spec": {"policyName": POLICY},
        });
        names.0.apply(&Self::path("mutatingadmissionpolicies"), &policy)?;
        names.0.apply(&Self::path("mutatingadmissionpolicybindings"), &binding)?;
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": POLICY},
            "spec": {"containers": [{"name": "main", "image": "none"}]},
        });
        eventually("pods look the names up", SOON, || {
            let tried = names.0.create("/api/v1/namespaces/default/pods?dryRun=All", &pod)?;
            Ok((!tried["spec"]["hostAliases"].is_null()).then_some(()))
        })?;
        Ok(names)
    }

    fn path(plural: &str) -> String {
        format!("/apis/{ADMISSION}/{plural}/{POLICY}")
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        for plural in ["mutatingadmissionpolicybindings", "mutatingadmissionpolicies"] {
            let _ = self.0.delete(&Self::path(plural));
        }
    }
}

fn without_ages(text: &str) -> String {
    let is_age = |word: &str| {
        word.strip_suffix('s')
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let lines = text.trim().lines().map(|line| match line.rsplit_once(' ') {
        Some((before, last)) if is_age(last) => format!("{before} 9s"),
        _ => line.trim_end().to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/tutorials/quickstart.sh");
const ADMISSION: &str = "admissionregistration.k8s.io/v1";
const POLICY: &str = "e2e-quickstart-names";
/// The name in containerd of the image that the script loads.
const LOADED: &str = "docker.io/library/mc-sidecar:quickstart";

/// Hands out the bed's clusters. The image is the bed's, under the name that the script uses.
const KIND: &str = r#"
case "$1 $2" in
"get clusters") ls "$KIND/made" 2>/dev/null || true ;;
"create cluster")
    mkdir -p "$KIND/made" && touch "$KIND/made/$4"
    KUBECONFIG="$KIND/$4:$KUBECONFIG" kubectl config view --raw --flatten >"$KIND/merged"
    cat "$KIND/merged" >"$KUBECONFIG"
    ;;
"load docker-image")
    ctr --address "$KIND_NODE" -n k8s.io images tag --force IMAGE docker.io/library/"$3" >/dev/null
    ;;
"delete cluster") rm "$KIND/made/$4" ;;
esac
"#;
