use std::fs;

use kube::config::{Cluster, Kubeconfig};

use super::*;
use crate::argv;
use crate::cluster::context::User;
use crate::env;

fn scan(line: &str) -> Scanned {
    argv::scan(line.split_whitespace().map(Into::into).collect())
}

fn host() -> ClusterContext {
    ClusterContext {
        context: Some("h".to_owned()),
        server: "https://h-1.example:6443/a_b".to_owned(),
        cluster: Cluster::default(),
        user: User::Named(None),
        namespace: None,
        extensions: None,
        files: Vec::new(),
        kubeconfig_flag: None,
        island: None,
        hub: Default::default(),
        is_direct: false,
        kubeconfig: Kubeconfig::default(),
    }
}

/// Whether a request is sent `age` after kubectl wrote its discovery cache into `cache`.
fn needed(line: &str, variables: &[(&str, &Path)], seen: bool, age: Duration) -> bool {
    let env: Env = variables.iter().copied().collect();
    is_needed(&scan(line), &host(), &"m1".parse().unwrap(), &env, seen, SystemTime::now() + age)
}

fn warm(cache: &Path) {
    let folder =
        cache.join("discovery/h_1.example_6443/a_b/apis/proxy.kubectl_mc.dev/v1alpha1/clusters/m1/proxy");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("servergroups.json"), "{}").unwrap();
}

#[test]
fn only_a_cold_cache_costs_a_request() {
    let cache = tempfile::tempdir().unwrap();
    let variables = [(env::KUBECACHEDIR, cache.path())];
    assert!(needed("get pods", &variables, true, Duration::ZERO), "nothing is cached");
    warm(cache.path());
    assert!(!needed("get pods", &variables, true, Duration::ZERO));
    assert!(needed("get pods", &variables, false, Duration::ZERO), "the cluster was not seen before");
    assert!(needed("get pods", &variables, true, DISCOVERY_LIFETIME), "the cache is too old for kubectl");
}

#[test]
fn kubectl_cache_is_found_by_flag_variable_and_home() {
    let cache = tempfile::tempdir().unwrap();
    let nowhere = Path::new("/nowhere");
    warm(cache.path());
    warm(&cache.path().join(".kube/cache"));
    let flag = format!("get pods --cache-dir={}", cache.path().display());
    assert!(!needed(&flag, &[(env::KUBECACHEDIR, nowhere)], true, Duration::ZERO));
    assert!(!needed(
        "get pods",
        &[(env::KUBECACHEDIR, cache.path()), (env::HOME, nowhere)],
        true,
        Duration::ZERO
    ));
    assert!(!needed("get pods", &[(env::HOME, cache.path())], true, Duration::ZERO));
    assert!(needed("get pods", &[], true, Duration::ZERO));
}

#[test]
fn commands_without_a_server_skip_the_preflight() {
    for line in [
        "version --client",
        "help get",
        "get --help",
        "exec -h",
        "options",
        "completion bash",
        "__complete get p",
        "plugin list",
        "kustomize .",
        "set image -f x --local a=b",
        "create deployment x --image y --dry-run=client",
    ] {
        assert!(!needed(line, &[], false, Duration::ZERO), "{line}");
    }
    for line in [
        "version",
        "get pods",
        "apply -f x --dry-run=server",
        "apply -f x --dry-run=client",
        "create -f x --dry-run=client",
        "set image deploy/x a=b --dry-run=client",
        "exec p -- help",
        "exec p -- x --help",
        "view-utilization -h",
        "someplugin --local",
    ] {
        assert!(needed(line, &[], false, Duration::ZERO), "{line}");
    }
}

#[test]
fn discovery_folder_has_the_name_of_client_go() {
    assert_eq!(
        discovery_folder(Path::new("/c"), "https://10.0.0.1:6443/apis/proxy.kubectl-mc.dev/v1/x(y)é"),
        Path::new("/c/discovery/10.0.0.1_6443/apis/proxy.kubectl_mc.dev/v1/x(y)_")
    );
}

#[test]
fn key_that_the_plugin_refuses_is_no_question_for_kubectl() {
    use crate::cluster::transport::Refused;
    let tls =
        |error: Box<dyn std::error::Error + Send + Sync>| of_answer(&host(), Err(ClientError::Tls(error)));
    assert!(tls(Box::new(Refused::WeakKey(1024))).is_err_and(|error| error.is_of_a_key()));
    assert!(tls(Box::new(Refused::WeakAuthority(1024))).is_err());
    // kubectl has the same answer in its own words.
    assert!(matches!(tls(Box::new(Refused::ExpiredAuthority)), Ok(None)));
    assert!(matches!(tls("another reason".into()), Ok(None)));
}
