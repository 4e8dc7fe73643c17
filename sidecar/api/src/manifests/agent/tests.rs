use super::*;
use crate::names::AGENT_NAMESPACE;

fn agent() -> Agent {
    Agent::new("m1".parse().unwrap(), "mc-sidecar")
}

fn find(kind: &str, objects: &[Value]) -> Value {
    let found = objects.iter().find(|object| object["kind"] == kind);
    found.unwrap_or_else(|| panic!("no {kind}")).clone()
}

#[test]
fn default_values_render_the_agent_manifest_unchanged() {
    let rendered = find("Deployment", &agent().objects().unwrap());
    let mut manifest = find("Deployment", &objects(MANIFEST).unwrap());
    manifest["metadata"]["labels"] = rendered["metadata"]["labels"].clone();
    manifest["spec"]["template"]["metadata"]["labels"] = json!(BTreeMap::from(LABELS));
    manifest["spec"]["template"]["spec"]["containers"][0]["args"][1] = "--cluster=m1".into();
    assert_eq!(rendered, manifest);
}

#[test]
fn agent_objects_have_fixed_names_in_apply_order() {
    let names = |object: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"]))
    };
    let objects = agent().objects().unwrap();
    assert_eq!(
        objects.iter().map(names).collect::<Vec<_>>(),
        [
            "Namespace kubectl-mc-agent",
            "ServiceAccount mc-agent",
            "Role mc-agent",
            "RoleBinding mc-agent",
            "NetworkPolicy mc-agent",
            "PodDisruptionBudget mc-agent",
            "Deployment mc-agent",
        ]
    );
    for object in &objects[1..] {
        assert_eq!(object["metadata"]["namespace"], AGENT_NAMESPACE, "{object}");
    }
    let selector = AGENT_SELECTOR.split_once('=').unwrap();
    assert_eq!(objects[6]["spec"]["selector"]["matchLabels"][selector.0], selector.1);
}

#[test]
fn pods_meet_the_restricted_pod_security_level() {
    let objects = agent().objects().unwrap();
    assert_eq!(objects[0]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "restricted");
    let pod = &find("Deployment", &objects)["spec"]["template"]["spec"];
    assert_eq!(
        pod["securityContext"],
        json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}})
    );
    assert_eq!(
        pod["containers"][0]["securityContext"],
        json!({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}})
    );
    assert_eq!(super::super::tests::refused_by_restricted_v2(pod, 1_000..2_000), [""; 0]);
}

#[test]
fn agent_network_policy_allows_no_ingress() {
    let policy = find("NetworkPolicy", &agent().objects().unwrap());
    assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress"]));
    assert_eq!(policy["spec"]["ingress"], Value::Null);
}

#[test]
fn secret_has_only_the_given_keys() {
    let connection = HostConnection { server: "https://host".to_owned(), ..HostConnection::default() };
    assert_eq!(connection.secret()["data"], json!({"server": "aHR0cHM6Ly9ob3N0"}));
    let whole = HostConnection {
        ca: Some("PEM".to_owned()),
        tls_server_name: Some("kubernetes".to_owned()),
        proxy_url: Some("http://proxy:3128".to_owned()),
        ..connection
    };
    let clear = whole.secret_in_clear("$TOKEN");
    assert_eq!(
        clear["stringData"],
        json!({
            "server": "https://host", "ca.crt": "PEM", "tls-server-name": "kubernetes", "proxy-url": "http://proxy:3128",
            "token": "$TOKEN",
        })
    );
    assert_eq!([&clear["type"], &clear["metadata"]["name"]], ["Opaque", AGENT]);
}

#[test]
fn values_change_the_agent_pods() {
    let values =
        "replicas: 3\ntarget: 10.0.0.1:6443\nextraArgs: [--tunnels=1]\nimagePullSecrets: [{name: r}]\n";
    let agent = Agent { values: AgentValues::parse(values).unwrap(), ..agent() };
    let deployment = find("Deployment", &agent.objects().unwrap());
    assert_eq!(deployment["spec"]["replicas"], 3);
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["imagePullSecrets"], json!([{"name": "r"}]));
    let args = pod["containers"][0]["args"].to_string();
    assert!(args.contains("--target=10.0.0.1:6443") && args.ends_with("\"--tunnels=1\"]"), "{args}");
    assert!(AgentValues::parse("securePort: 1").is_err());
}
