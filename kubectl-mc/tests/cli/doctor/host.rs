//! Each fault of the host, with its fix.

use super::*;
use crate::tls_server::{Authority, TlsServer};

#[test]
fn each_fault_of_the_host_has_its_fix() {
    check(&[
        (
            |path| (path == "/pre/version").then(|| answer(401, &refusal("Unauthorized"))),
            &[],
            "problem host host authentication: Unauthorized\n\
         fix: log in to the host again, then try: kubectl FLAGS auth whoami",
        ),
        (
            |path| (path == "/pre/version").then(|| answer(503, &refusal("shutting down"))),
            &[],
            "problem host GET /version: 503: shutting down\n\
         fix: wait for the host; see: kubectl FLAGS get --raw '/readyz?verbose'",
        ),
        (
            |path| (path == "/pre/version").then(|| ok(&json!({"gitVersion": "v1.29.1"}))),
            &[],
            "problem host Kubernetes v1.29.1; the sidecar needs 1.30 or later\n\
         fix: upgrade the host",
        ),
        (
            |path| review(path, 401, "Unauthorized"),
            &[],
            "problem login Unauthorized\n\
         fix: log in to the host again, then try: kubectl FLAGS auth whoami",
        ),
        (
            |path| review(path, 403, "forbidden"),
            &[],
            "warning login the host does not return your user name: forbidden\n\
         fix: an admin of the host binds ClusterRole system:basic-user to system:authenticated",
        ),
        (
            |path| review(path, 404, "the server could not find the requested resource"),
            &[],
            "problem login SelfSubjectReview: 404: the server could not find the requested resource\n\
         fix: try: kubectl FLAGS auth whoami",
        ),
        (
            anonymous,
            &[],
            "problem login the host authenticates you as system:anonymous: the context has no credential\n\
         fix: give its user a credential: kubectl FLAGS config set-credentials u --token=TOKEN; then try: kubectl FLAGS auth whoami",
        ),
    ]);
}

/// A host that authenticates every caller as system:anonymous.
fn anonymous(path: &str) -> Option<Answer> {
    path.ends_with("/selfsubjectreviews")
        .then(|| answer(201, &json!({"status": {"userInfo": {"username": "system:anonymous"}}})))
}

fn review(path: &str, code: u16, message: &str) -> Option<Answer> {
    path.ends_with("/selfsubjectreviews").then(|| answer(code, &refusal(message)))
}

#[test]
fn context_without_a_user_gets_the_command_that_names_one() {
    let bed = bed(anonymous);
    let kubeconfig = bed.read("kubeconfig").replace(r#", "user": "u""#, "");
    std::fs::write(bed.path("kubeconfig"), kubeconfig).unwrap();
    assert_eq!(
        diagnosed(&bed, &[]),
        "problem login the host authenticates you as system:anonymous: the context has no credential\n\
         fix: name a user: kubectl FLAGS config set-context host --user=NAME; then try: kubectl FLAGS auth whoami"
    );
}

#[test]
fn skew_of_the_clocks_is_a_warning_with_its_fix() {
    let late: Script = |path| {
        (path == "/pre/version")
            .then(|| ok(&json!({"gitVersion": "v1.36.3"})).with("Date", "Sat, 21 Nov 2020 20:50:41 GMT"))
    };
    let found = diagnosed(&bed(late), &[]);
    let (before, after) = found.split_once(" s ahead of the host's").unwrap();
    assert!(before.starts_with("warning clock this machine's clock is "), "{found}");
    assert_eq!(
        after,
        ": new tokens and certificates may be refused\n\
         fix: synchronize both clocks by NTP"
    );
}

#[test]
fn each_host_that_cannot_be_asked_has_its_fix() {
    let unreachable = Bed::unreachable();
    install(&unreachable, "v1.36.1");
    let found = diagnosed(&unreachable, &[]);
    let (reason, fix) = found.split_once('\n').unwrap();
    assert!(reason.starts_with("problem host cannot reach the host: "), "{found}");
    assert_eq!(
        fix,
        "fix: check the network, a VPN, and the server of the context: kubectl FLAGS config view --minify"
    );

    let endless = Bed::streaming(|_, stream| {
        stream.begin();
        while stream.goes_on(&" ".repeat(1024 * 1024)) {}
    });
    install(&endless, "v1.36.1");
    assert_eq!(
        diagnosed(&endless, &[]),
        "problem host the answer is larger than 64 MiB\n\
         fix: check the server of the context: kubectl FLAGS config view --minify"
    );

    let server = TlsServer::new(&Authority::new(), |_| (200, "{}".to_owned()));
    let untrusted = bed(|_| None);
    let kubeconfig = untrusted.read("kubeconfig").replace(untrusted.server(), &server.url);
    std::fs::write(untrusted.path("kubeconfig"), kubeconfig).unwrap();
    let found = diagnosed(&untrusted, &[]);
    assert!(found.starts_with("problem host cannot establish TLS with the host: "), "{found}");
    assert_eq!(
        found.split_once('\n').unwrap().1,
        "fix: check certificate-authority and tls-server-name of the context; compare with: kubectl FLAGS get --raw /version"
    );
}

#[test]
fn each_credential_plugin_that_cannot_run_has_its_fix() {
    for (mode, program, expected) in [
        (
            "Always",
            "true",
            "problem host cannot set up the connection: the credential plugin true needs a terminal\n\
         fix: try: kubectl FLAGS auth whoami",
        ),
        (
            "Never",
            "/nowhere/plugin",
            "problem host cannot set up the connection: cannot run the credential plugin /nowhere/plugin: No such file or directory (os error 2)\n\
         fix: try: kubectl FLAGS auth whoami",
        ),
    ] {
        let bed = bed(|_| None);
        bed.secure();
        let exec = format!(
            r#""exec": {{"apiVersion": "client.authentication.k8s.io/v1", "command": "{program}", "interactiveMode": "{mode}"}}"#
        );
        let kubeconfig = bed.read("kubeconfig").replace(r#""token":"secret""#, &exec);
        std::fs::write(bed.path("kubeconfig"), kubeconfig).unwrap();
        let found = diagnosed(&bed, &[]);
        assert_eq!(found, expected);
    }
}

#[test]
fn each_unusable_kubeconfig_has_its_fix() {
    for (from, to, expected) in [
        (
            r#""name": "host""#,
            r#""name": "other""#,
            "problem context no host: context \"host\" does not exist in FILE\n\
         fix: `kubectl config FILE get-contexts` lists the contexts",
        ),
        (
            r#""name": "u""#,
            r#""name": "v""#,
            "problem context no host: context \"host\" names user \"u\", which does not exist in FILE\n\
         fix: add the user, or name another: kubectl config FILE set-context host --user=NAME",
        ),
        (
            r#""name": "c""#,
            r#""name": "d""#,
            "problem context no host: context \"host\" has no server: cluster \"c\" has none\n\
         fix: add it: kubectl config FILE set-cluster c --server=URL",
        ),
        (
            "{",
            "[",
            "problem context cannot parse kubeconfig FILE: line 2 column 55: mismatched bracket '[' closed by '}'\n\
         fix: kubectl reads the same files; see: kubectl config FILE view",
        ),
    ] {
        let bed = bed(|_| None);
        let kubeconfig = bed.read("kubeconfig").replace(from, to);
        std::fs::write(bed.path("kubeconfig"), kubeconfig).unwrap();
        let found = diagnosed(&bed, &[]).replace(&bed.path("kubeconfig").display().to_string(), "FILE");
        assert_eq!(found, expected);
    }
}

#[test]
fn each_fault_of_the_route_and_the_list_has_its_fix() {
    check(&[
        (
            |_| None,
            &["--route=direct"],
            "problem route no direct route to members of host \"host\" (SERVER): the host publishes no direct endpoint\n\
         fix: --route=host goes through the host; an admin of the host publishes a direct endpoint: kubectl mc FLAGS install --expose=TYPE",
        ),
        (
            |path| list(path, 500, "etcd"),
            &[],
            "problem clusters cannot list clusters through host \"host\" (SERVER): 500 Internal Server Error: etcd\n\
         fix: see its requests: kubectl mc FLAGS clusters -v=6",
        ),
        (
            |path| list(path, 403, "forbidden"),
            &[],
            "problem clusters cannot list clusters through host \"host\" (SERVER): host authorization: forbidden\n\
         fix: name the clusters (-C m1,m2), or ask an admin of the host for the right to list them, which `kubectl mc FLAGS install --list-for=GROUP` gives; see: kubectl FLAGS auth can-i list clusters.proxy.kubectl-mc.dev",
        ),
        (
            |_| None,
            &["m9*"],
            "problem clusters no cluster matches\n\
         fix: there are m1, m2",
        ),
    ]);
}

fn list(path: &str, code: u16, message: &str) -> Option<Answer> {
    path.ends_with("/clusters").then(|| answer(code, &refusal(message)))
}
