use kubectl_mc_api::names::MEMBER_UID;
use serde_json::json;

use super::super::proxy_tls::ProxyTls;
use super::*;

const LIFE: Duration = Duration::from_secs(3600);

fn host() -> HostSurvey {
    HostSurvey { uid: "host-uid".to_owned(), ..HostSurvey::default() }
}

fn member() -> MemberSurvey {
    MemberSurvey {
        uid: "member-uid".to_owned(),
        version: "v1.36.3".to_owned(),
        validates: true,
        token_request: true,
        ..MemberSurvey::default()
    }
}

fn endpoint(server: &str) -> Endpoint {
    Endpoint {
        server: server.to_owned(),
        ca: None,
        tls_server_name: None,
        insecure: false,
        proxy_url: None,
        proxy_tls: ProxyTls::default(),
        via_agent: false,
        is_given: false,
    }
}

fn registered(name: &str, uid: Option<&str>) -> Value {
    json!({"metadata": {"name": name, "annotations": uid.map(|uid| json!({MEMBER_UID: uid}))}})
}

fn joined_to(host: &str, name: &str) -> Option<Value> {
    Some(json!({"metadata": {"annotations": {HOST_UID: host, CLUSTER: name}}}))
}

fn findings(host: &HostSurvey, member: &MemberSurvey, endpoint: &Endpoint) -> Vec<Finding> {
    let cluster = "m1".parse().unwrap();
    let names = Names {
        cluster: &cluster,
        host_kubectl: "kubectl --context=h",
        member_kubectl: "kubectl --context=kind-m1",
        member_context: Some("kind-m1"),
    };
    check(&names, host, member, endpoint, LIFE)
}

/// The refusals, with their hints.
fn refusals(host: &HostSurvey, member: &MemberSurvey) -> Vec<String> {
    let findings = findings(host, member, &endpoint("https://m1.example:6443"));
    findings
        .into_iter()
        .filter_map(|finding| match finding {
            Finding::Refused(what, hint) => Some(format!("{what}: {hint}")),
            Finding::Fine(_) | Finding::Warning(_) => None,
        })
        .collect()
}

fn refused(host: &HostSurvey, member: &MemberSurvey, words: &[&str]) {
    let refusals = refusals(host, member);
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    for word in words {
        assert!(refusals[0].contains(word), "{word:?} is not in {refusals:?}");
    }
}

#[test]
fn new_cluster_with_a_free_name_is_accepted() {
    let other = registered("m2", Some("other-uid"));
    assert_eq!(refusals(&HostSurvey { registered: vec![other], ..host() }, &member()), Vec::<String>::new());
}

#[test]
fn join_without_a_sidecar_is_refused() {
    refused(
        &HostSurvey { sidecar: Sidecar::Missing, ..host() },
        &member(),
        &["not installed", "kubectl mc install"],
    );
    let down = Sidecar::Unavailable("no endpoints".to_owned());
    refused(&HostSurvey { sidecar: down, ..host() }, &member(), &["no endpoints", "get apiservice"]);
}

#[test]
fn rejoin_continues_and_a_taken_name_is_refused() {
    let at = |uid| HostSurvey { registered: vec![registered("m1", uid)], ..host() };
    assert_eq!(refusals(&at(Some("member-uid")), &member()), Vec::<String>::new());
    refused(&at(Some("other-uid")), &member(), &["the name m1 is taken", "another cluster"]);
    refused(&at(None), &member(), &["the name m1 is taken", "by hand"]);
    let mut of_karmada = at(None);
    of_karmada.registered[0]["metadata"]["labels"][names::INVENTORY] = "karmada".into();
    refused(&of_karmada, &member(), &["the name m1 is taken: Karmada registers it", "karmadactl unjoin"]);
    let by_hand = MemberSurvey { has_account: true, ..member() };
    refused(&at(Some("other-uid")), &by_hand, &["the name m1 is taken", "another cluster"]);
    // The earlier caller could not read this uid, but the member has the annotation.
    let noted = MemberSurvey { namespace: joined_to("host-uid", "m1"), ..member() };
    assert_eq!(refusals(&at(None), &noted), Vec::<String>::new());
    refused(&of_karmada, &noted, &["the name m1 is taken: Karmada registers it"]);
}

/// The member was unjoined by force, another cluster has joined with its name, and the member comes back.
#[test]
fn annotation_does_not_free_the_name_of_another_cluster() {
    let noted = MemberSurvey { namespace: joined_to("host-uid", "m1"), has_account: true, ..member() };
    let at = |name, uid| HostSurvey { registered: vec![registered(name, Some(uid))], ..host() };
    refused(&at("m1", "other-uid"), &noted, &["the name m1 is taken: another cluster has it"]);
    assert_eq!(refusals(&at("m1", "member-uid"), &noted), Vec::<String>::new());
    // Its own former name does not prevent a new one.
    let renamed = MemberSurvey { namespace: joined_to("host-uid", "m0"), ..noted };
    assert_eq!(refusals(&at("m0", "other-uid"), &renamed), Vec::<String>::new());
}

#[test]
fn second_name_for_a_cluster_is_refused() {
    let by_uid = HostSurvey { registered: vec![registered("m0", Some("member-uid"))], ..host() };
    refused(&by_uid, &member(), &["joined already, as m0", "unjoin m0"]);
    let noted = MemberSurvey { namespace: joined_to("host-uid", "m0"), ..member() };
    let by_note = HostSurvey { registered: vec![registered("m0", None)], ..host() };
    refused(&by_note, &noted, &["joined already, as m0"]);
    // Without the registration, the annotation is ignored.
    assert_eq!(refusals(&host(), &noted), Vec::<String>::new());
}

#[test]
fn second_host_and_the_host_itself_are_refused() {
    let noted = MemberSurvey { namespace: joined_to("other-host", "x"), ..member() };
    let take_over = "annotate namespace kubectl-mc-system fleet.kubectl-mc.dev/host=host-uid --overwrite";
    refused(&host(), &noted, &["another host already, as x", "unjoin x", take_over]);
    refused(&host(), &MemberSurvey { uid: "host-uid".to_owned(), ..member() }, &["the host itself"]);
}

#[test]
fn manually_created_accounts_are_not_taken_over() {
    let by_hand = MemberSurvey { has_account: true, ..member() };
    let take_over = "annotate namespace kubectl-mc-system fleet.kubectl-mc.dev/host=host-uid --overwrite";
    refused(&host(), &by_hand, &["another host may use the cluster", take_over]);
    // It is accepted after that command, and if this host has joined the member.
    let marked = MemberSurvey {
        namespace: Some(json!({"metadata": {"annotations": {HOST_UID: "host-uid"}}})),
        ..by_hand.clone()
    };
    assert_eq!(refusals(&host(), &marked), Vec::<String>::new());
    let joined = HostSurvey { registered: vec![registered("m1", Some("member-uid"))], ..host() };
    assert_eq!(refusals(&joined, &by_hand), Vec::<String>::new());
}

#[test]
fn every_missing_right_is_named() {
    let missing = vec!["create secrets in kubectl-mc-system".to_owned(), "patch secrets".to_owned()];
    let host = HostSurvey { missing, ..host() };
    refused(
        &host,
        &member(),
        &["on the host: create secrets in kubectl-mc-system; patch secrets", "--print"],
    );
}

#[test]
fn local_address_is_refused_with_a_suggestion() {
    let hint = |member: &MemberSurvey| {
        let findings = findings(&host(), member, &endpoint("https://127.0.0.1:34567"));
        let found = findings.into_iter().find_map(|finding| match finding {
            Finding::Refused(what, hint) => {
                assert!(what.contains("loopback"), "{what}");
                Some(hint.to_string())
            }
            Finding::Fine(_) | Finding::Warning(_) => None,
        });
        found.unwrap()
    };
    assert!(hint(&member()).ends_with("--server=https://m1-control-plane:6443"));
    let own = MemberSurvey { own_server: Some("https://10.1.2.3:6443".to_owned()), ..member() };
    assert!(hint(&own).ends_with("--server=https://10.1.2.3:6443"));
    let local = MemberSurvey { own_server: Some("https://127.0.0.1:1".to_owned()), ..member() };
    assert!(hint(&local).ends_with("--server=https://m1-control-plane:6443"));
}

#[test]
fn clock_skew_over_a_third_of_token_lifetime_is_refused() {
    let at = |seconds: i64| Some(jiff::Timestamp::from_second(1_000_000 + seconds).unwrap());
    let host = HostSurvey { clock: at(0), ..host() };
    let off = |seconds| MemberSurvey { clock: at(seconds), ..member() };
    refused(&host, &off(-1200), &["1200 s apart"]);
    assert_eq!(refusals(&host, &off(1199)), Vec::<String>::new());
    let warned = |seconds| {
        let findings = findings(&host, &off(seconds), &endpoint("https://m"));
        findings.iter().any(|finding| matches!(finding, Finding::Warning(_)))
    };
    assert!(warned(31));
    assert!(!warned(30));
}

#[test]
fn member_before_the_minimum_is_refused() {
    let version = |version: &str| MemberSurvey { validates: false, version: version.to_owned(), ..member() };
    refused(
        &host(),
        &version("v1.21.14"),
        &["the member is Kubernetes v1.21.14", "Kubernetes 1.22 or later"],
    );
    assert_eq!(refusals(&host(), &version("v1.22.0")), Vec::<String>::new());
    assert_eq!(refusals(&host(), &version("of an unknown version")), Vec::<String>::new());
}

/// The warnings about this member.
fn warnings(member: &MemberSurvey) -> Vec<String> {
    let warning = |finding| match finding {
        Finding::Warning(text) => Some(text),
        Finding::Fine(_) | Finding::Refused(..) => None,
    };
    findings(&host(), member, &endpoint("https://m")).into_iter().filter_map(warning).collect()
}

#[test]
fn member_before_the_tested_versions_warns() {
    let warned = |version: &str| warnings(&MemberSurvey { version: version.to_owned(), ..member() });
    for old in ["v1.22.0", "v1.29.14-gke.7"] {
        let text = "members before Kubernetes 1.30 are neither tested nor supported";
        assert_eq!(warned(old), [format!("the member is Kubernetes {old}; {text}")]);
    }
    for supported in ["v1.30.0", "v1.30.0-rc.1", "v1.36.3", "of an unknown version"] {
        assert_eq!(warned(supported), Vec::<String>::new());
    }
}

#[test]
fn member_without_policies_warns_and_without_tokens_fails() {
    let warnings = warnings(&MemberSurvey { validates: false, ..member() });
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].contains("Kubernetes v1.36.3 and serves no ValidatingAdmissionPolicy"),
        "{warnings:?}"
    );
    refused(&host(), &MemberSurvey { token_request: false, ..member() }, &["TokenRequest"]);
}

#[test]
fn agent_is_removed_only_for_a_given_address() {
    let cluster = "m1".parse().unwrap();
    let direct = endpoint("https://m1.example:6443");
    let Some(Finding::Refused(what, hint)) = agent_is_kept(&cluster, true, &direct) else {
        panic!("not refused")
    };
    assert_eq!(what, "m1 is joined through an agent, which this command would remove");
    let hint = hint.to_string();
    assert!(hint.contains("add --agent to keep it") && hint.contains("--server=URL"), "{hint}");
    assert_eq!(agent_is_kept(&cluster, true, &Endpoint { is_given: true, ..direct.clone() }), None);
    assert_eq!(agent_is_kept(&cluster, false, &direct), None);
}
