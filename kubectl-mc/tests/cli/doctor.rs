//! Tests `kubectl mc doctor`: each fault that it detects, with the command that fixes the fault.

mod agents;
mod contexts;
mod host;
mod hubs;
mod machine;
mod member;
mod sidecar;

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
    if path.starts_with(FLEET) {
        return answer(400, &json!({"kind": "Status", "message": "invalid cluster name \"*\""}));
    }
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

const FLEET: &str = "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/*/proxy/version";
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

/// A Status with this message.
fn refusal(message: &str) -> Value {
    json!({"kind": "Status", "message": message})
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
    let ran = bed(script).run(&[&["doctor"], arguments].concat());
    (ran.code, first(&ran))
}

/// The first problem or warning with its fix.
fn first(ran: &Ran) -> String {
    let is_found = |line: &&str| line.starts_with("  problem") || line.starts_with("  warning");
    let from = ran.out.lines().skip_while(|line| !is_found(line));
    let lines = from.take(2).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.collect::<Vec<_>>().join("\n")
}

/// Runs doctor with flags that the commands of a fix must repeat. Returns the first problem or warning with
/// its fix, where `FLAGS` are these flags, and checks that the plugin knows the commands of the fix.
fn diagnosed(bed: &Bed, arguments: &[&str]) -> String {
    let file = format!("--kubeconfig={}", bed.path("kubeconfig").display());
    let ran = bed.run(&[&["doctor", "--context=host", &*file], arguments].concat());
    let found = first(&ran);
    assert_eq!(ran.code, Some(i32::from(found.starts_with("problem"))), "{ran:?}");
    for command in found.split("kubectl mc ").skip(1) {
        let command = command.split(['`', ';', ')']).next().unwrap().split(", ").next().unwrap();
        let command = command.replace("DURATION", "1s").replace("TYPE", "none").replace('\'', "");
        let words: Vec<_> = command.split_whitespace().collect();
        let ran = bed.run(&words);
        assert!(!ran.err.contains("try '--help'"), "{found}: {ran:?}");
    }
    let found = found.replace(&format!("--context=host {file}"), "FLAGS").replace(&file, "FILE");
    let found = without_time(&found);
    found.replace(bed.server(), "SERVER").replace(concat!("v", env!("CARGO_PKG_VERSION")), "VERSION")
}

/// The text without the time of a response, ` in 3 ms`, which differs on a busy machine.
fn without_time(text: &str) -> String {
    let mut pieces = text.split(" in ");
    let mut kept = pieces.next().unwrap().to_owned();
    for piece in pieces {
        match piece.trim_start_matches(|letter: char| letter.is_ascii_digit()).strip_prefix(" ms") {
            Some(after) => kept.push_str(after),
            None => kept.extend([" in ", piece]),
        }
    }
    kept
}

/// Checks the first problem or warning of each of these hosts, and its fix.
fn check(rows: &[(Script, &[&str], &str)]) {
    for (script, arguments, expected) in rows {
        assert_eq!(diagnosed(&bed(*script), arguments), *expected);
    }
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
             ok       sidecar  {version} in N ms\n  \
             skipped  fleet    the host does not serve its members as one cluster\n\
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
fn fleet_view_of_the_host_is_reported() {
    let served: Script = |path| path.contains("/clusters/*/").then(|| ok(&json!({"gitVersion": "v1.36.3"})));
    let ran = bed(served).run(&["doctor"]);
    assert!(ran.out.contains("  ok       fleet    serves its members as one cluster\n"), "{ran:?}");
    let forbidden: Script = |path| path.contains("/clusters/*/").then(|| answer(403, &refusal("no")));
    let ran = bed(forbidden).run(&["doctor"]);
    assert!(!ran.out.contains("fleet"), "{ran:?}");
    let broken: Script =
        |path| path.contains("/clusters/*/").then(|| answer(503, &refusal("no member answers")));
    let (code, found) = finding(broken, &[]);
    assert_eq!(code, Some(0));
    assert!(found.starts_with("warning fleet 503: no member answers\nfix: see: kubectl "), "{found}");
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
