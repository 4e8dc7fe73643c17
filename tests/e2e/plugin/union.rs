//! `--sort-by` and templates on several clusters print what kubectl prints on one cluster with the
//! objects of all of them. The bytes are the same, apart from the cluster's name before a row.

use anyhow::{Result, ensure};
use harness::caller::Caller;
use harness::scene::{EVERY_VERB, Scene};
use harness::tool::{Output, Tool};
use regex::Regex;
use serde_json::json;

use super::direct_get::without_ages;
use crate::plugin;

type Data = &'static [(&'static str, &'static str)];

/// Values that sort differently as texts, numbers, quantities and times. Each object lacks at most
/// one field, because the order of equal values is not defined.
const OBJECTS: &[(&str, &str, Data)] = &[
    (
        "m1",
        "web-10",
        &[("size", "900m"), ("number", "10"), ("time", "2026-02-01T00:00:00Z"), ("text", "b é")],
    ),
    ("m2", "web-9", &[("size", "2"), ("number", "9"), ("time", "2025-12-31T23:59:59Z"), ("text", "a\tb")]),
    ("m1", "db", &[("size", "1Ki"), ("number", "-1"), ("time", "2026-01-01T00:00:00Z")]),
    ("m2", "cache", &[("size", "1k"), ("number", "100"), ("text", "{\"a\": \"<b>\"}")]),
    ("m1", "api", &[("number", "0"), ("time", "2026-01-01T00:00:00.5Z"), ("text", "line\nline")]),
    ("m2", "queue", &[("size", "0"), ("time", "2024-01-01T00:00:00Z"), ("text", "B")]),
];

const ORDERS: &[&str] =
    &[".metadata.name", "{.data.size}", "data.number", "{.data.time}", ".data.text", ".data['size']"];

/// The last word may contain spaces.
const FORMS: &[&[&str]] = &[
    &[],
    &["--no-headers"],
    &["--show-labels"],
    &["-L", "app,tier"],
    &["-o", "wide"],
    &["-o", "name"],
    &["-o", "custom-columns=NAME:.metadata.name,SIZE:.data.size,NOTHING:.data.nothing"],
    &["--no-headers", "-o", "custom-columns=NAME:.metadata.name,TEXT:.data.text"],
    &["-o", "jsonpath={.items[*].metadata.name}"],
    &["-o", "jsonpath={range .items[*]}{.metadata.name}={.data.size} {.kind}{\"\\n\"}{end}"],
    &["-o", "jsonpath={.items[?(@.data.number==\"10\")].metadata.name}"],
    &["-o", "jsonpath={.items[-1:].data.text} {.kind} {.apiVersion}"],
    &["-o", "jsonpath-as-json={.items[*].data}"],
    &["-o", "go-template={{range .items}}{{.metadata.name}} {{len .data}} {{.data.text}}\n{{end}}"],
    &["-o", "go-template={{len .items}} {{(index .items 0).metadata.labels.app}}"],
];

#[test]
fn sorted_union_equals_kubectl_on_one_cluster() -> Result<()> {
    let tools = Tools::new("union-sorted")?;
    for order in ORDERS {
        let order = format!("--sort-by={order}");
        for form in FORMS {
            tools.same("m1,m2", "app=x", &[&[order.as_str()][..], form].concat())?;
        }
    }
    Ok(())
}

#[test]
fn union_of_one_members_objects_equals_kubectl() -> Result<()> {
    let tools = Tools::new("union-one")?;
    // m2 has no such object, and all of m1's are in the order of their names.
    for form in FORMS {
        tools.same("m1,m2", "app=x,on=m1", form)?;
    }
    Ok(())
}

/// kubectl's table claims that nothing was found, with exit code 0.
#[test]
fn unusable_field_is_an_error_of_the_table_too() -> Result<()> {
    let tools = Tools::new("union-no-field")?;
    for (form, error) in [
        ("--sort-by=.data.nothing", "couldn't find any field with path"),
        ("--sort-by={.data", "unexpected path string"),
    ] {
        let theirs = tools.kubectl.run(&words("m3", "app=x", &[form]))?;
        ensure!(theirs.code == 0 && theirs.stderr.starts_with("No resources found"), "{theirs:?}");
        tools.plugin.run(&words("m1,m2", "app=x", &[form]))?.failure(&[error])?;
    }
    Ok(())
}

#[test]
fn failures_of_sorting_and_templates_equal_kubectls() -> Result<()> {
    let tools = Tools::new("union-failed")?;
    for form in [
        &["--sort-by=.data.nothing", "-o", "name"][..],
        &["--sort-by={.data", "-o", "name"],
        &["-o", "jsonpath={.items[*"],
        &["-o", "jsonpath={.nothing}"],
        &["-o", "go-template={{.nothing}}"],
        &["-o", "go-template={{range .items}}"],
        &["-o", "custom-columns=NAME"],
    ] {
        let ours = tools.plugin.run(&words("m1,m2", "app=x", form))?;
        let theirs = tools.kubectl.run(&words("m3", "app=x", form))?;
        ensure!((ours.code == 0) == (theirs.code == 0), "{form:?}\nkubectl: {theirs:#?}\nours: {ours:#?}");
        let of_kubectl = theirs.stderr.lines().next().unwrap_or_default().trim_start_matches("error: ");
        ensure!(
            ours.stderr.contains(of_kubectl),
            "{form:?}\nkubectl: {}\nours: {}",
            theirs.stderr,
            ours.stderr
        );
    }
    Ok(())
}

/// The plugin on m1 and m2, and kubectl on m3, which has the objects of both.
struct Tools {
    plugin: Tool,
    kubectl: Tool,
    _scenes: [Scene; 3],
}

impl Tools {
    fn new(name: &str) -> Result<Self> {
        let scenes = [Scene::on("m1", name)?, Scene::on("m2", name)?, Scene::on("m3", name)?];
        let caller = Caller::certificate(&format!("e2e-{name}-user"), &[])?;
        scenes[0].let_in(&caller, &["m1", "m2", "m3"], EVERY_VERB)?;
        for scene in &scenes {
            scene.allow(&caller)?;
            for (cluster, name, data) in OBJECTS {
                if scene.member != *cluster && scene.member != "m3" {
                    continue;
                }
                let data: serde_json::Map<_, _> =
                    data.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect();
                let labels = json!({"app": "x", "on": cluster});
                let object = json!({
                    "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels},
                    "data": data,
                });
                let path = format!("/api/v1/namespaces/{}/configmaps/{name}", scene.name);
                scene.api.apply(&path, &object)?;
            }
        }
        let plugin = plugin(&caller)?.with(&["--namespace", &scenes[0].name]);
        let kubectl = plugin.clone().env("KUBECTL_MC_DIRECT", "0");
        Ok(Self { plugin: plugin.env("KUBECTL_MC_DIRECT", "only"), kubectl, _scenes: scenes })
    }

    fn same(&self, clusters: &str, selector: &str, form: &[&str]) -> Result<()> {
        let ours = said(&self.plugin.run(&words(clusters, selector, form))?)?;
        let theirs = said(&self.kubectl.run(&words("m3", selector, form))?)?;
        ensure!(theirs.0 == 0 && !theirs.1.is_empty(), "{form:?}: {theirs:?}");
        ensure!(ours == theirs, "{form:?}\nkubectl: {theirs:#?}\nours: {ours:#?}");
        Ok(())
    }
}

fn words<'a>(clusters: &'a str, selector: &'a str, form: &[&'a str]) -> Vec<&'a str> {
    [&["-C", clusters, "get", "configmaps", "-l", selector][..], form].concat()
}

/// The exit code and the output, without the clusters before rows and the ages.
fn said(output: &Output) -> Result<(i32, String, String)> {
    let cluster = Regex::new(r"(?m)^(CLUSTER +|m[12] +(\| )?)")?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stdout = without_ages(&cluster.replace_all(&stdout, ""))?;
    Ok((output.code, stdout, output.stderr.clone()))
}
