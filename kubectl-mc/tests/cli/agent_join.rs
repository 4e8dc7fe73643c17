//! Tests `kubectl mc join --agent` where no cluster is needed: mutually exclusive flags, and the
//! printed commands for two administrators.

use std::fs;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::bed::{Bed, Ran};
use crate::tls_server::{Authority, TlsServer};

/// A host that does not answer, and a member on a loopback address.
pub(super) fn bed() -> Bed {
    let bed = Bed::unreachable();
    let kubeconfig = r#"{"current-context": "host",
        "clusters": [{"name": "h", "cluster": {"server": "https://host.invalid:6443", "certificate-authority-data": "UEVN"}},
                     {"name": "local", "cluster": {"server": "https://127.0.0.1:6443", "certificate-authority-data": "UEVN"}}],
        "contexts": [{"name": "host", "context": {"cluster": "h", "user": "u"}},
                     {"name": "local", "context": {"cluster": "local", "user": "u"}},
                     {"name": "m1", "context": {"cluster": "local", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": "secret"}}]}"#;
    fs::write(bed.path("kubeconfig"), kubeconfig).unwrap();
    bed
}

pub(super) fn join(bed: &Bed, flags: &[&str]) -> Ran {
    bed.run(&[&["join", "m1", "--member-context=m1"], flags].concat())
}

#[test]
fn connection_flags_are_refused_with_an_agent_or_a_renewal() {
    let bed = bed();
    for flag in [
        "--server=https://m1.example",
        "--certificate-authority=ca.crt",
        "--proxy-url=http://proxy.example",
        "--proxy-certificate-authority=ca.crt",
        "--proxy-client-certificate=proxy.crt",
        "--proxy-client-key=proxy.key",
        "--tls-server-name=m1",
        "--insecure-skip-tls-verify",
    ] {
        let ran = join(&bed, &["--agent", flag]);
        let (code, error) = ran.failed();
        let name = flag.split('=').next().unwrap();
        assert_eq!(code, 2, "{error}");
        assert!(error.contains(&format!("'--agent' cannot be used with '{name}")), "{error}");
        for renewal in [&["join", "m1", "--renew", flag][..], &["join", "--all-expired", flag]] {
            let ran = bed.run(renewal);
            let (code, error) = ran.failed();
            assert_eq!(code, 2, "{error}");
            assert!(error.contains("cannot be used with") && error.contains(name), "{renewal:?}: {error}");
        }
    }
}

#[test]
fn flags_of_an_agent_need_the_agent() {
    let bed = bed();
    fs::write(bed.path("file"), "").unwrap();
    for flag in [
        "--agent-image=i",
        "--agent-values=file",
        "--agent-server=https://h",
        "--agent-server-ca=file",
        "--agent-trust-system-roots",
        "--agent-tls-server-name=h",
        "--agent-proxy=http://p",
        "--agent-token=forever",
    ] {
        let ran = join(&bed, &[flag]);
        let (code, error) = ran.failed();
        assert!(code == 2 && error.contains("--agent\n"), "{flag}: {error}");
        if !RENEWED.contains(&flag) {
            let ran = join(&bed, &["--agent", "--renew", flag]);
            let (code, error) = ran.failed();
            assert!(code == 2 && error.contains("'--renew' cannot be used with"), "{flag}: {error}");
        }
    }
}

/// The effect of `--renew` on an agent.
const RENEWED: [&str; 3] = ["--agent-token=forever", "--agent-server-ca=file", "--agent-trust-system-roots"];

#[test]
fn agent_without_an_image_or_a_host_is_refused() {
    let bed = bed();
    let said = |flags: &[&str]| join(&bed, &[&["--agent", "--print"], flags].concat()).failed().1.to_owned();
    let no_image = said(&[]);
    assert!(no_image.contains("hint: set it by --agent-image=IMAGE"), "{no_image}");
    let local = said(&["--context=local", "--agent-image=i"]);
    assert!(local.contains("the host's server https://127.0.0.1:6443 is a loopback address"), "{local}");
    assert!(local.contains("--agent-server=https://"), "{local}");
    let values = said(&["--agent-values=missing.yaml"]);
    assert!(values.contains("cannot read the agent's values of missing.yaml"), "{values}");
    fs::write(bed.path("values.yaml"), "securePort: 1\n").unwrap();
    let wrong = said(&["--agent-values=values.yaml"]);
    assert!(wrong.contains("securePort"), "{wrong}");
}

/// The printed commands, without the manifests between them.
fn commands(text: &str) -> String {
    let mut inside = false;
    let mut kept = String::new();
    for line in text.lines() {
        if inside && line != "EOF" {
            continue;
        }
        inside = line.contains("<<") && !inside;
        kept.push_str(line);
        kept.push('\n');
    }
    kept
}

#[test]
fn printed_text_of_a_kubeconfig_runs_no_command() {
    let bed = bed();
    let text = bed.read("kubeconfig").replace(
        r#""name": "local", "cluster": {"#,
        r#""name": "local", "cluster": {"tls-server-name": "$(touch run)`touch run`\\", "#,
    );
    fs::write(bed.path("kubeconfig"), text).unwrap();
    let ran = join(&bed, &["--print", "--server=https://m1.example", "--labels=env=$(touch run)"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("  env: \\$(touch run)\n"), "{}", ran.out);
    assert_eq!(
        ran.out.matches("  tls-server-name: \\$(touch run)\\`touch run\\`\\\\\n").count(),
        2,
        "{}",
        ran.out
    );
    assert_eq!(ran.out.matches("  token: $").count(), 2, "{}", ran.out);
}

#[test]
fn printed_commands_start_the_agent_last() {
    let bed = bed();
    let ran = join(
        &bed,
        &["--agent", "--print", "--agent-image=i", "--labels=env=edge", "--agent-proxy=http://u:$p@x"],
    );
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_snapshot!(commands(&ran.out), @r##"
    # On the member, as its administrator. Before Kubernetes 1.30, leave out what has ValidatingAdmissionPolicy in its name.
    CHOSEN=$(kubectl --context=m1 -n kubectl-mc-system get configmap kubectl-mc-manager --ignore-not-found -o jsonpath='{.data.users}{.data.refused-users}{.data.refused-groups}{.data.refused-namespaces}{.data.bindable-roles}' || echo unknown
      kubectl --context=m1 get validatingadmissionpolicy kubectl-mc-manager --ignore-not-found -o jsonpath='{.spec.variables[?(@.name=="anyUser")].expression}{.spec.variables[?(@.name=="refusedUsers")].expression}{.spec.variables[?(@.name=="refusedGroups")].expression}{.spec.variables[?(@.name=="refusedNamespaces")].expression}' 2>/dev/null || true)
    case $CHOSEN in '' | Listed | 'false[][][]' | 'Listedfalse[][][]')
    kubectl --context=m1 apply --server-side --field-manager=kubectl-mc -f - <<'EOF'
    EOF
    kubectl --context=m1 delete clusterrolebindings -l fleet.kubectl-mc.dev/access=true
    kubectl --context=m1 delete rolebindings --all-namespaces -l fleet.kubectl-mc.dev/access=true
    AUDIENCES=$(kubectl --context=m1 -n kubectl-mc-system create token kubectl-mc-manager -o jsonpath='{.spec.audiences}' | tr '"' "'")
    kubectl --context=m1 patch validatingadmissionpolicy kubectl-mc-manager-tokens --type=json --field-manager=kubectl-mc \
      -p "[{\"op\":\"replace\",\"path\":\"/spec/variables/0/expression\",\"value\":\"$AUDIENCES\"}]"
    export MEMBER_UID=$(kubectl --context=m1 get namespace kube-system -o jsonpath='{.metadata.uid}')
    export MEMBER_CA=$(kubectl --context=m1 -n kube-system get configmap kube-root-ca.crt -o jsonpath='{.data.ca\.crt}' | base64 | tr -d '\n')
    export IMPERSONATOR_TOKEN=$(kubectl --context=m1 -n kubectl-mc-system create token kubectl-mc-impersonator --duration=2592000s)
    export MANAGER_TOKEN=$(kubectl --context=m1 -n kubectl-mc-system create token kubectl-mc-manager --duration=3888000s)
    ;;
    *) unset MEMBER_UID; echo 'error: m1 refuses names or lists bindable roles, and these commands would reset ConfigMap and ValidatingAdmissionPolicy kubectl-mc-manager: nothing is changed. With access to both clusters, a join keeps them: kubectl mc join m1 --member-context=NAME' >&2;;
    esac
    # If another person administers the host, hand over the lines below as credentials:
    #   export -p | grep -E '(MEMBER_UID|MEMBER_CA|IMPERSONATOR_TOKEN|MANAGER_TOKEN)='

    # On the host, as its administrator, in a shell that has those variables.
    kubectl --context=host apply --server-side --field-manager=kubectl-mc -f - <<EOF
    EOF
    export AGENT_TOKEN=$(kubectl --context=host -n kubectl-mc-agents create token m1 --duration=2592000s)
    # If another person administers the member, hand over the lines below as a credential:
    #   export -p | grep AGENT_TOKEN=

    # On the member again, in a shell that has AGENT_TOKEN: the agent, which makes m1 ready.
    kubectl --context=m1 apply --server-side --field-manager=kubectl-mc -f - <<'EOF'
    EOF
    kubectl --context=m1 apply --server-side --field-manager=kubectl-mc -f - --force-conflicts <<EOF
    EOF
    kubectl --context=m1 apply --server-side --field-manager=kubectl-mc -f - <<'EOF'
    EOF

    # On the host again.
    kubectl --context=host wait membercluster/m1 --for=condition=Ready --timeout=120s
    "##);
    let secret = "stringData:\n  ca.crt: PEM\n  proxy-url: http://u:\\$p@x\n  server: https://host.invalid:6443\n  token: ${AGENT_TOKEN:?}\n";
    assert!(ran.out.contains(secret), "{}", ran.out);
    assert!(ran.out.contains("data:\n  ca.crt: ${MEMBER_CA:?}\n"), "{}", ran.out);
    assert!(ran.out.contains("  server: https://kubernetes.default.svc\n"), "{}", ran.out);
    assert_eq!(ran.out.matches("  via: agent\n").count(), 2, "{}", ran.out);
    for text in ["- --cluster=m1\n", "image: i\n", "name: m1\n  namespace: kubectl-mc-agents\n"] {
        assert!(ran.out.contains(text), "{text:?}: {}", ran.out);
    }
}

/// Runs the printed commands with a kubectl whose member has these choices; returns the sides written.
fn written_sides(script: &str, listed: &str, written: &str) -> Vec<String> {
    let kubectl = r#"kubectl() { case "$*" in
        *"get configmap kubectl-mc-manager"*) printf %s "$LISTED";;
        *"get validatingadmissionpolicy kubectl-mc-manager"*) printf %s "$WRITTEN";;
        *" apply "*) cat >/dev/null; echo "applied $1";;
        *) echo value;;
        esac; }"#;
    let ran = std::process::Command::new("sh")
        .args(["-c", &format!("{kubectl}\n{script}")])
        .envs([("LISTED", listed), ("WRITTEN", written)])
        .envs(["MEMBER_UID", "IMPERSONATOR_TOKEN", "MANAGER_TOKEN"].map(|name| (name, "of another member")))
        .output()
        .unwrap();
    let error = String::from_utf8(ran.stderr).unwrap();
    assert!(error.is_empty() || error.contains("error: m1 refuses names or lists bindable roles"), "{error}");
    let out = String::from_utf8(ran.stdout).unwrap();
    out.lines().filter_map(|line| line.strip_prefix("applied --context=")).map(str::to_owned).collect()
}

#[test]
fn printed_commands_reset_no_refusals() {
    let bed = bed();
    let printed = |flags: &[&str]| join(&bed, &[&["--print", "--server=https://m1"], flags].concat()).out;
    let (plain, with_roles) = (printed(&[]), printed(&["--bindable-roles=view"]));
    for (listed, written) in [("", ""), ("Listed", ""), ("Listed", "false[][][]"), ("", "false[][][]")] {
        assert_eq!(written_sides(&plain, listed, written), ["m1", "host"], "{listed}, {written}");
    }
    for (listed, written) in [("Listedroot\n", "false[][][]"), ("Any", ""), ("Listed", "false['root'][][]")] {
        for script in [&plain, &with_roles] {
            assert!(written_sides(script, listed, written).is_empty(), "{listed}, {written}");
        }
    }
    assert!(plain.contains("{.data.bindable-roles}") && !with_roles.contains("{.data.bindable-roles}"));
}

#[test]
fn printed_token_without_expiry_comes_from_a_secret() {
    let bed = bed();
    let ran = join(&bed, &["--agent", "--print", "--agent-image=i", "--agent-token=forever"]);
    assert!(ran.out.contains("type: kubernetes.io/service-account-token\n"), "{}", ran.out);
    assert!(ran.out.contains("get secret m1 -o jsonpath='{.data.token}' | base64 -d)\n"), "{}", ran.out);
    assert!(!ran.out.contains("create token m1"), "{}", ran.out);
    let ran = join(&bed, &["--agent", "--print", "--agent-image=i", "--agent-token=24h"]);
    assert!(ran.out.contains("create token m1 --duration=86400s)\n"), "{}", ran.out);
}

#[test]
fn enrollment_refuses_flags_that_need_the_member() {
    let bed = bed();
    for (flags, refused, hint) in [
        (&["--member-context=m1"][..], "--member-context", "leave out --enroll"),
        (&["--member-kubeconfig=kubeconfig"], "--member-kubeconfig", "leave out --enroll"),
        (&["--print"], "--print", "leave it out for the commands of two administrators"),
        (&["--renew"], "--renew", "running the command again opens the enrollment again"),
    ] {
        let ran = bed.run(&[&["join", "m1", "--agent", "--enroll"], flags].concat());
        let (code, error) = ran.failed();
        assert_eq!(code, 2, "{error}");
        assert!(error.contains("--enroll cannot be used with") && error.contains(refused), "{error}");
        assert!(error.contains("hint: ") && error.contains(hint), "{error}");
    }
}

#[test]
fn enrollment_needs_an_agent_and_lasts_an_hour_at_most() {
    let bed = bed();
    let failed = |flags: &[&str]| {
        let ran = bed.run(&[&["join", "m1"], flags].concat());
        let (code, error) = ran.failed();
        assert_eq!(code, 2, "{error}");
        error.to_owned()
    };
    assert!(failed(&["--enroll"]).contains("--agent\n"));
    assert!(failed(&["--agent", "--member-context=m1", "--enroll-for=5m"]).contains("--enroll\n"));
    for long in ["61m", "2h", "0s", "x"] {
        let error = failed(&["--agent", "--enroll", &format!("--enroll-for={long}")]);
        assert!(error.contains("--enroll-for"), "{error}");
    }
    let local = failed(&["--context=local", "--agent", "--enroll", "--agent-values=missing.yaml"]);
    assert!(local.contains("cannot read the agent's values of missing.yaml"), "{local}");
}

/// A host that grants every right, where `found` has the objects of some paths, and every other object is
/// empty.
fn host_with(found: impl Fn(&str) -> Option<Value> + Send + 'static) -> Bed {
    Bed::serving(move |path| {
        let path = path.strip_prefix("/pre").unwrap_or(path);
        let allowed = || match path.ends_with("/selfsubjectaccessreviews") {
            true => json!({"status": {"allowed": true}}),
            false => json!({}),
        };
        match found(path).unwrap_or_else(allowed) {
            Value::Null => (404, "application/json", r#"{"kind": "Status", "code": 404}"#.to_owned()),
            object => (200, "application/json", object.to_string()),
        }
    })
}

#[test]
fn enrollment_refuses_the_name_of_another_hubs_member() {
    let bed = host_with(|path| {
        let labels = json!({"fleet.kubectl-mc.dev/inventory": "karmada"});
        path.ends_with("/memberclusters")
            .then(|| json!({"items": [{"metadata": {"name": "m1", "labels": labels}}]}))
    });
    let ran = bed.run(&[
        "join",
        "m1",
        "--agent",
        "--enroll",
        "--agent-image=i",
        "--agent-server=https://h.example",
        SYSTEM_ROOTS,
    ]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{ran:?}");
    assert!(ran.err.contains("error: cannot join: the name m1 is taken: Karmada registers it\n"), "{ran:?}");
    assert!(ran.err.contains("take it out of Karmada first: karmadactl unjoin\n"), "{ran:?}");
    let writes = bed.requests().into_iter().filter(|head| head.starts_with("PATCH ")).count();
    assert_eq!(writes, 0, "something was written");
}

/// The Secret already has the address, but the agent is still there.
#[test]
fn agent_of_an_interrupted_change_is_noticed() {
    let authority = Authority::new();
    let member = TlsServer::new(&authority, |_| (200, "{}".to_owned()));
    for (is_left, account) in [(true, json!({})), (false, Value::Null)] {
        let bed = host_with(move |path| {
            path.contains("/kubectl-mc-agents/serviceaccounts/m1").then(|| account.clone())
        });
        let kubeconfig = json!({
            "current-context": "m",
            "clusters": [{"name": "m", "cluster": {"server": member.url, "certificate-authority": "ca.crt"}}],
            "contexts": [{"name": "m", "context": {"cluster": "m", "user": "u"}}],
            "users": [{"name": "u", "user": {"token": "secret"}}],
        });
        fs::write(bed.path("member"), kubeconfig.to_string()).unwrap();
        fs::write(bed.path("ca.crt"), authority.pem()).unwrap();
        let ran = bed.run(&["join", "m1", "--member-kubeconfig=member"]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        let text = "m1 is joined through an agent, which this command would remove";
        assert_eq!(ran.err.contains(text), is_left, "{ran:?}");
    }
}

/// The kubeconfig of the fake host has no CA.
const SYSTEM_ROOTS: &str = "--agent-trust-system-roots";

/// A host that enrolls m1.
pub(super) fn enrolling() -> Bed {
    host_with(|path| match path {
        path if path.ends_with("/selfsubjectaccessreviews") => None,
        path if path.ends_with("/token") => Some(json!({"status": {"token": "the-token"}})),
        path if path.ends_with("/memberclusters") => Some(json!({"items": []})),
        path if path.contains("/kubectl-mc-agents/secrets/") => Some(Value::Null),
        _ => Some(json!({"metadata": {"name": "m1", "resourceVersion": "1", "uid": "u"}})),
    })
}

#[test]
fn enrollment_warns_that_the_manifest_resets_refusals() {
    let bed = enrolling();
    let flags = ["--agent", "--enroll", "--agent-image=i", "--agent-server=https://h.example", SYSTEM_ROOTS];
    let ran = bed.run(&[&["join", "m1"], &flags[..]].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let text = "the manifest resets the refused names and the bindable roles in ConfigMap and ValidatingAdmissionPolicy";
    assert!(ran.err.contains(text), "{ran:?}");
}

#[test]
fn enrollment_without_the_host_prints_no_manifest() {
    let bed = bed();
    // The authority in the kubeconfig is not a certificate.
    let kubeconfig = bed.read("kubeconfig").replace(r#", "certificate-authority-data": "UEVN""#, "");
    fs::write(bed.path("kubeconfig"), kubeconfig).unwrap();
    let ran = bed.run(&["join", "m1", "--agent", "--enroll", "--agent-image=i"]);
    let (code, error) = ran.failed();
    assert!(code != 0 && error.contains("cannot reach the host"), "{error}");
    assert_eq!(ran.out, "");
}

#[test]
fn failed_enrollment_names_what_it_applied() {
    // The patch of the MemberCluster.
    let bed = host_with(|path| path.contains("/memberclusters/m1?").then_some(Value::Null));
    let words = ["join", "m1", "--agent", "--enroll", "--agent-image=i", "--agent-server=https://h.example"];
    let ran = bed.run(&[&words[..], &[SYSTEM_ROOTS]].concat());
    let (code, text) = ran.failed();
    assert_eq!(code, 1, "{text}");
    let (applied, error) = text.split_once("error: ").unwrap();
    assert!(
        applied.contains("host: serviceaccount/m1 unchanged\nhost: secret/m1.manager unchanged\n"),
        "{text}"
    );
    assert!(error.contains("refused to apply membercluster.fleet.kubectl-mc.dev/m1"), "{text}");
}
