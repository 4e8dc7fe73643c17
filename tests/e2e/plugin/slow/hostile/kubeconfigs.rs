//! An attacker's kubeconfigs next to the victim's own.

use std::fs;

use anyhow::{Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use harness::bed::bed;
use harness::hostile::kubeconfigs::{self, Kubeconfig, OWN_TOKEN};
use serde_json::json;

use super::{CLUSTER, LOGIN, PLUGIN, REAL, Victim};

/// The ways in which the plugin reads a kubeconfig and sends requests. The first ones ask for the contexts' objects.
const WAYS: [&[&str]; 18] = [
    &["get", "pods", "--contexts", "-C", "*"],
    &["get", "pods", "--contexts", "-C", "one"],
    &["clusters"],
    &["describe", "pods", "--contexts", "-C", "*"],
    &["exec", "web", "--contexts", "-C", "one,two", "--yes", "--", "true"],
    &["clusters", "--contexts"],
    &["get", "pods", "-C", "m1"],
    &["get", "pods", "-C", "m1,m2"],
    &["describe", "pods", "-C", "m1"],
    &["exec", "-C", "m1", "web", "--", "true"],
    &["access", "list"],
    &["doctor"],
    &["kubeconfig"],
    &["env", "m1"],
    &["shell", "m1", "--", "true"],
    &["__complete", "-C", ""],
    &["__complete", "--contexts", "-C", ""],
    &["__complete", "-C", "m1", "get", "pods", ""],
];

fn all(victim: &Victim) -> Result<Vec<Kubeconfig>> {
    let host = &bed()?.host;
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    Ok(kubeconfigs::all(&kubeconfigs::Victim {
        trap: &victim.trap,
        server: host.server.clone(),
        authority: fs::read(&host.ca_certificate)?,
        login: LOGIN,
        user: victim.user()?,
        cluster: CLUSTER,
        programs: vec![
            words(&[PLUGIN]),
            words(&["kmc"]),
            words(&["another-name"]),
            words(&["kubectl", "mc"]),
            words(&["env", "kmc"]),
        ],
        secret: victim.login()?,
    }))
}

#[test]
fn fault_81_kubeconfig_of_an_attacker_gets_nothing() -> Result<()> {
    let victim = Victim::new()?;
    for kubeconfig in all(&victim)? {
        let plugin = victim.with(&kubeconfig.text)?;
        let before = victim.trap.heads().len();
        for (at, words) in WAYS.iter().enumerate() {
            victim.note(kubeconfig.name, victim.runs(&plugin, words).map(drop));
            let heads = victim.trap.heads();
            let arrived = heads.iter().skip(before).any(|head| head.contains(OWN_TOKEN));
            // Otherwise the trap would show nothing.
            ensure!(!kubeconfig.reaches_trap || at > 0 || arrived, "{}: nothing arrived", kubeconfig.name);
        }
        victim.note(kubeconfig.name, victim.listens(&plugin, &["listen", "m1"]));
    }
    victim.judge()
}

/// The kubeconfigs in a folder are separate: a name from one means nothing in another.
#[test]
fn fault_81_kubeconfig_in_a_folder_takes_no_user_of_another() -> Result<()> {
    let victim = Victim::new()?;
    let folder = victim.path("folder");
    fs::create_dir(&folder)?;
    fs::copy(victim.path(REAL), folder.join("real"))?;
    let hostile = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "one",
        "clusters": [{"name": CLUSTER, "cluster": {
            "server": victim.trap.url(), "certificate-authority-data": STANDARD.encode(victim.trap.authority()),
        }}],
        "contexts": [{"name": "one", "context": {"cluster": CLUSTER, "user": victim.user()?}}],
    });
    fs::write(folder.join("a-hostile"), hostile.to_string())?;
    let flag = format!("--kubeconfig-dir={}", folder.display());
    for words in [
        &["get", "pods", "-C", "*", &flag][..],
        &["describe", "pods", "-C", "*", &flag],
        &["clusters", &flag],
        &["__complete", &flag, "-C", ""],
        &["shell", &flag, "-C", "*", "--", "true"],
    ] {
        victim.note("a folder", victim.runs(&victim.plugin, words).map(drop));
    }
    victim.judge()
}
