//! An attacker's hub, to which the victim is logged in as well as to the real host.

use anyhow::{Result, ensure};
use harness::hostile::hubs::{Hub, Lie, TOKEN};

use super::Victim;

/// The ways in which the plugin asks a hub.
const WAYS: [&[&str]; 17] = [
    &["clusters"],
    &["clusters", "-o", "wide"],
    &["get", "pods", "-C", "m1"],
    &["get", "pods", "-C", "m1,m2"],
    &["get", "pods", "-A", "--show-labels", "--all-clusters"],
    &["describe", "pods", "-C", "m1,m2"],
    &["exec", "-C", "m1,m2", "--yes", "web", "--", "true"],
    &["get", "pods", "--contexts", "-C", "*"],
    &["clusters", "--contexts"],
    &["access", "list"],
    &["access", "explain", "-C", "m1", "get", "pods"],
    &["doctor"],
    &["kubeconfig"],
    &["env", "m1"],
    &["shell", "m1", "--", "true"],
    &["__complete", "-C", ""],
    &["__complete", "-C", "m1", "get", "pods", ""],
];

#[test]
fn fault_81_lying_hub_gets_nothing() -> Result<()> {
    let victim = Victim::new()?;
    for lie in Lie::QUICK {
        let hub = Hub::start(lie, &victim.trap)?;
        let before = victim.trap.heads().len();
        let plugin = victim.with(hub.kubeconfig().as_bytes())?;
        // Requests to ten thousand members take an unoptimized build some minutes.
        let is_long = |words: &[&str]| lie == Lie::Many && words.contains(&"--all-clusters");
        for words in WAYS.into_iter().filter(|words| !is_long(words)) {
            victim.note(&format!("{lie:?}"), victim.runs(&plugin, words).map(drop));
        }
        victim.note(&format!("{lie:?}"), victim.listens(&plugin, &["listen", "m1"]));
        // Otherwise its lies would prove nothing.
        ensure!(hub.heads().iter().any(|head| head.contains(TOKEN)), "{lie:?}: the hub was not asked");
        if lie != Lie::Endpoint {
            // kubectl follows a redirect with its credential, with the plugin and without.
            let by_kubectl = |head: &str| head.contains("User-Agent: kubectl/");
            let mut heads = victim.trap.heads().into_iter().skip(before);
            let taken = heads.find(|head| head.contains(TOKEN) && !by_kubectl(head));
            ensure!(taken.is_none(), "{lie:?}: the hub's credential went elsewhere: {taken:?}");
        }
    }
    victim.judge()
}

/// kubectl has no such limit, so this runs only commands that the plugin handles itself.
#[test]
fn fault_81_endless_answer_of_a_hub_ends_in_time() -> Result<()> {
    let victim = Victim::new()?;
    for lie in Lie::ENDLESS {
        let hub = Hub::start(lie, &victim.trap)?;
        let plugin = victim.with(hub.kubeconfig().as_bytes())?;
        let plugin = plugin.env("KUBECTL_MC_COMPLETION_TIMEOUT", "3s");
        for words in [
            &["clusters"][..],
            &["get", "pods", "-C", "m1,m2", "--cluster-timeout=5s"],
            &["env", "m1"],
            &["__complete", "-C", ""],
            &["__complete", "-C", "m1", "get", "pods", ""],
        ] {
            let before = hub.heads().len();
            let output = victim.runs(&plugin, words);
            if let Ok(output) = &output {
                // A completion fails by offering nothing, and `env` by printing a warning.
                let is_unconfirmed = output.stderr.contains("the host did not confirm m1");
                let has_failed = output.code != 0 || output.text() == ":4\n" || is_unconfirmed;
                ensure!(has_failed, "{lie:?}: an answer without an end is an answer: {output:?}");
                ensure!(hub.heads().len() > before, "{lie:?}: the hub was not asked: {output:?}");
            }
            victim.note(&format!("{lie:?}"), output.map(drop));
        }
    }
    victim.judge()
}
