use http::StatusCode;

use super::*;

fn refusal(status: u16, body: &str) -> Option<(Hop, String)> {
    let reply = Reply { status: StatusCode::from_u16(status).unwrap(), body: body.as_bytes().to_vec() };
    Refusal::of(&reply).map(|refusal| (refusal.hop, refusal.message))
}

fn status(message: &str, hop: Option<&str>) -> String {
    let causes: Vec<_> = hop.iter().map(|hop| serde_json::json!({"reason": "Hop", "message": hop})).collect();
    serde_json::json!({"kind": "Status", "message": message, "details": {"causes": causes}}).to_string()
}

#[test]
fn every_hop_that_the_sidecar_names_is_known_in_both_forms() {
    for name in [
        "host authentication",
        "host authorization",
        "cluster unknown",
        "proxy off",
        "member unreachable",
        "member authentication",
        "member impersonation",
        "member authorization",
    ] {
        let (hop, message) = refusal(502, &format!("{name}: because: of\n")).unwrap();
        assert_eq!((hop.name(), message.as_str()), (name, "because: of"));
        let (hop, message) = refusal(403, &status("because", Some(name))).unwrap();
        assert_eq!((hop.name(), message.as_str()), (name, "because"));
    }
}

#[test]
fn the_hosts_own_answers_are_told_apart() {
    let forbidden = r#"clusters.proxy.kubectl-mc.dev "m1" is forbidden: User "theo" cannot get resource "clusters/proxy""#;
    for (code, body, expected) in [
        (401, status("Unauthorized", None), Hop::HostAuthentication),
        (403, status(forbidden, None), Hop::HostAuthorization),
        (404, "404 page not found\n".to_owned(), Hop::SidecarMissing),
        (404, status("the server could not find the requested resource", None), Hop::SidecarMissing),
        (503, "service unavailable\n".to_owned(), Hop::SidecarUnavailable),
        (503, status("service unavailable", None), Hop::SidecarUnavailable),
        (502, "<html>bad gateway</html>".to_owned(), Hop::SidecarUnavailable),
    ] {
        assert_eq!(refusal(code, &body).map(|(hop, _)| hop), Some(expected), "{code} {body}");
    }
}

#[test]
fn the_members_own_answer_is_left_to_kubectl() {
    assert_eq!(refusal(403, &status(r#"forbidden: User "theo" cannot get path "/version""#, None)), None);
    assert_eq!(refusal(404, &status(r#"pods "x" not found"#, None)), None);
    assert_eq!(refusal(429, "slow down"), None);
    assert_eq!(refusal(403, "member gone: no such hop"), None);
}

#[test]
fn a_long_page_is_cut() {
    let (_, message) = refusal(502, &"ä".repeat(5000)).unwrap();
    assert_eq!(message.chars().count(), MAX_MESSAGE + 1);
}

#[test]
fn an_unknown_cluster_has_an_exit_code_of_its_own() {
    assert_eq!(Hop::ClusterUnknown.status(), ExitStatus::NoSuchCluster);
    assert_eq!(Hop::MemberUnreachable.status(), ExitStatus::Failed);
}
