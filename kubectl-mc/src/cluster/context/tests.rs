use std::fs;
use std::path::PathBuf;

use super::cluster_context::base_url;
use super::*;
use crate::env;
use crate::error::Explain;
use crate::exit::ExitStatus;

#[test]
fn server_is_a_url_or_a_host_as_for_client_go() {
    for (given, expected) in [
        ("https://h:6443/", Some("https://h:6443")),
        ("HTTPS://h/a/?q#f", Some("https://h/a")),
        ("h", Some("http://h")),
        ("10.0.0.1:6443", Some("http://10.0.0.1:6443")),
        ("[::1]:6443/", Some("http://[::1]:6443")),
        ("h/prefix", None),
        ("https://", None),
        ("https:h", None),
    ] {
        assert_eq!(base_url(given).as_deref(), expected, "{given}");
    }
}

/// A temporary folder with kubeconfig files.
struct Files(tempfile::TempDir);

impl Files {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// An environment with these files in `KUBECONFIG`.
    fn env(&self, names: &[&str]) -> Env {
        let list = std::env::join_paths(names.iter().map(|name| match *name {
            "" => PathBuf::new(),
            name => self.path(name),
        }));
        [(env::KUBECONFIG, list.unwrap()), (env::HOME, self.0.path().into())].into_iter().collect()
    }
}

fn load(env: &Env, context: Option<&str>) -> Result<ClusterContext, HostError> {
    let options = HostOptions { context: context.map(str::to_owned), ..HostOptions::default() };
    ClusterContext::load_with(&options, env, Path::new("/nowhere"))
}

const A: &str = r#"
current-context: ""
clusters:
- {name: c, cluster: {server: "https://a:6443/", certificate-authority: pki/ca.crt, tls-server-name: t,
   proxy-url: "http://proxy:3128", disable-compression: true, extensions: [{name: e, extension: {k: v}}], unknown: 1}}
contexts:
- {name: a, context: {cluster: c, user: u, namespace: ns}}
- {name: elsewhere, context: {cluster: only-in-b, user: ""}}
- {name: broken, context: {cluster: nowhere, user: u}}
"#;
const B: &str = r#"
current-context: a
clusters:
- {name: c, cluster: {server: "https://wrong"}}
- {name: only-in-b, cluster: {server: "b.example:6443/", insecure-skip-tls-verify: true, certificate-authority: ""}}
users:
- {name: u, user: {token: t}}
"#;

#[test]
fn first_file_with_an_entry_wins() {
    let files = Files::new(&[("one/a", A), ("b", B)]);
    let host = load(&files.env(&["one/a", "", "missing", "b", "b"]), None).unwrap();
    assert_eq!(host.context.as_deref(), Some("a"), "an empty current context is none");
    assert_eq!(host.server, "https://a:6443");
    assert_eq!(host.namespace.as_deref(), Some("ns"));
    assert!(matches!(&host.user, User::Named(Some(user)) if user == "u"));
    assert_eq!(host.files, ["one/a", "missing", "b"].map(|name| files.path(name)));
    assert_eq!(host.prefix(), "");
}

#[test]
fn cluster_entry_is_kept_with_paths_relative_to_its_file() {
    let files = Files::new(&[("one/a", A), ("b", B)]);
    let cluster = load(&files.env(&["one/a", "b"]), None).unwrap().cluster;
    let ca = files.path("one").join("pki/ca.crt").to_string_lossy().into_owned();
    assert_eq!(cluster.certificate_authority, Some(ca));
    assert_eq!(cluster.tls_server_name.as_deref(), Some("t"));
    assert_eq!(cluster.proxy_url.as_deref(), Some("http://proxy:3128"));
    assert_eq!(cluster.disable_compression, Some(true));
    assert_eq!(cluster.extensions.unwrap()[0].name, "e");
    assert!(cluster.other.contains_key("unknown"));
}

#[test]
fn server_without_scheme_gets_the_default_of_kubectl() {
    let files = Files::new(&[("a", A), ("b", B)]);
    let host = load(&files.env(&["a", "b"]), Some("elsewhere")).unwrap();
    // kubectl decides that there is no TLS before it reads the trust.
    assert_eq!((host.server.as_str(), host.prefix()), ("http://b.example:6443", ""));
    assert!(host.cluster.certificate_authority.is_none(), "an empty path is none");
    assert!(matches!(host.user, User::Named(None)));
}

#[test]
fn file_in_the_home_folder_is_the_default() {
    let files = Files::new(&[(".kube/config", A)]);
    let env: Env = [(env::HOME, files.0.path()), (env::KUBECONFIG, Path::new(""))].into_iter().collect();
    assert_eq!(load(&env, Some("a")).unwrap().server, "https://a:6443");
}

#[test]
fn kubeconfig_flag_replaces_all_files_and_must_exist() {
    let files = Files::new(&[("a", A), ("b", B)]);
    let options = |name| HostOptions::plain(Some(files.path(name)), Some("a".to_owned()));
    let host = ClusterContext::load_with(&options("a"), &files.env(&["b"]), Path::new("/nowhere")).unwrap();
    assert_eq!(host.files, [files.path("a")]);
    let error = ClusterContext::load_with(&options("missing"), &files.env(&["b"]), Path::new("/nowhere"))
        .unwrap_err();
    assert!(matches!(error, HostError::Read { .. }), "{error}");
}

#[test]
fn load_errors_name_the_context_and_the_file() {
    let files = Files::new(&[("a", A), ("bad", "clusters: [")]);
    let error = |names: &[&str], context| {
        let error = load(&files.env(names), context).unwrap_err();
        assert_eq!(error.status(), ExitStatus::Usage);
        error.to_string()
    };
    let at = |name: &str| files.path(name).display().to_string();
    assert_eq!(error(&["a"], None), format!("no host: no kubeconfig names a current context in {}", at("a")));
    assert_eq!(error(&["a"], Some("x")), format!("no host: context \"x\" does not exist in {}", at("a")));
    assert!(error(&["a"], Some("broken")).contains("cluster \"nowhere\" has none"));
    let reason = "line 1 column 11: unclosed bracket '['";
    assert_eq!(error(&["bad"], None), format!("cannot parse kubeconfig {}: {reason}", at("bad")));
}

#[test]
fn pod_without_kubeconfig_uses_its_service_account() {
    let files = Files::new(&[("sa/token", "secret"), ("sa/ca.crt", "ca"), ("sa/namespace", "team\n")]);
    let mut variables = vec![
        (env::KUBERNETES_SERVICE_HOST, "fd00::1"),
        (env::KUBERNETES_SERVICE_PORT, "443"),
        (env::HOME, "/nowhere"),
    ];
    let in_pod = |variables: &[(&str, &str)]| {
        let env: Env = variables.iter().copied().collect();
        ClusterContext::load_with(&HostOptions::default(), &env, &files.path("sa")).unwrap()
    };
    let host = in_pod(&variables);
    assert_eq!((host.context.as_deref(), host.server.as_str()), (None, "https://[fd00::1]:443"));
    assert_eq!(host.namespace.as_deref(), Some("team"));
    assert_eq!(host.cluster.certificate_authority, Some(files.path("sa/ca.crt").display().to_string()));
    let User::ServiceAccount(user) = &host.user else { panic!("{:?}", host.user) };
    assert_eq!(user.token_file, Some(files.path("sa/token").display().to_string()));
    assert!(user.token.is_none());

    variables.push((env::POD_NAMESPACE, "downward"));
    assert_eq!(in_pod(&variables).namespace.as_deref(), Some("downward"), "kubectl prefers the variable");
}

#[test]
fn overlay_keeps_the_original_host() {
    let overlay = r#"
current-context: mc/m1
clusters: [{name: mc/m1, cluster: {server: "https://a:6443/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy"}}]
contexts:
- name: mc/m1
  context: {cluster: mc/m1, user: u, extensions: [{name: kubectl-mc.dev/host, extension: {context: a}}]}
"#;
    let files = Files::new(&[("overlay", overlay), ("a", A), ("b", B)]);
    let host = load(&files.env(&["overlay", "a", "b"]), None).unwrap();
    assert_eq!((host.context.as_deref(), host.server.as_str()), (Some("a"), "https://a:6443"));
    let error = load(&files.env(&["overlay"]), None).unwrap_err();
    assert!(error.to_string().starts_with("no host: context \"a\" does not exist"), "{error}");
}

#[test]
fn missing_user_is_an_error_unless_a_flag_names_another() {
    let files = Files::new(&[("a", A)]);
    let text = "clusters: [{name: only-in-b, cluster: {server: 'https://b'}}]\ncontexts: [{name: a, context: {cluster: only-in-b, user: u}}]";
    fs::write(files.path("a"), text).unwrap();
    let env = files.env(&["a"]);
    let options = HostOptions { context: Some("a".to_owned()), ..HostOptions::default() };
    let error = ClusterContext::load(&options, &env).unwrap_err().to_string();
    let file = files.path("a");
    let expected =
        format!("no host: context \"a\" names user \"u\", which does not exist in {}", file.display());
    assert_eq!(error, expected);
    for flag in ["--user=other", "--token=t", "--client-certificate=c"] {
        let scanned = crate::argv::scan(vec!["get".into(), flag.into()]);
        assert!(ClusterContext::load_for(&scanned, &options, &env).is_ok(), "{flag}");
    }
}
