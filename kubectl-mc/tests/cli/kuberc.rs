//! Tests aliases and defaults of a kuberc, which kubectl applies itself.

use std::fs;

use crate::bed::Bed;

const KUBERC: &str = "
apiVersion: kubectl.config.k8s.io/v1beta1
kind: Preference
aliases:
- {name: gett, command: get, prependArgs: [nodes]}
- {name: descr, command: describe, appendArgs: [-n, web]}
- {name: rmm, command: delete, prependArgs: [pod]}
defaults:
- {command: get, options: [{name: show-labels, default: 'true'}]}
";

/// A kubectl that shows its arguments and which preferences it has.
fn bed() -> Bed {
    let bed = Bed::with_kubectl("echo \"$* ${KUBECTL_KUBERC:-$(basename \"${KUBERC:-own}\")}\"");
    fs::write(bed.path("rc"), KUBERC).unwrap();
    bed
}

#[test]
fn alias_of_a_given_kuberc_works_on_one_and_on_several_clusters() {
    let bed = bed();
    // Similar verbs are not mistakes.
    let ran = bed.run(&["-C", "m1", "gett", "--kuberc", "rc"]);
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("gett --context=mc/m1 --kuberc rc own\n", ""));
    let ran = bed.run(&["-C", "m1,m2", "descr", "pods", "--kuberc=rc"]);
    let line = |name: &str| format!("{name} | descr --context=mc/{name} pods --kuberc=rc own\n");
    assert_eq!(ran.out, line("m1") + &line("m2"), "{ran:?}");
    // A table is merged; kubectl runs without the preferences.
    let ran = bed.run(&["-C", "m1,m2", "gett", "--kuberc=rc"]);
    assert!(ran.out.starts_with("CLUSTER   get --context=mc/m1 nodes"), "{ran:?}");
    let ran = bed.run(&["-C", "m1,m2", "gett", "--kuberc=missing"]);
    assert!(ran.code != Some(0), "{ran:?}");
}

#[test]
fn alias_is_confirmed_as_its_command() {
    let bed = bed();
    let ran = bed.run(&["-C", "m1,m2", "rmm", "web", "--kuberc=rc"]);
    assert!(ran.err.starts_with("error: refusing to change 2 clusters without confirmation"), "{ran:?}");
    let ran = bed.run_with("KUBECTL_MC_READONLY", "1", &["-C", "m1", "rmm", "web", "--kuberc=rc"]);
    assert!(ran.code == Some(2) && ran.out.is_empty(), "{ran:?}");
    let ran = bed.run_with("KUBECTL_MC_READONLY", "1", &["-C", "m1", "descr", "pods", "--kuberc=rc"]);
    assert_eq!(ran.out, "descr --context=mc/m1 pods --kuberc=rc own\n", "{ran:?}");
}

#[test]
fn dropped_default_is_named_once() {
    let bed = bed();
    let ran = bed.run_with("KUBERC", bed.path("rc"), &["-C", "m1,m2", "get", "pods"]);
    let expected = format!(
        "note: --show-labels=true of {} does not apply: the plugin reads kubectl's output on several clusters; give the flag itself\n",
        bed.path("rc").display()
    );
    assert!(ran.err.starts_with(&expected) && ran.err.matches("show-labels").count() == 1, "{ran:?}");
    for words in [
        &["-C", "m1,m2", "get", "pods", "--show-labels"][..],
        &["-C", "m1,m2", "describe", "pods"],
        &["-C", "m1", "get", "pods"],
    ] {
        let ran = bed.run_with("KUBERC", bed.path("rc"), words);
        assert!(!ran.err.contains("does not apply"), "{ran:?}");
    }
}
