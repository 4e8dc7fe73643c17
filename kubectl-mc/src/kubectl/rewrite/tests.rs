use kube::config::{AuthInfo, Cluster, Kubeconfig};

use super::*;
use crate::argv;
use crate::cluster::context::User;
use crate::exit::ExitStatus;
use crate::kubectl::overlay;

fn host(server: &str) -> ClusterContext {
    ClusterContext {
        context: Some("h".to_owned()),
        server: server.to_owned(),
        cluster: Cluster {
            server: Some(server.to_owned()),
            tls_server_name: Some("t".to_owned()),
            ..Cluster::default()
        },
        user: User::Named(Some("u".to_owned())),
        namespace: Some("ns".to_owned()),
        extensions: None,
        files: vec!["/k/a".into(), "relative/b".into()],
        kubeconfig_flag: None,
        island: None,
        hub: Default::default(),
        is_direct: false,
        kubeconfig: Kubeconfig::default(),
    }
}

fn m1() -> ClusterId {
    "m1".parse().unwrap()
}

fn run(line: &str, raw: RawPath) -> Result<String, Failure> {
    let scanned = argv::scan(line.split_whitespace().map(OsString::from).collect());
    let invocation = rewrite(scanned, &host("https://h:6443/prefix"), &m1(), Path::new("/c/overlay"), raw)?;
    assert_eq!(invocation.kubeconfig, "/c/overlay:/k/a:relative/b");
    Ok(invocation.arguments.join(" ".as_ref()).into_string().unwrap())
}

const ROOT: &str = "/prefix/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy";

#[test]
fn kubectl_gets_its_words_without_plugin_flags() {
    for (line, expected) in [
        ("--cluster=m1 get pods -A", "get --context=mc/m1 pods -A"),
        (
            "--context=h -n x exec -it p --cluster m1 -- sh -C --cluster=y",
            "-n x exec --context=mc/m1 -it p -- sh -C --cluster=y",
        ),
        ("-C m1 apply --kubeconfig f -f -", "apply --context=mc/m1 -f -"),
        ("-C m1 stern -s 10m web", "stern -s 10m web"),
        ("-C m1 help get", "help get"),
        ("-C m1 get --help", "get --help"),
    ] {
        assert_eq!(run(line, RawPath::Joined).unwrap(), expected);
    }
}

#[test]
fn kubectl_proxy_keeps_to_the_member() {
    assert_eq!(
        run("-C m1 proxy --port=0", RawPath::Joined).unwrap(),
        "proxy --append-server-path --context=mc/m1 --port=0"
    );
    let given = "--port=0 --append-server-path";
    assert_eq!(
        run(&format!("-C m1 proxy {given}"), RawPath::Joined).unwrap(),
        format!("proxy --context=mc/m1 {given}")
    );
    assert_eq!(
        run("-C m1 proxy --append-server-path=false", RawPath::Joined).unwrap(),
        "proxy --append-server-path --context=mc/m1 --append-server-path=false",
        "what is asked for last is kubectl's to refuse or do"
    );
}

#[test]
fn raw_paths_reach_the_member_with_every_kubectl() {
    for (minor, expected) in [(27, ROOT), (33, ROOT), (34, ""), (36, "")] {
        let raw = RawPath::of_minor_version(minor);
        assert_eq!(
            run("-C m1 get --raw /version", raw).unwrap(),
            format!("get --context=mc/m1 --raw {expected}/version")
        );
        assert_eq!(
            run("-C m1 get --raw=/api?x=y --v=1", raw).unwrap(),
            format!("get --context=mc/m1 --raw={expected}/api?x=y --v=1")
        );
        for verb in ["create", "replace", "delete"] {
            assert_eq!(
                run(&format!("-C m1 {verb} --raw /a -f -"), raw).unwrap(),
                format!("{verb} --context=mc/m1 --raw {expected}/a -f -")
            );
        }
    }
    assert_eq!(
        run("-C m1 get --raw version", RawPath::Replaces).unwrap(),
        format!("get --context=mc/m1 --raw {ROOT}/version")
    );
    let error = run("-C m1 get --raw https://h/api", RawPath::Replaces).unwrap_err();
    assert_eq!(error.to_string(), "--raw is not a path");
}

#[test]
fn commands_without_a_member_are_refused_with_a_hint() {
    for (line, expected) in [
        ("-C m1", "no command given for cluster m1"),
        ("-C m1 -n x", "no command given for cluster m1"),
        ("-C m1 config view", "`kubectl config` works on kubeconfig files, not on a cluster"),
        ("-C m1 get pods --server=https://x", "--server and --cluster=m1 contradict each other"),
        ("-C m1 get pods -s https://x", "--server and --cluster=m1 contradict each other"),
        ("-s x -C m1 someplugin", "--server and --cluster=m1 contradict each other"),
    ] {
        let error = run(line, RawPath::Joined).unwrap_err();
        assert_eq!(error.to_string(), expected, "{line}");
        assert!(error.hint.is_some());
        assert_eq!(error.status, ExitStatus::Usage);
    }
}

#[test]
fn overlay_holds_the_member_and_names_the_user_entry() {
    let overlay = serde_json::to_value(overlay::overlay(&host("https://h:6443/prefix"), &[m1()])).unwrap();
    let expected = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "mc/m1",
        "clusters": [{"name": "mc/m1", "cluster": {"server": format!("https://h:6443{ROOT}"), "tls-server-name": "t"}}],
        "contexts": [{"name": "mc/m1", "context": {
            "cluster": "mc/m1", "user": "u", "namespace": "ns",
            "extensions": [{"name": "kubectl-mc.dev/host", "extension": {"context": "h"}}]}}],
        "users": [],
    });
    assert_eq!(overlay, expected);
}

#[test]
fn overlay_of_a_review_names_another_subresource() {
    let host = host("https://h:6443/prefix");
    let proxy = overlay::overlay_json(&host, &m1()).unwrap();
    let review = overlay::self_review_overlay_json(&host, m1().member().unwrap()).unwrap();
    let proxy = String::from_utf8(proxy).unwrap();
    assert_eq!(String::from_utf8(review).unwrap(), proxy.replace("m1/proxy\"", "m1/selfreviews\""));
}

#[test]
fn pod_overlay_is_self_contained_and_names_the_token() {
    let token = AuthInfo { token_file: Some("/sa/token".to_owned()), ..AuthInfo::default() };
    let host = ClusterContext {
        context: None,
        user: User::ServiceAccount(Box::new(token)),
        files: vec![],
        ..host("https://h")
    };
    let overlay = serde_json::to_value(overlay::overlay(&host, &[m1()])).unwrap();
    assert_eq!(
        overlay["users"],
        serde_json::json!([{"name": "mc/service-account", "user": {"tokenFile": "/sa/token"}}])
    );
    assert_eq!(overlay["contexts"][0]["context"]["user"], "mc/service-account");
    assert_eq!(kubeconfig_list(&host, Path::new("/c/overlay")).unwrap(), "/c/overlay");
}

#[cfg(unix)]
#[test]
fn file_name_with_the_list_separator_is_refused() {
    let host = ClusterContext { files: vec!["/a:b".into()], ..host("https://h") };
    let error = kubeconfig_list(&host, Path::new("/c/overlay")).unwrap_err();
    assert!(error.to_string().contains("the list separator"), "{error}");
}
