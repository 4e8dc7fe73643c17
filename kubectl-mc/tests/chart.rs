//! The Helm chart and `kubectl mc install` are two ways to the same objects: for each set of values, what real
//! Helm renders is what the plugin prints.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

#[test]
fn by_default() -> Result<()> {
    same(&[], &[])
}

#[test]
fn in_another_namespace_with_other_numbers() -> Result<()> {
    same(
        &["--namespace=elsewhere", "--replicas=5", "--secure-port=4443", "--image-pull-policy=Always"],
        &["--namespace=elsewhere", "--set=replicas=5,securePort=4443,imagePullPolicy=Always"],
    )
}

#[test]
fn on_the_hosts_network() -> Result<()> {
    same(&["--host-network"], &["--set=hostNetwork=true"])?;
    same(&["--host-network", "--secure-port=9443"], &["--set=hostNetwork=true,securePort=9443"])
}

#[test]
fn with_cert_manager() -> Result<()> {
    same(&["--certificates=cert-manager"], &["--set=certificates=CertManager"])
}

#[test]
fn with_flags_of_the_sidecar() -> Result<()> {
    same(
        &["--sidecar-flag=--max-tunnels=7", "--sidecar-flag=--log-format=json"],
        &["--set=extraArgs={--max-tunnels=7,--log-format=json}"],
    )
}

#[test]
fn an_image_must_be_named() -> Result<()> {
    let output = helm(&["template"])?.output()?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success() && told.contains("image is required"), "{told}");
    Ok(())
}

#[test]
fn helm_finds_nothing_to_criticize() -> Result<()> {
    succeed(helm(&["lint", "--strict"])?.arg("--set=image=i")).map(drop)
}

fn same(flags: &[&str], values: &[&str]) -> Result<()> {
    let mut plugin = Command::new(env!("CARGO_BIN_EXE_kubectl-mc"));
    plugin.args(["install", "--image=registry.example/mc-sidecar:1", "-o", "yaml"]).args(flags);
    let ours = objects(&succeed(&mut plugin)?)?;
    let mut chart = helm(&["template"])?;
    chart.arg("--set=image=registry.example/mc-sidecar:1");
    if !values.iter().any(|value| value.starts_with("--namespace")) {
        chart.arg("--namespace=kubectl-mc-system");
    }
    let theirs = objects(&succeed(chart.args(values))?)?;
    ensure!(ours.keys().eq(theirs.keys()), "{:?}\nand\n{:?}", ours.keys(), theirs.keys());
    for (name, object) in &ours {
        ensure!(*object == theirs[name], "{name}:\n{object:#}\nand\n{:#}", theirs[name]);
    }
    ensure!(ours.len() > 10, "these are all: {:?}", ours.keys());
    Ok(())
}

/// By kind and name, without what each way adds by its nature: Helm makes no namespace, labels what it makes
/// when it installs, and is told to keep the definitions.
fn objects(text: &str) -> Result<BTreeMap<String, Value>> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(text)?;
    let objects = objects.into_iter().filter(|object| object.is_object() && object["kind"] != "Namespace");
    let named = objects.map(|mut object| {
        let metadata = object["metadata"].as_object_mut().context("no metadata")?;
        for (field, key) in
            [("labels", "app.kubernetes.io/managed-by"), ("annotations", "helm.sh/resource-policy")]
        {
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

fn helm(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(testbed::programs::build_helm()?);
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/../sidecar/deploy/chart");
    // Nothing of the user's own Helm.
    command
        .args(arguments)
        .args([chart, "--kube-version=1.36.3"])
        .env_clear()
        .env("HOME", env!("CARGO_TARGET_TMPDIR"));
    Ok(command)
}

fn succeed(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start: {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}
