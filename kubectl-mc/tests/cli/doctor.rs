//! Tests `kubectl mc doctor`: each fault that it detects, with the command that fixes the fault.

mod agents;

use serde_json::{Value, json};

use crate::bed::{Answer, Bed, Ran, status};

type Script = fn(&str) -> Option<Answer>;

/// A healthy host with two members, except for the paths that the script answers.
fn bed(script: Script) -> Bed {
    let bed = Bed::serving(move |path: &str| script(path).unwrap_or_else(|| healthy(path)));
    install(&bed, "v1.36.1");
    bed
}

/// Puts the plugin and a kubectl of this version into `PATH`.
fn install(bed: &Bed, version: &str) {
    bed.script(
        "bin/kubectl",
        &format!("#!/bin/sh\necho '{{\"clientVersion\": {{\"gitVersion\": \"{version}\"}}}}'\n"),
    );
    let link = bed.path("bin/kubectl-mc");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kubectl-mc"), link).unwrap();
}

fn healthy(path: &str) -> Answer {
    let path = path.strip_prefix("/pre").unwrap();
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    if let Some((_, inner)) = path.split_once("/proxy/") {
        return of_member(inner);
    }
    match path {
        "/version" => ok(&json!({"gitVersion": "v1.36.3"})),
        "/apis/authentication.k8s.io/v1/selfsubjectreviews" => {
            answer(201, &json!({"status": {"userInfo": {"username": "jane", "groups": ["dev", "ops"]}}}))
        }
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" => {
            answer(201, &json!({"status": {"allowed": true}}))
        }
        "/openapi/v3/apis/proxy.kubectl-mc.dev/v1alpha1" => {
            ok(&json!({"info": {"title": "kubectl-mc", "version": concat!("v", env!("CARGO_PKG_VERSION"))}}))
        }
        DISCOVERY => ok(&json!({"resources": []})),
        "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters" => {
            let items = [cluster("m1", "True", "Accepted"), cluster("m2", "True", "Accepted")];
            let chosen = |item: &Value| {
                query.is_empty() || query.ends_with(item["metadata"]["name"].as_str().unwrap())
            };
            ok(&json!({"items": items.into_iter().filter(chosen).collect::<Vec<_>>()}))
        }
        _ => answer(403, &json!({"kind": "Status", "message": "no"})),
    }
}

const DISCOVERY: &str = "/apis/proxy.kubectl-mc.dev/v1alpha1";

fn of_member(path: &str) -> Answer {
    match path {
        "version" => ok(&json!({"gitVersion": "v1.36.3"})),
        _ => ok(&json!({"items": []})),
    }
    .sent_by_member()
}

fn cluster(name: &str, credential: &str, reason: &str) -> Value {
    json!({"metadata": {"name": name}, "status": {"conditions": [
        {"type": "Ready", "status": "True", "reason": "Ready"},
        {"type": "Reachable", "status": "True", "reason": "Answers", "message": "it answers"},
        {"type": "CredentialValid", "status": credential, "reason": reason, "message": "a token, which expires soon"},
    ]}})
}

fn ok(body: &Value) -> Answer {
    answer(200, body)
}

fn answer(code: u16, body: &Value) -> Answer {
    Answer::from((code, "application/json", body.to_string()))
}

/// The output with every time as `N ms`.
fn lines(ran: &Ran) -> String {
    let mut words: Vec<_> = ran.out.split(' ').map(str::to_owned).collect();
    for at in 1..words.len() {
        if words[at].trim_end_matches([';', '\n']) == "ms"
            || words[at].starts_with("ms\n")
            || words[at].starts_with("ms;")
        {
            words[at - 1] = "N".to_owned();
        }
    }
    words.join(" ")
}

/// The exit code, and the first problem or warning with its fix.
fn finding(script: Script, arguments: &[&str]) -> (Option<i32>, String) {
    let bed = bed(script);
    let ran = bed.run(&[&["doctor"], arguments].concat());
    let found: Vec<_> = ran
        .out
        .lines()
        .skip_while(|line| !line.starts_with("  problem") && !line.starts_with("  warning"))
        .take(2)
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    (ran.code, found.join("\n"))
}

#[test]
fn missing_member_rights_are_a_warning() {
    let script: Script = |path| {
        let is_asked =
            path.contains("/clusters/m1/selfreviews/") && path.ends_with("/selfsubjectaccessreviews");
        is_asked.then(|| answer(201, &json!({"status": {"allowed": false}})).sent_by_member())
    };
    let (code, found) = finding(script, &["m1"]);
    assert_eq!(code, Some(0));
    assert_eq!(
        found,
        "warning rights RBAC of the member lets you list no pods, not even in namespace ns\n\
         fix: kubectl mc --context=host access explain -C m1 get pods -n ns"
    );
}

#[test]
fn healthy_fleet_takes_a_line_for_each_cluster() {
    let bed = bed(|_| None);
    let ran = bed.run(&["doctor"]);
    let version = concat!("v", env!("CARGO_PKG_VERSION"));
    let bin = bed.path("bin").display().to_string();
    assert_eq!(
        lines(&ran),
        format!(
            "This machine:\n  \
             ok       plugin         {version} {bin}/kubectl-mc\n  \
             ok       kubectl        v1.36.1 {bin}/kubectl\n  \
             skipped  completion     not installed\n                          \
             fix: kubectl mc completion install\n  \
             ok       configuration  no file, which is fine\n\
             Host \"host\" ({server}):\n  \
             ok       host     Kubernetes v1.36.3 in N ms\n  \
             ok       login    jane (dev, ops)\n  \
             ok       sidecar  {version} in N ms\n\
             m1: ok: a token, which expires soon; Kubernetes v1.36.3 in N ms; \
             streams not tried: no pod that you may list runs there\n\
             m2: ok: a token, which expires soon; Kubernetes v1.36.3 in N ms; \
             streams not tried: no pod that you may list runs there\n\
             2 clusters checked: 0 problems, 0 warnings\n",
            server = bed.server()
        ),
        "{ran:?}"
    );
    assert_eq!(ran.code, Some(0));
}

#[test]
fn each_fault_of_the_host_is_named_with_its_fix() {
    let refused: Script = |path| {
        (path == "/pre/version").then(|| answer(401, &json!({"kind": "Status", "message": "Unauthorized"})))
    };
    assert_eq!(
        finding(refused, &[]),
        (
            Some(1),
            "problem host host authentication: Unauthorized\nfix: log in to the host again, then try: kubectl --context=host auth whoami"
                .to_owned()
        )
    );
    let old: Script = |path| (path == "/pre/version").then(|| ok(&json!({"gitVersion": "v1.29.1"})));
    assert_eq!(
        finding(old, &[]),
        (
            Some(1),
            "problem host Kubernetes v1.29.1; the sidecar needs 1.30 or later\nfix: upgrade the host"
                .to_owned()
        )
    );
    let late: Script = |path| {
        (path == "/pre/version")
            .then(|| ok(&json!({"gitVersion": "v1.36.3"})).with("Date", "Sat, 21 Nov 2020 20:50:41 GMT"))
    };
    let (code, found) = finding(late, &[]);
    assert_eq!(code, Some(0));
    assert!(
        found.starts_with("warning clock this machine's clock is ") && found.contains("ahead of the host's"),
        "{found}"
    );
    let anonymous: Script = |path| {
        path.ends_with("/selfsubjectreviews")
            .then(|| answer(201, &json!({"status": {"userInfo": {"username": "system:anonymous"}}})))
    };
    let (code, found) = finding(anonymous, &[]);
    assert_eq!(code, Some(1));
    assert!(found.starts_with("problem login the host authenticates you as system:anonymous"), "{found}");
}

#[test]
fn each_fault_of_the_sidecar_is_named_with_its_fix() {
    let missing: Script = |path| {
        path.ends_with(DISCOVERY)
            .then(|| Answer::from((404, "text/plain", "404 page not found\n".to_owned())))
    };
    let (code, found) = finding(missing, &[]);
    assert_eq!(code, Some(1));
    assert!(
        found.contains("problem sidecar") && found.contains("kubectl mc --context=host install"),
        "{found}"
    );
    let unavailable: Script = |path| {
        path.ends_with(DISCOVERY)
            .then(|| Answer::from((503, "text/plain", "service unavailable\n".to_owned())))
    };
    let (code, found) = finding(unavailable, &[]);
    assert_eq!(code, Some(1));
    assert!(found.contains("service unavailable") && found.contains("get apiservice"), "{found}");
    let unknown: Script = |path| {
        path.contains("/openapi/v3/").then(|| answer(404, &json!({"kind": "Status", "message": "no"})))
    };
    let ran = bed(unknown).run(&["doctor", "m1"]);
    assert!(ran.code == Some(0) && ran.out.contains("; the host does not know its version yet\n"), "{ran:?}");
    let other: Script = |path| {
        path.contains("/openapi/v3/")
            .then(|| ok(&json!({"info": {"title": "kubectl-mc", "version": "v99.0.0"}})))
    };
    let (code, found) = finding(other, &[]);
    assert_eq!(code, Some(0));
    assert!(found.ends_with("fix: upgrade the plugin: kubectl krew upgrade mc"), "{found}");
    let registered: Script = |path| {
        path.contains("/apiservices/").then(|| {
            ok(&json!({"status": {"conditions": [
                {"type": "Available", "status": "False", "reason": "MissingEndpoints", "message": "none"},
            ]}}))
        })
    };
    let (code, found) = finding(registered, &[]);
    assert_eq!(code, Some(1));
    assert!(found.starts_with("problem registration") && found.contains("MissingEndpoints: none"), "{found}");
}

#[test]
fn each_fault_of_a_cluster_is_named_with_its_fix() {
    let expired: Script = |path| {
        path.contains("/clusters?").then(|| ok(&json!({"items": [cluster("m1", "False", "Expired")]})))
    };
    let (code, found) = finding(expired, &["m1"]);
    assert_eq!(code, Some(1));
    assert_eq!(
        found,
        "problem credential Expired: a token, which expires soon\nfix: kubectl mc --context=host join m1 --renew"
    );
    let unreachable: Script = |path| {
        path.ends_with("/m1/proxy/version").then(|| status(503, "member unreachable", "connection refused"))
    };
    let (code, found) = finding(unreachable, &["m1"]);
    assert_eq!(code, Some(1));
    assert!(found.starts_with("problem request member unreachable: connection refused\nfix: "), "{found}");
    let unknown: Script =
        |path| path.contains("/m9/").then(|| status(404, "cluster unknown", "no cluster m9 is registered"));
    let (code, found) = finding(unknown, &["m9"]);
    assert_eq!(code, Some(1));
    assert!(found.contains("cluster unknown") && found.contains("lists the clusters"), "{found}");
    let odd: Script = |path| {
        path.ends_with("/m1/proxy/version")
            .then(|| answer(200, &json!({"gitVersion": "v1.30.0"})).sent_by_member())
    };
    let (code, found) = finding(odd, &["m1"]);
    assert_eq!(code, Some(0));
    assert!(
        found.starts_with("warning kubectl kubectl 1.36 and Kubernetes v1.30.0 are more than one"),
        "{found}"
    );
}

#[test]
fn member_text_cannot_control_the_terminal() {
    let poison: Script = |path| {
        path.ends_with("/m1/proxy/version")
            .then(|| answer(200, &json!({"gitVersion": "v1.36.0\u{1b}[2J\nm2: ok"})).sent_by_member())
    };
    let ran = bed(poison).run(&["doctor", "m1"]);
    assert!(ran.out.contains("v1.36.0^[[2J\\nm2: ok") && !ran.out.contains('\u{1b}'), "{ran:?}");
}

#[test]
fn silent_cluster_times_out() {
    let bed = Bed::streaming(|path, stream| match path.ends_with("/m2/proxy/version") {
        true => stream.hold(),
        false => stream.answer(healthy(path)),
    });
    install(&bed, "v1.36.1");
    let ran = bed.run(&["doctor", "--cluster-timeout=1s"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.out.contains("m1: ok: "), "{ran:?}");
    // Findings from before the timeout are still printed.
    let found = "m2:\n  ok       credential  a token, which expires soon\n  problem  request     no answer within 1 s\n";
    assert!(ran.out.contains(found), "{ran:?}");
}

#[test]
fn endless_answer_is_a_problem() {
    let bed = Bed::streaming(|path, stream| match path.ends_with("/m2/proxy/version") {
        true => {
            stream.begin();
            let piece = " ".repeat(1024 * 1024);
            while stream.goes_on(&piece) {}
        }
        false => stream.answer(healthy(path)),
    });
    install(&bed, "v1.36.1");
    let ran = bed.run(&["doctor", "m2"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.out.contains("problem  request     the answer is larger than 4 MiB"), "{ran:?}");
}

#[test]
fn unreachable_host_does_not_skip_other_checks() {
    let bed = Bed::unreachable();
    install(&bed, "v1.36.1");
    let ran = bed.run(&["doctor"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.out.contains("ok       kubectl"), "{ran:?}");
    assert!(ran.out.contains("problem  host  cannot reach the host: "), "{ran:?}");
    assert!(ran.out.ends_with("0 clusters checked: 1 problem, 0 warnings\n"), "{ran:?}");
    let ran = bed.run(&["doctor", "--context=nowhere"]);
    assert!(ran.out.contains("problem  context  no host: context \"nowhere\" does not exist"), "{ran:?}");
    std::fs::remove_file(bed.path("bin/kubectl")).unwrap();
    let ran = bed.run_with("PATH", bed.path("bin"), &["doctor"]);
    assert!(ran.out.contains("problem  kubectl        no kubectl in PATH"), "{ran:?}");
}

#[test]
fn broken_configuration_hides_nothing_else() {
    let bed = bed(|_| None);
    std::fs::create_dir_all(bed.path("home/.config/kubectl-mc")).unwrap();
    std::fs::write(bed.path("home/.config/kubectl-mc/config.yaml"), "setz: {}\n").unwrap();
    let ran = bed.run(&["doctor", "m1"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.out.contains("problem  configuration") && ran.out.contains("m1: ok: "), "{ran:?}");
}

#[test]
fn wrong_flags_are_usage_errors() {
    let bed = bed(|_| None);
    for (words, expected) in [
        (&["m1", "--all-clusters"][..], "--all-clusters and --cluster contradict each other"),
        (&["--retry-failed"], "--retry-failed"),
        (&["--where=nonsense"], "--where"),
    ] {
        let ran = bed.run(&[&["doctor"], words].concat());
        let (code, text) = ran.failed();
        assert!(code == 2 && text.contains(expected), "{words:?}: {text}");
    }
    let ran = bed.run_with("KUBECTL_MC_ROUTE", "nowhere", &["doctor"]);
    assert_eq!(ran.failed().0, 2, "{ran:?}");
}

#[test]
fn json_output_has_every_check_and_its_fix() {
    let expired: Script = |path| {
        path.contains("/clusters?").then(|| ok(&json!({"items": [cluster("m1", "False", "Expired")]})))
    };
    let ran = bed(expired).run(&["doctor", "m1", "-o", "json"]);
    assert_eq!(ran.code, Some(1));
    let data: Value = serde_json::from_str(&ran.out).unwrap();
    let checks = data["checks"].as_array().unwrap();
    let found = |scope: &str, check: &str| {
        checks
            .iter()
            .find(|found| found["scope"] == scope && found["check"] == check)
            .unwrap_or_else(|| panic!("{data}"))
    };
    assert_eq!(found("machine", "kubectl")["result"], "ok");
    assert_eq!(found("host", "login")["message"], "jane (dev, ops)");
    assert_eq!(
        *found("cluster", "credential"),
        json!({
            "scope": "cluster", "name": "m1", "check": "credential", "result": "problem",
            "message": "Expired: a token, which expires soon", "fix": "kubectl mc --context=host join m1 --renew",
        })
    );
}
