//! Only the agent's own account attaches a cluster, directly and through the host.

use anyhow::Result;
use harness::bed::{SYSTEM, bed, host, member, sidecar};
use harness::caller::Caller;
use harness::http1::Endpoint;
use harness::own_agent::{self, own_data};
use harness::scene::grant;
use serde_json::json;

const CLUSTER: &str = "e2e-attach";

/// The answer to a request for a tunnel: status and text.
fn attach(endpoint: &Endpoint, cluster: &str, login: &str, lines: &[&str]) -> Result<(u16, String)> {
    let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    let request = format!(
        "GET /apis/proxy.kubectl-mc.dev/v1alpha1/clusters/{cluster}/attach HTTP/1.1\r\nHost: host\r\n\
         {login}{lines}\r\n"
    );
    let mut connection = endpoint.connect()?;
    connection.send(request.as_bytes())?;
    let response = connection.response()?;
    Ok((response.status(), response.text()))
}

const HANDSHAKE: [&str; 6] = [
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Protocol: v1.tunnel.kubectl-mc.dev",
    "kubectl-mc-agent: 0.1.0; instance=e2e",
];

fn ways() -> Result<[Endpoint; 2]> {
    Ok([Endpoint::cluster(&bed()?.host, None)?, Endpoint::sidecar(sidecar()?, None)?])
}

fn bearer(cluster: &str) -> Result<String> {
    Ok(format!("Authorization: Bearer {}\r\n", own_agent::token(cluster, 3600)?))
}

#[test]
fn account_attaches_only_the_cluster_of_its_name() -> Result<()> {
    own_agent::register(CLUSTER, SYSTEM, &own_data(member("m1")?)?)?;
    own_agent::account("e2e-attach-other")?;
    for way in ways()? {
        let (status, text) = attach(&way, CLUSTER, &bearer("e2e-attach-other")?, &HANDSHAKE)?;
        assert_eq!(status, 403, "{text}");
        assert!(text.contains("kubectl-mc-agents/e2e-attach only"), "{text}");
        let (status, text) = attach(&way, "e2e-attach-nowhere", &bearer(CLUSTER)?, &HANDSHAKE)?;
        assert_eq!(status, 403, "{text}");
        let (status, text) = attach(&way, CLUSTER, &bearer(CLUSTER)?, &HANDSHAKE)?;
        assert_eq!(status, 101, "{text}");
    }
    Ok(())
}

/// RBAC can grant the right to any user, but a tunnel belongs to the account of its cluster.
#[test]
fn user_with_the_right_to_attach_gets_no_tunnel() -> Result<()> {
    let cluster = "e2e-attach-user";
    own_agent::register(cluster, SYSTEM, &own_data(member("m1")?)?)?;
    let caller = Caller::token("ulrike")?;
    let rule =
        json!({"apiGroups": ["proxy.kubectl-mc.dev"], "resources": ["clusters/attach"], "verbs": ["*"]});
    let attributes = json!({
        "group": "proxy.kubectl-mc.dev", "resource": "clusters", "subresource": "attach", "verb": "create",
    });
    grant(&host()?, "e2e-attach-user", &caller, &rule, &attributes)?;
    for way in ways()? {
        let (status, text) = attach(&way, cluster, &caller.authorization(), &HANDSHAKE)?;
        assert_eq!(status, 403, "{text}");
        assert!(text.contains("and not by User"), "{text}");
    }
    Ok(())
}

#[test]
fn agent_account_has_no_other_right() -> Result<()> {
    own_agent::account("e2e-attach-nothing")?;
    let agent = own_agent::as_agent("e2e-attach-nothing")?;
    for path in [
        "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy/api/v1/namespaces/default/pods",
        "/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters",
        "/api/v1/namespaces/kubectl-mc-system/secrets",
        "/api/v1/namespaces/kubectl-mc-agents/serviceaccounts",
        "/api/v1/namespaces/default/pods",
    ] {
        assert_eq!(agent.request("GET", path, "", "")?.status(), 403, "{path}");
    }
    Ok(())
}

#[test]
fn request_without_agent_handshake_gets_no_tunnel() -> Result<()> {
    let cluster = "e2e-attach-handshake";
    own_agent::register(cluster, SYSTEM, &own_data(member("m1")?)?)?;
    let token = bearer(cluster)?;
    // Directly, a page of another origin is refused before the handshake is looked at.
    for (way, of_a_page) in ways()?.into_iter().zip([400, 403]) {
        for (why, left_out, added, expected) in [
            ("no upgrade", vec![0, 1, 2, 3], None, 400),
            ("no subprotocol", vec![4], None, 400),
            ("no agent", vec![5], None, 400),
            ("a browser", vec![], Some("Origin: https://example.com"), of_a_page),
        ] {
            let lines = HANDSHAKE.iter().enumerate().filter(|(at, _)| !left_out.contains(at));
            let lines: Vec<_> = lines.map(|(_, line)| *line).chain(added).collect();
            let (status, text) = attach(&way, cluster, &token, &lines)?;
            assert_eq!(status, expected, "{why}: {text}");
        }
    }
    Ok(())
}
