//! Each fault of a cluster, with its fix.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use super::*;

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn each_condition_of_a_member_has_its_fix() {
    for (kind, status, reason, expected) in [
        (
            "Connected",
            "False",
            "NoAgent",
            "problem agent NoAgent: found\n\
         fix: kubectl FLAGS describe membercluster m1",
        ),
        (
            "Reachable",
            "False",
            "ConnectionRefused",
            "problem address ConnectionRefused: found\n\
         fix: kubectl FLAGS describe membercluster m1",
        ),
        (
            "Reachable",
            "Unknown",
            "NotEnrolled",
            "warning address NotEnrolled: found\n\
         fix: kubectl FLAGS describe membercluster m1",
        ),
        (
            "CredentialValid",
            "False",
            "Expired",
            "problem credential Expired: found\n\
         fix: kubectl mc FLAGS join m1 --renew",
        ),
        (
            "CredentialValid",
            "False",
            "NotRecognized",
            "problem credential NotRecognized: found\n\
         fix: kubectl mc FLAGS join m1 --member-context=NAME",
        ),
        (
            "CredentialValid",
            "False",
            "NoSecret",
            "problem credential NoSecret: found\n\
         fix: kubectl mc FLAGS join m1 --member-context=NAME",
        ),
        (
            "CredentialValid",
            "False",
            "EnrollmentOpen",
            "problem credential EnrollmentOpen: found\n\
         fix: an admin of m1 applies the manifest of: kubectl mc FLAGS join m1 --agent --enroll",
        ),
        (
            "CredentialValid",
            "True",
            "ClientCertificate",
            "warning credential ClientCertificate: found\n\
         fix: kubectl mc FLAGS join m1 --member-context=NAME",
        ),
        (
            "CredentialValid",
            "True",
            "NoExpiry",
            "warning credential NoExpiry: found\n\
         fix: kubectl mc FLAGS join m1 --member-context=NAME",
        ),
        (
            "CredentialValid",
            "True",
            "RenewalOverdue",
            "warning credential RenewalOverdue: found\n\
         fix: kubectl mc FLAGS join m1 --renew",
        ),
        (
            "AuthSynced",
            "False",
            "ManagerRefused",
            "problem impersonation ManagerRefused: found\n\
         fix: kubectl mc FLAGS join m1 --renew",
        ),
        (
            "AuthSynced",
            "False",
            "Forbidden",
            "problem impersonation Forbidden: found\n\
         fix: kubectl mc FLAGS join m1 --member-context=NAME",
        ),
        (
            "AuthSynced",
            "False",
            "SyncFailed",
            "problem impersonation SyncFailed: found\n\
         fix: kubectl mc FLAGS access diff m1",
        ),
        (
            "AuthSynced",
            "Unknown",
            "HostRBACUnreadable",
            "warning impersonation HostRBACUnreadable: found\n\
         fix: kubectl FLAGS describe membercluster m1",
        ),
        ("AuthSynced", "Unknown", "KeptByKarmada", ""),
        (
            "UniqueName",
            "False",
            "Conflict",
            "warning name Conflict: found\n\
         fix: keep one of the two: kubectl mc FLAGS unjoin m1 --member-context=NAME, or unjoin it from the other hub",
        ),
    ] {
        let condition = json!({"type": kind, "status": status, "reason": reason, "message": "found"});
        let list = json!({"items": [{"metadata": {"name": "m1"}, "status": {"conditions": [condition]}}]});
        let bed = Bed::serving(move |path: &str| match path.contains("/clusters?") {
            true => ok(&list),
            false => healthy(path),
        });
        install(&bed, "v1.36.1");
        assert_eq!(diagnosed(&bed, &["m1"]), expected, "{kind} {reason}");
    }
}

#[test]
fn member_of_another_hub_is_not_joined_again() {
    for (kind, reason, expected) in [
        (
            "CredentialValid",
            "Refused",
            "problem credential Refused: found\n\
         fix: kubectl FLAGS describe membercluster m1",
        ),
        (
            "CredentialValid",
            "NoConnection",
            "problem credential NoConnection: found\n\
         fix: kubectl FLAGS describe membercluster m1",
        ),
        (
            "AuthSynced",
            "ManagerRefused",
            "problem impersonation ManagerRefused: found\n\
         fix: kubectl FLAGS describe membercluster m1",
        ),
        (
            "SecretsBound",
            "ChosenByReference",
            "warning secrets ChosenByReference: found\n\
         fix: the references of the Cluster: kubectl FLAGS get clusters.cluster.karmada.io m1 -o yaml",
        ),
    ] {
        let condition = json!({"type": kind, "status": "False", "reason": reason, "message": "found"});
        let metadata = json!({"name": "m1", "labels": {"fleet.kubectl-mc.dev/inventory": "karmada"}});
        let list = json!({"items": [{"metadata": metadata, "status": {"conditions": [condition]}}]});
        let bed = Bed::serving(move |path: &str| match path.contains("/clusters?") {
            true => ok(&list),
            false => healthy(path),
        });
        install(&bed, "v1.36.1");
        assert_eq!(diagnosed(&bed, &["m1"]), expected, "{kind} {reason}");
    }
}

#[test]
fn member_with_an_agent_is_joined_again_with_the_agent() {
    let list: Script = |path| {
        path.contains("/clusters?").then(|| {
            ok(&json!({"items": [{"metadata": {"name": "m1"}, "status": {"conditions": [
                {"type": "Connected", "status": "True", "reason": "AgentConnected"},
                {"type": "AuthSynced", "status": "False", "reason": "Forbidden", "message": "found"},
            ]}}]}))
        })
    };
    check(&[(
        list,
        &["m1"],
        "problem impersonation Forbidden: found\n\
         fix: kubectl mc FLAGS join m1 --member-context=NAME --agent",
    )]);
}

#[test]
fn each_refusal_of_a_request_has_its_fix() {
    check(&[
        (
            |path| version(path, || status(503, "member unreachable", "refused")),
            &["m1"],
            "problem request member unreachable: refused\n\
         fix: m1 did not answer this request; `kubectl mc FLAGS clusters` shows it as Ready until the third failed probe; an \
         admin of m1 checks its API server and the network to it",
        ),
        (
            |path| version(path, || status(503, "proxy off", "no credential")),
            &["m1"],
            "problem request proxy off: no credential\n\
         fix: m1 has no credential; an admin of the host and of m1 runs: kubectl mc FLAGS join m1 --member-context=NAME",
        ),
        (
            |path| version(path, || status(403, "member impersonation", "no")),
            &["m1"],
            "problem request member impersonation: no\n\
         fix: m1 does not let the sidecar impersonate you; see: kubectl mc FLAGS access diff m1",
        ),
        (
            |path| version(path, || status(404, "cluster unknown", "no cluster m9")),
            &["m9"],
            "problem request cluster unknown: no cluster m9\n\
         fix: `kubectl mc FLAGS clusters` lists the clusters",
        ),
        (
            |path| version(path, || answer(403, &refusal("forbidden"))),
            &["m1"],
            "problem request host authorization: forbidden\n\
         fix: see: kubectl mc FLAGS access explain -C m1 get pods; an admin of the host grants access: kubectl mc FLAGS access grant view --user=USER -C m1",
        ),
        (
            |path| version(path, || ok(&json!({"message": "hello"})).sent_by_member()),
            &["m1"],
            "warning request the member answers GET /version without a version: hello\n\
         fix: kubectl mc FLAGS access explain -C m1 get /version",
        ),
        (
            |path| version(path, || ok(&json!({"gitVersion": "v1.30.0"})).sent_by_member()),
            &["m1"],
            "warning kubectl kubectl 1.36 and Kubernetes v1.30.0 are more than one minor version apart\n\
         fix: where a command misbehaves, use a kubectl of 1.30: KUBECTL_MC_KUBECTL=/path/to/kubectl",
        ),
        (
            |path| version(path, || ok(&json!({"gitVersion": "v1.29.9"})).sent_by_member()),
            &["m1"],
            "warning version members before Kubernetes 1.30 are neither tested nor supported, and one without ValidatingAdmissionPolicy does not limit the rights of the sidecar's manager\n\
         fix: upgrade m1 to Kubernetes 1.30 or later",
        ),
    ]);
}

fn version(path: &str, answer: fn() -> Answer) -> Option<Answer> {
    (path.ends_with("/proxy/version") && !path.contains('*')).then(answer)
}

#[test]
fn missing_member_rights_are_a_warning() {
    let script: Script = |path| {
        let is_review =
            path.contains("/clusters/m1/selfreviews/") && path.ends_with("/selfsubjectaccessreviews");
        is_review.then(|| answer(201, &json!({"status": {"allowed": false}})).sent_by_member())
    };
    check(&[(
        script,
        &["m1"],
        "warning rights RBAC of the member lets you list no pods, not even in namespace ns\n\
         fix: kubectl mc FLAGS access explain -C m1 get pods -n ns",
    )]);
}

#[test]
fn each_fault_of_streams_has_its_fix() {
    check(&[(
        |path| pod(path, || status(502, "sidecar", "no upgrade")),
        &["m1"],
        "problem streams no stream to pod shop/web: WebSocket: sidecar: 502 Bad Gateway; SPDY: sidecar: 502 Bad Gateway\n\
         fix: kubectl mc FLAGS access explain -C m1 port-forward pods",
    )]);
}

/// A member with a pod, whose port-forward has this answer.
fn pod(path: &str, forward: fn() -> Answer) -> Option<Answer> {
    if path.ends_with("/portforward") {
        return Some(forward());
    }
    let list = json!({"items": [{"metadata": {"name": "web", "namespace": "shop"}}]});
    path.contains("/api/v1/pods?").then(|| ok(&list).sent_by_member())
}

#[test]
fn stream_protocol_that_is_refused_is_a_warning_with_its_fix() {
    for (accepted, expected) in [
        (
            0,
            "warning streams WebSocket streams, and no SPDY: sidecar: 502 Bad Gateway\n\
         fix: let WebSocket and SPDY upgrades pass each proxy and load balancer before the host and the member",
        ),
        (
            1,
            "warning streams SPDY streams, and no WebSocket: sidecar: 502 Bad Gateway\n\
         fix: let WebSocket and SPDY upgrades pass each proxy and load balancer before the host and the member",
        ),
    ] {
        let opened = AtomicUsize::new(0);
        let bed = Bed::serving(move |path: &str| {
            let forward =
                if path.ends_with("/portforward") { opened.fetch_add(1, Relaxed) } else { usize::MAX };
            let answer: fn() -> Answer = if forward == accepted {
                || answer(101, &Value::Null)
            } else {
                || status(502, "sidecar", "no upgrade")
            };
            pod(path, answer).unwrap_or_else(|| healthy(path))
        });
        install(&bed, "v1.36.1");
        assert_eq!(diagnosed(&bed, &["m1"]), expected);
    }
}

#[test]
fn cluster_that_breaks_off_or_never_ends_has_its_fix() {
    let endless = Bed::streaming(|path, stream| match path.ends_with("/m2/proxy/version") {
        true => {
            stream.begin();
            while stream.goes_on(&" ".repeat(1024 * 1024)) {}
        }
        false => stream.answer(healthy(path)),
    });
    install(&endless, "v1.36.1");
    assert_eq!(
        diagnosed(&endless, &["m2"]),
        "problem request the answer is larger than 4 MiB\n\
         fix: kubectl mc FLAGS access explain -C m2 get /version"
    );
    let broken = Bed::streaming(|path, stream| match path.ends_with("/m2/proxy/version") {
        true => stream.begin(),
        false => stream.answer(healthy(path)),
    });
    install(&broken, "v1.36.1");
    let found = diagnosed(&broken, &["m2"]);
    assert!(found.starts_with("problem request cannot reach the host: "), "{found}");
    assert_eq!(
        found.split_once('\n').unwrap().1,
        "fix: check the network, a VPN, and the server of the context: kubectl FLAGS config view --minify"
    );
    let silent = Bed::streaming(|path, stream| match path.ends_with("/m2/proxy/version") {
        true => stream.hold(),
        false => stream.answer(healthy(path)),
    });
    install(&silent, "v1.36.1");
    assert_eq!(
        diagnosed(&silent, &["m2", "--cluster-timeout=1s"]),
        "problem request no answer within 1 s\n\
         fix: wait longer: kubectl mc FLAGS doctor m2 --cluster-timeout=DURATION"
    );
}

#[test]
fn member_that_waits_for_its_agent_has_one_problem() {
    let condition = |kind: &str, status: &str, reason: &str| json!({"type": kind, "status": status, "reason": reason, "message": "found"});
    let conditions = [
        condition("Connected", "False", "NoAgent"),
        condition("Reachable", "Unknown", "NotEnrolled"),
        condition("CredentialValid", "False", "EnrollmentOpen"),
        condition("AuthSynced", "False", "ManagerUnusable"),
    ];
    let list = json!({"items": [{"metadata": {"name": "m1"}, "status": {"conditions": conditions}}]});
    let bed = Bed::serving(move |path: &str| match path {
        path if path.contains("/clusters?") => ok(&list),
        path if path.contains("/clusters/m1/proxy") => {
            answer(503, &json!({"kind": "Status", "message": "proxy off: x"})).of("proxy off")
        }
        path => healthy(path),
    });
    install(&bed, "v1.36.1");
    assert_eq!(
        diagnosed(&bed, &["m1"]),
        "problem credential EnrollmentOpen: found\n\
         fix: an admin of m1 applies the manifest of: kubectl mc FLAGS join m1 --agent --enroll"
    );
}
