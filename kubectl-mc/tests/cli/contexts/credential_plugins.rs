//! Tests contexts whose user has a credential plugin.

use std::fs;

use serde_json::json;

use super::{kubeconfig, secure_bed};

#[test]
fn plugin_of_several_contexts_runs_once_and_leaves_no_file() {
    let bed = secure_bed();
    let plugin = bed.script(
        "login",
        "#!/bin/sh\necho asked >>asked\necho '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"from-plugin\"}}'\n",
    );
    let exec = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": plugin, "interactiveMode": "Never"}});
    let other = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": plugin, "args": ["other"],
        "interactiveMode": "Never"}});
    kubeconfig(&bed, &[("one", "a", exec.clone()), ("two", "b", exec), ("three", "b", other)]);
    for words in [["get", "pods"], ["describe", "pods"]] {
        let ran = bed.run(&[&["--contexts", "-C", "one,two,three"], &words[..]].concat());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_eq!(bed.read("asked").lines().count(), 2, "{words:?}");
        fs::remove_file(bed.path("asked")).unwrap();
    }
    assert!(bed.read("overlay-of-kubectl").contains("from-plugin"));
    assert_eq!(bed.left(), Vec::<String>::new());
    let tokens: Vec<_> = bed.requests();
    assert!(tokens.len() == 3 && tokens.iter().all(|head| head.contains("Bearer from-plugin")), "{tokens:?}");
}

#[test]
fn every_batch_has_the_credential_of_its_plugin() {
    let bed = secure_bed();
    let script = "#!/bin/sh\necho '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"t\"}}'\n";
    let plugin = bed.script("login", script);
    let exec = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": plugin, "interactiveMode": "Never"}});
    kubeconfig(&bed, &[("one", "a", exec.clone()), ("two", "b", exec.clone()), ("three", "b", exec)]);
    let ran = bed.run(&[
        "--contexts",
        "-C",
        "one,two,three",
        "--yes",
        "--batch=1",
        "--no-batch-wait",
        "rollout",
        "restart",
        "deploy/x",
    ]);
    assert_eq!((ran.code, ran.out.lines().count(), ran.err.as_str()), (Some(0), 3, ""), "{ran:?}");
}

#[test]
fn hanging_credential_plugin_fails_only_its_context() {
    let bed = secure_bed();
    let plugin = bed.script("login", "#!/bin/sh\nexec sleep 1000\n");
    let exec = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": plugin, "interactiveMode": "Never"}});
    kubeconfig(&bed, &[("hung", "b", exec)]);
    for words in [["get", "pods"], ["describe", "pods"]] {
        let ran =
            bed.run(&[&["--contexts", "-C", "kind-a,hung", "--cluster-timeout=1s"], &words[..]].concat());
        assert_eq!(ran.code, Some(4), "{ran:?}");
        assert!(ran.err.contains("login returned nothing within 1 s"), "{ran:?}");
    }
}

#[test]
fn plugin_that_hangs_at_its_renewal_fails_only_its_context() {
    let bed = secure_bed();
    let script = "#!/bin/sh\n[ ! -e asked ] || exec sleep 1000\n: >asked\n\
                  echo '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"t\"}}'\n";
    let plugin = bed.script("login", script);
    let exec = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": plugin, "interactiveMode": "Never"}});
    kubeconfig(&bed, &[("expired", "closed", exec)]);
    let ran = bed.run(&["--contexts", "-C", "kind-a,expired", "--cluster-timeout=1s", "get", "pods"]);
    assert_eq!(ran.code, Some(4), "{ran:?}");
    assert!(ran.err.contains("login returned nothing within 1 s"), "{ran:?}");
}
