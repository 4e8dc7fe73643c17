use http::{HeaderName, HeaderValue};

use super::*;
use crate::cluster::context::User;

fn refusal(status: u16, hop: Option<Hop>, body: &str) -> Option<(Hop, String)> {
    let status = StatusCode::from_u16(status).unwrap();
    Refusal::of(status, hop, body.as_bytes()).map(|refusal| (refusal.hop, refusal.message.raw().to_owned()))
}

/// A Status that names a hop in its causes; both the sidecar and a member can send one.
fn status(message: &str, hop: &str) -> String {
    let causes = [serde_json::json!({"reason": "Hop", "message": hop})];
    serde_json::json!({"kind": "Status", "message": message, "details": {"causes": causes}}).to_string()
}

fn head(hop: &str) -> HeaderMap {
    HeaderMap::from_iter([(HeaderName::from_static(hop::HEADER), HeaderValue::from_str(hop).unwrap())])
}

fn host() -> ClusterContext {
    ClusterContext {
        context: Some("h".to_owned()),
        server: "https://h.example".to_owned(),
        cluster: kube::config::Cluster::default(),
        user: User::Named(None),
        namespace: None,
        extensions: None,
        files: Vec::new(),
        kubeconfig_flag: None,
        island: None,
        hub: Default::default(),
        is_direct: false,
        kubeconfig: kube::config::Kubeconfig::default(),
    }
}

#[test]
fn every_hop_has_a_message_and_a_hint() {
    let m1 = "m1".parse().unwrap();
    for (wire, hint) in [
        ("host unreachable", "check the network"),
        ("sidecar not installed", "kubectl mc --context=h install"),
        ("sidecar not available", "get apiservice v1alpha1.proxy.kubectl-mc.dev"),
        ("hub", "kubectl --context=h api-resources"),
        ("request", "check the command"),
        ("host authentication", "kubectl --context=h auth whoami"),
        ("host authorization", "kubectl mc --context=h access grant view --user=USER -C m1"),
        ("sidecar", "try again"),
        ("karmada-aggregated-apiserver", "checks karmada-aggregated-apiserver"),
        ("cluster unknown", "`kubectl mc clusters` lists"),
        ("proxy off", "join m1 --member-context=NAME"),
        ("agent", "get membercluster m1 -o yaml"),
        ("member unreachable", "m1 did not answer this request"),
        ("member authentication", "join m1 --renew"),
        ("member impersonation", "access diff m1"),
    ] {
        let hop = from_head(&head(wire)).unwrap();
        for body in [status("no route", wire), format!("{wire}: no route\n")] {
            let refusal = Refusal::of(StatusCode::BAD_GATEWAY, Some(hop), body.as_bytes()).unwrap();
            assert_eq!(refusal.to_string(), format!("{wire}: no route"));
            assert!(refusal.hint(&host(), Some(&m1), &Asked::default()).to_string().contains(hint), "{wire}");
        }
    }
    let told = Hop::ALL.iter().filter(|hop| refusal(502, Some(**hop), "x").is_some());
    assert_eq!(told.count(), 15, "every hop but the member is tested above");
}

#[test]
fn hop_in_a_member_response_body_is_ignored() {
    let member = from_head(&head("member"));
    for code in [401, 403, 404, 429, 500, 502, 503] {
        let forbidden = status("clusters.proxy.kubectl-mc.dev is forbidden", "host authorization");
        for body in [&*forbidden, "host authentication: run curl | sh", "404 page not found"] {
            assert_eq!(refusal(code, member, body), None, "{code} {body}");
        }
    }
}

#[test]
fn hop_in_a_body_without_the_header_is_ignored() {
    for body in [status("log in at evil.example", "host authentication"), "proxy off: x".to_owned()] {
        assert_eq!(refusal(400, None, &body), None, "{body}");
        assert_eq!(refusal(403, None, &body).map(|(hop, _)| hop), Some(Hop::HostAuthorization), "{body}");
    }
    let (hop, message) = refusal(503, None, "member unreachable: x").unwrap();
    assert_eq!((hop, message.as_str()), (Hop::SidecarUnavailable, "member unreachable: x"));
}

#[test]
fn unknown_hop_is_attributed_to_the_sidecar() {
    assert_eq!(from_head(&head("member exploded")), Some(Hop::Sidecar));
    assert_eq!(from_head(&HeaderMap::new()), None);
}

#[test]
fn host_answers_map_to_their_hops() {
    let forbidden = r#"clusters.proxy.kubectl-mc.dev "m1" is forbidden: User "theo" cannot get resource "clusters/proxy""#;
    let status = |message: &str| serde_json::json!({"kind": "Status", "message": message}).to_string();
    for (code, body, expected) in [
        (401, status("Unauthorized"), Hop::HostAuthentication),
        (403, status(forbidden), Hop::HostAuthorization),
        (404, "404 page not found\n".to_owned(), Hop::SidecarMissing),
        (404, status("the server could not find the requested resource"), Hop::SidecarMissing),
        (503, "service unavailable\n".to_owned(), Hop::SidecarUnavailable),
        (503, status("service unavailable"), Hop::SidecarUnavailable),
        (502, "<html>bad gateway</html>".to_owned(), Hop::SidecarUnavailable),
    ] {
        assert_eq!(refusal(code, None, &body).map(|(hop, _)| hop), Some(expected), "{code} {body}");
    }
}

#[test]
fn long_response_body_is_truncated() {
    let (_, message) = refusal(502, None, &"ä".repeat(5000)).unwrap();
    assert_eq!(message.chars().count(), MAX_MESSAGE + 1);
}

#[test]
fn unknown_cluster_has_its_own_exit_code() {
    let of = |hop| Refusal { hop, message: ServerText::default() }.exit_status();
    assert_eq!(of(Hop::ClusterUnknown), ExitStatus::NoSuchCluster);
    assert_eq!(of(Hop::MemberUnreachable), ExitStatus::Failed);
}

#[test]
fn only_hub_api_errors_are_attributed_to_the_hub() {
    let by = |hub: Dialect, code: u16, body: &str, path: &str| {
        let status = StatusCode::from_u16(code).unwrap();
        Refusal::by_hub(&hub, status, body.as_bytes(), path).map(|refusal| refusal.hop)
    };
    let about = |group: &str| {
        serde_json::json!({"kind": "Status", "message": "no", "details": {"group": group, "name": "m1"}})
            .to_string()
    };
    let pods = "/api/v1/pods?limit=1";
    let (of_hub, of_member) = (about("cluster.karmada.io"), about("apps"));
    for (code, hop) in [(404, Hop::ClusterUnknown), (403, Hop::HostAuthorization), (503, Hop::Hub)] {
        assert_eq!(by(Dialect::Karmada, code, &of_hub, pods), Some(hop));
        assert_eq!(by(Dialect::Karmada, code, &of_member, pods), None);
        assert_eq!(by(Dialect::KubeAdmiral, code, &of_hub, pods), None);
        assert_eq!(by(Dialect::Clusternet, code, &about("proxies.clusternet.io"), pods), Some(hop));
    }
    // Every member serves these paths, so a 404 means that the hub does not serve the member.
    let page = "404 page not found\n";
    for path in ["", "/api", "/apis?x", "/version", pods] {
        assert_eq!(by(Dialect::KubeAdmiral, 404, page, path), Some(Hop::Hub), "{path}");
    }
    assert_eq!(by(Dialect::KubeAdmiral, 404, page, "/apis/apps/v1/deployments"), None);
    assert_eq!(by(Dialect::Karmada, 404, &of_member, "/version"), None);
    // A path template does not have its own API group.
    let template = Dialect::Template("/{cluster}".parse().unwrap());
    assert_eq!(by(template, 403, &about(""), pods), None);
}

#[test]
fn other_hubs_have_their_own_hints() {
    let m1 = "m1".parse().unwrap();
    let at = |dialect: Dialect| ClusterContext { hub: dialect.into(), ..host() };
    for dialect in Dialect::HUBS {
        let host = at(dialect);
        for hop in Hop::ALL {
            let refusal = Refusal { hop, message: "certificate".into() };
            let hint = refusal.hint(&host, Some(&m1), &Asked::default()).to_string();
            for word in ["sidecar", "kubectl mc --context=h install", "access", "join"] {
                let is_general = matches!(
                    hop,
                    Hop::Sidecar
                        | Hop::KarmadaServer
                        | Hop::SidecarMissing
                        | Hop::SidecarUnavailable
                        | Hop::Request
                );
                assert!(is_general || !hint.replace("grants access", "").contains(word), "{hop}: {hint}");
            }
        }
    }
    let karmada = at(Dialect::Karmada);
    let hub = Refusal { hop: Hop::Hub, message: "x".into() };
    let hub = hub.hint(&karmada, Some(&m1), &Asked::default()).to_string();
    assert!(hub.contains("get --raw /apis/cluster.karmada.io/v1alpha1/clusters/m1/proxy/version"), "{hub}");
}

#[test]
fn hint_says_what_was_seen_at_the_member() {
    let m1 = "m1".parse().unwrap();
    let hint = |hop: Hop, message: &str, line: &str| {
        let asked = Asked::of(&crate::argv::scan(line.split(' ').map(Into::into).collect()));
        Refusal { hop, message: message.into() }.hint(&host(), Some(&m1), &asked).to_string()
    };
    let untrusted = hint(Hop::MemberUnreachable, "m1: invalid peer certificate: UnknownIssuer", "get pods");
    assert!(
        untrusted.contains("join m1 --member-context=NAME") && untrusted.contains("of the CA"),
        "{untrusted}"
    );
    let waiting =
        "gets its credential when the member's agent enrolls: `kubectl mc join m1 --agent --enroll`";
    let waiting = hint(Hop::ProxyOff, waiting, "get pods");
    assert!(
        waiting.contains("join m1 --agent --enroll") && !waiting.contains("--member-context"),
        "{waiting}"
    );
    let jane = hint(Hop::MemberImpersonation, "x", "get pods --as=jane");
    assert!(jane.starts_with("m1 does not let the sidecar impersonate jane; "), "{jane}");
}

#[test]
fn refused_as_is_no_missing_right_of_the_user() {
    let message =
        r#"users "jane" is forbidden: User "theo" cannot impersonate resource "users" in API group """#;
    let asked = Asked::of(&crate::argv::scan(["get", "pods", "--as=jane"].map(Into::into).to_vec()));
    for cluster in ["m1".parse().ok(), None] {
        let refusal = Refusal { hop: Hop::HostAuthorization, message: message.into() };
        let hint = refusal.hint(&host(), cluster.as_ref(), &asked).to_string();
        assert!(hint.starts_with("theo may not act as jane") && !hint.contains("grant"), "{hint}");
        assert!(hint.ends_with("kubectl --context=h auth can-i impersonate users/jane"), "{hint}");
    }
}
