//! Compares the Helm charts with the plugin: for each set of values, real Helm renders the objects that
//! `kubectl mc install` prints, or that a join with an agent applies.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use kubectl_mc_api::manifests::{Agent, AgentValues};
use kubectl_mc_api::names::AGENTS;
use serde_json::Value;
use tempfile::NamedTempFile;

#[test]
fn default_values_render_the_same_objects() -> Result<()> {
    same(&[], &[])
}

#[test]
fn namespace_and_numbers_render_the_same_objects() -> Result<()> {
    same(
        &["--namespace=elsewhere", "--replicas=5", "--secure-port=4443", "--image-pull-policy=Always"],
        &["--namespace=elsewhere", "--set=replicas=5,securePort=4443,image.pullPolicy=Always"],
    )
}

#[test]
fn host_network_renders_the_same_objects() -> Result<()> {
    same(&["--host-network"], &["--set=hostNetwork=true"])?;
    same(&["--host-network", "--secure-port=9443"], &["--set=hostNetwork=true,securePort=9443"])
}

#[test]
fn cert_manager_renders_the_same_objects() -> Result<()> {
    same(&["--certificates=cert-manager"], &["--set=certificates=CertManager"])
}

#[test]
fn direct_endpoint_renders_the_same_objects() -> Result<()> {
    same(&["--expose=LoadBalancer"], &["--set=direct.expose=LoadBalancer"])?;
    for (url, certificates) in [
        ("https://mc.example.com:8443/", "SelfManaged"),
        ("https://mc.example.com:8443", "CertManager"),
        ("https://203.0.113.7", "CertManager"),
        ("https://[2001:db8::7]:8443", "CertManager"),
    ] {
        for expose in ["LoadBalancer", "NodePort"] {
            let direct =
                format!("{{expose: {expose}, server: '{url}', nodePort: 30443, annotations: {{a: b}}}}");
            same_file(&format!("certificates: {certificates}\ndirect: {direct}\n"))?;
        }
    }
    Ok(())
}

#[test]
fn sidecar_flags_render_the_same_objects() -> Result<()> {
    same(
        &["--sidecar-flag=--max-tunnels=7", "--sidecar-flag=--log-format=json"],
        &["--set=extraArgs={--max-tunnels=7,--log-format=json}"],
    )
}

#[test]
fn platform_flags_render_the_same_objects() -> Result<()> {
    same(
        &[
            "--image-pull-secret=registry",
            "--priority-class=system-cluster-critical",
            "--requests=cpu=1,memory=128Mi",
            "--limits=memory=2Gi",
            "--node-selector=pool=infra,arch=x",
            "--toleration=dedicated=infra:NoSchedule",
            "--toleration=spot",
        ],
        &[
            "--set=imagePullSecrets[0].name=registry,priorityClassName=system-cluster-critical",
            "--set-string=resources.requests.cpu=1,resources.requests.memory=128Mi,resources.limits.memory=2Gi",
            "--set=nodeSelector.pool=infra,nodeSelector.arch=x",
            "--set=tolerations[0].key=dedicated,tolerations[0].operator=Equal",
            "--set=tolerations[0].value=infra,tolerations[0].effect=NoSchedule",
            "--set=tolerations[1].key=spot,tolerations[1].operator=Exists",
        ],
    )
}

#[test]
fn values_file_renders_the_same_objects() -> Result<()> {
    same_file(EVERY_VALUE)?;
    same_file("certificates: CertManager\nmetrics: {podMonitor: {enabled: true}}\n")?;
    same_file("certificates: Secret\ntls: {secretName: serving}\n")?;
    same_file("metrics: {rules: {enabled: true}, dashboard: {enabled: true}}\n")?;
    same_file("inventory: [membercluster, karmada]\nkarmadaNamespace: members\nkarmadaMemberRbac: true\n")?;
    same_file("karmadaMemberRbac: true\n")?;
    same_file("inventory: [kubeadmiral]\nkubeadmiralNamespace: members\n")?;
    same_file("resources: {limits: {memory: null, cpu: 2}}\nglobal: {any: thing}\n")
}

#[test]
fn image_is_joined_from_its_parts() -> Result<()> {
    let digest = format!("sha256:{}", "0".repeat(64));
    let version = env!("CARGO_PKG_VERSION");
    for (values, reference) in [
        ("", format!("r.example/i:{version}")),
        (", tag: v9", "r.example/i:v9".to_owned()),
        (&format!(", tag: v9, digest: '{digest}'"), format!("r.example/i@{digest}")),
    ] {
        let file = file(&format!("image: {{repository: r.example/i{values}}}\n"))?;
        for mut command in both(file.path())? {
            let rendered = succeed(&mut command)?;
            ensure!(rendered.contains(&format!("image: {reference}\n")), "{command:?}: no {reference}");
        }
    }
    Ok(())
}

#[test]
fn chart_and_plugin_refuse_wrong_values() -> Result<()> {
    for wrong in [
        "image: r.example/i:1",
        "image: {repository: i, pullPolicy: Sometimes}",
        "image: {repository: i, digest: 'sha256:0'}",
        "imagee: {}",
        "replicas: many",
        "replicas: 0",
        "securePort: 70000",
        "certificates: Vault",
        "certificates: Secret",
        "direct: {expose: Ingress}",
        "clusterProfiles: {server: 'http://host.example.com'}",
        "direct: {expose: NodePort}",
        "direct: {server: 'https://mc.example.com'}",
        "direct: {expose: NodePort, server: 'http://mc.example.com'}",
        "direct: {expose: NodePort, server: 'https://mc.example.com/path'}",
        "metrics: {podMonitor: {enable: true}}",
        "tolerations: {}",
    ] {
        let image = if wrong.starts_with("image:") { "" } else { "image: {repository: i}\n" };
        let file = file(&format!("{image}{wrong}\n"))?;
        for mut command in both(file.path())? {
            let output = command.output()?;
            ensure!(!output.status.success(), "{wrong}: {command:?}");
        }
    }
    Ok(())
}

#[test]
fn image_must_be_named() -> Result<()> {
    let output = helm("template", &[])?.output()?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success() && told.contains("image.repository is required"), "{told}");
    Ok(())
}

#[test]
fn charts_pass_helm_lint() -> Result<()> {
    succeed(helm("lint", &["--strict"])?.arg("--set=image.repository=i"))?;
    succeed(&mut helm_agent("lint", &["--strict", "--set=image.repository=i,cluster=m1"])?).map(drop)
}

#[test]
fn packed_charts_name_their_image_and_are_reproducible() -> Result<()> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../sidecar/deploy/package.sh");
    let image = format!("r.example/mc-sidecar@sha256:{}", "0".repeat(64));
    let (first, second) = (tempfile::tempdir()?, tempfile::tempdir()?);
    for folder in [&first, &second] {
        succeed(Command::new(script).arg(folder.path()).arg(&image))?;
    }
    for chart in ["mc-sidecar", "mc-agent"] {
        let archive = format!("{chart}-{}.tgz", env!("CARGO_PKG_VERSION"));
        let packed = first.path().join(&archive);
        ensure!(std::fs::read(&packed)? == std::fs::read(second.path().join(archive))?, "two archives");
        let listed = succeed(Command::new("tar").args(["--utc", "-tvzf"]).arg(&packed))?;
        let has_time = |line: &&str| !line.contains(" 0/0 ") || !line.contains("1970-01-01 00:00");
        ensure!(listed.lines().find(has_time).is_none(), "of a moment or a user: {listed}");
        let mut command = Command::new(testbed::programs::build_helm()?);
        command.args(["template", chart]).arg(&packed).arg("--kube-version=1.36.3");
        // Only the agent's chart has this value.
        command.args((chart == "mc-agent").then_some("--set=cluster=m1"));
        ensure!(succeed(&mut command)?.contains(&format!("image: {image}\n")), "no {image}");
    }
    Ok(())
}

#[test]
fn release_name_becomes_instance_label_and_test_name() -> Result<()> {
    let mut command = helm("template", &["--name-template=proxy", "--set=image.repository=i"])?;
    let objects: Vec<Value> = serde_saphyr::from_multiple(&succeed(&mut command)?)?;
    let objects = objects.iter().filter(|object| object.is_object());
    for object in objects.clone().filter(|object| object["kind"] != "Pod") {
        ensure!(object["metadata"]["labels"]["app.kubernetes.io/instance"] == "proxy", "{object:#}");
        ensure!(object["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm", "{object:#}");
    }
    let test = objects.clone().find(|object| object["kind"] == "Pod").context("no test")?;
    ensure!(test["metadata"]["name"] == "proxy-test", "{test:#}");
    ensure!(test["metadata"]["annotations"]["helm.sh/hook"] == "test", "{test:#}");
    ensure!(test["spec"]["containers"][0]["args"] == serde_json::json!(["check"]), "{test:#}");
    ensure!(!test.to_string().contains("runAsUser"), "OpenShift chooses the user: {test:#}");
    Ok(())
}

#[test]
fn agent_chart_renders_the_objects_of_a_join() -> Result<()> {
    for values in ["", EVERY_VALUE_OF_AN_AGENT, "resources: {limits: {memory: null}}\nglobal: {any: thing}\n"]
    {
        let agent = Agent {
            values: AgentValues::parse(values)?,
            ..Agent::new("m1".parse().context("no name")?, "registry.example/mc-sidecar:v1")
        };
        let file = file(values)?;
        let values = format!("--values={}", file.path().display());
        let image = "--set=cluster=m1,image.repository=registry.example/mc-sidecar,image.tag=v1";
        let mut chart = helm_agent("template", &["--name-template=mc-agent", &values, image])?;
        let theirs = objects(&succeed(chart.arg("--namespace=kubectl-mc-agent"))?)?;
        let ours = by_name(agent.objects()?)?;
        ensure!(ours.keys().eq(theirs.keys()), "{:?}\nand\n{:?}", ours.keys(), theirs.keys());
        for (name, object) in &ours {
            ensure!(*object == theirs[name], "{name}:\n{object:#}\nand\n{:#}", theirs[name]);
        }
        ensure!(ours.len() == 6, "these are all: {:?}", ours.keys());
    }
    Ok(())
}

#[test]
fn agent_chart_uses_the_namespace_of_its_release() -> Result<()> {
    let mut chart = helm_agent("template", &["--set=cluster=m1,image.repository=i", "--namespace=edge"])?;
    let rendered = succeed(&mut chart)?;
    ensure!(
        rendered.contains("--token-secret=edge/mc-agent") && !rendered.contains("kubectl-mc-agent"),
        "{rendered}"
    );
    Ok(())
}

#[test]
fn agent_chart_refuses_wrong_values() -> Result<()> {
    for (set, said) in [
        ("--set=cluster=m1", "image.repository is required"),
        ("--set=image.repository=i", "cluster is required"),
        ("--set=cluster=m1,image.repository=i,token=t", "token"),
    ] {
        let output = helm_agent("template", &[set])?.output()?;
        let told = String::from_utf8_lossy(&output.stderr);
        ensure!(!output.status.success() && told.contains(said), "{set}: {told}");
    }
    Ok(())
}

fn same(flags: &[&str], values: &[&str]) -> Result<()> {
    let mut plugin = plugin(&["--image=registry.example/mc-sidecar:v1"]);
    plugin.args(flags);
    let mut chart = helm("template", &IMAGE)?;
    if !values.iter().any(|value| value.starts_with("--namespace")) {
        chart.arg("--namespace=kubectl-mc-system");
    }
    chart.args(values);
    compare(&mut plugin, &mut chart)
}

fn same_file(values: &str) -> Result<()> {
    let file = file(values)?;
    let [mut plugin, mut chart] = both(file.path())?;
    plugin.arg("--image=registry.example/mc-sidecar:v1");
    compare(&mut plugin, chart.args(IMAGE))
}

fn both(file: &Path) -> Result<[Command; 2]> {
    let file = format!("--values={}", file.display());
    Ok([plugin(&[&file]), helm("template", &[&file, "--namespace=kubectl-mc-system"])?])
}

fn file(values: &str) -> Result<NamedTempFile> {
    let file = NamedTempFile::new()?;
    std::fs::write(file.path(), values)?;
    Ok(file)
}

fn plugin(flags: &[&str]) -> Command {
    let mut plugin = Command::new(env!("CARGO_BIN_EXE_kubectl-mc"));
    plugin.args(["install", "-o", "yaml"]).args(flags);
    plugin
}

fn compare(plugin: &mut Command, chart: &mut Command) -> Result<()> {
    let (ours, theirs) = (objects(&succeed(plugin)?)?, objects(&succeed(chart)?)?);
    ensure!(ours.keys().eq(theirs.keys()), "{:?}\nand\n{:?}", ours.keys(), theirs.keys());
    for (name, object) in &ours {
        ensure!(*object == theirs[name], "{name}:\n{object:#}\nand\n{:#}", theirs[name]);
    }
    ensure!(ours.len() > 10, "these are all: {:?}", ours.keys());
    Ok(())
}

fn objects(text: &str) -> Result<BTreeMap<String, Value>> {
    by_name(serde_saphyr::from_multiple(text)?)
}

/// The objects by kind and name, without the known differences: Helm does not create the namespace of its
/// release, adds labels at the installation, and has an annotation that keeps the CustomResourceDefinitions and
/// the agents' namespace; `install` records its flags.
fn by_name(objects: Vec<Value>) -> Result<BTreeMap<String, Value>> {
    let is_release = |object: &Value| object["kind"] == "Namespace" && object["metadata"]["name"] != AGENTS;
    let objects = objects.into_iter().filter(|object| object.is_object() && !is_release(object));
    let named = objects.map(|mut object| {
        let metadata = object["metadata"].as_object_mut().context("no metadata")?;
        for (field, key) in [
            ("labels", "app.kubernetes.io/managed-by"),
            ("labels", "helm.sh/chart"),
            ("annotations", "fleet.kubectl-mc.dev/flags"),
            ("annotations", "helm.sh/resource-policy"),
        ] {
            if let Some(map) = metadata.get_mut(field).and_then(Value::as_object_mut) {
                map.remove(key);
                if map.is_empty() {
                    metadata.remove(field);
                }
            }
        }
        let name =
            format!("{} {} {}", object["kind"], object["metadata"]["namespace"], object["metadata"]["name"]);
        Ok((name, object))
    });
    named.collect()
}

fn helm(verb: &str, flags: &[&str]) -> Result<Command> {
    helm_command(concat!(env!("CARGO_MANIFEST_DIR"), "/../sidecar/deploy/chart"), verb, flags)
}

fn helm_agent(verb: &str, flags: &[&str]) -> Result<Command> {
    helm_command(concat!(env!("CARGO_MANIFEST_DIR"), "/../sidecar/deploy/agent-chart"), verb, flags)
}

fn helm_command(chart: &str, verb: &str, flags: &[&str]) -> Result<Command> {
    let mut command = Command::new(testbed::programs::build_helm()?);
    // The user's own Helm configuration has no effect.
    command.arg(verb).args([chart, "--kube-version=1.36.3"]).args(flags);
    command.env_clear().env("HOME", env!("CARGO_TARGET_TMPDIR"));
    Ok(command)
}

fn succeed(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start: {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

const IMAGE: [&str; 3] = [
    "--name-template=mc-sidecar",
    "--skip-tests",
    "--set=image.repository=registry.example/mc-sidecar,image.tag=v1",
];
/// Every value of the agent's chart differs from its default, except for the cluster and the image.
const EVERY_VALUE_OF_AN_AGENT: &str = "
image: {pullPolicy: Always}
imagePullSecrets: [{name: one}]
replicas: 3
target: 10.96.0.1:443
resources: {requests: {cpu: 2}, limits: {ephemeral-storage: 1Gi}}
nodeSelector: {pool: infra}
affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}}
tolerations: [{operator: Exists}]
priorityClassName: high
podAnnotations: {sidecar.istio.io/inject: 'false'}
podLabels: {team: platform, app.kubernetes.io/name: not-this}
extraArgs: [--tunnels=1]
extraEnv: [{name: RUST_LOG, value: debug}]
";
/// Every value differs from its default.
const EVERY_VALUE: &str = "
image: {pullPolicy: Always}
imagePullSecrets: [{name: one}, {name: two}]
replicas: 3
securePort: 4443
hostNetwork: true
certificates: Secret
tls: {secretName: serving, caBundle: \"-----BEGIN CERTIFICATE-----\\n\"}
direct: {expose: NodePort, server: 'https://mc.example.com', annotations: {a: b}, nodePort: 30443}
clusterProfiles: {server: 'https://host.example.com:6443/'}
serviceAccount: {annotations: {eks.amazonaws.com/role-arn: r}}
resources: {requests: {cpu: 2}, limits: {ephemeral-storage: 1Gi}, claims: [{name: c}]}
nodeSelector: {pool: infra}
affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}}
tolerations: [{operator: Exists}]
priorityClassName: high
podAnnotations: {sidecar.istio.io/inject: 'false'}
podLabels: {team: platform, app.kubernetes.io/name: not-this}
extraArgs: [--log-format=json]
extraEnv: [{name: RUST_LOG, value: debug}]
extraVolumes: [{name: audit, emptyDir: {}}]
extraVolumeMounts: [{name: audit, mountPath: /audit}]
metrics:
  service: {enabled: true}
  podMonitor: {enabled: true, interval: 10s, labels: {release: prometheus}}
  rules: {enabled: true, labels: {release: prometheus, app.kubernetes.io/name: not-this}}
  dashboard: {enabled: true, labels: {folder: clusters}}
";
