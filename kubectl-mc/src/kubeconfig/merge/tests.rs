use serde_json::json;

use super::*;
use crate::cluster::context::HostOptions;
use crate::env;
use crate::kubeconfig::edit::parse;
use crate::kubeconfig::entries;

const FILE: &str = "\
# my clusters
apiVersion: v1
kind: Config
clusters:   # all of them
# the hub
- cluster:
    server: https://h:6443   # by VPN only
    certificate-authority: ca.crt
  name: c
  note: 'kept'

# end of clusters
contexts:
- context: {cluster: c, user: u, namespace: ns}
  name: host
current-context: host
preferences: {}
users:
- name: u
  user:
    token: secret
unknown: [1, two]
";

struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("config"), text).unwrap();
        Self { folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("config")
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.file()).unwrap()
    }

    fn merge(&self, names: &[&str], known: Option<&[&str]>) -> Result<Report, Failure> {
        let env: Env = [(env::KUBECONFIG, self.file())].into_iter().collect();
        let options = HostOptions { context: Some("host".to_owned()), ..HostOptions::default() };
        let host = ClusterContext::load(&options, &env).unwrap();
        let parse =
            |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect::<Vec<ClusterName>>();
        let entries = entries::entries(&host, &parse(names), "").unwrap();
        run(&host, &entries, known.map(parse).as_deref(), &env)
    }

    fn counts(&self, names: &[&str], known: Option<&[&str]>) -> (usize, usize, usize) {
        let report = self.merge(names, known).unwrap();
        (report.added, report.updated, report.removed)
    }
}

#[test]
fn foreign_text_is_unchanged() {
    let scene = Scene::new(FILE);
    assert_eq!(scene.counts(&["m1", "m2"], None), (2, 0, 0));
    let text = scene.text();
    let mut rest = FILE.lines().peekable();
    for line in text.lines() {
        rest.next_if(|wanted| *wanted == line);
    }
    assert_eq!(rest.next(), None, "{text}");
    let member = "\
- cluster:
    certificate-authority: FOLDER/ca.crt
    extensions:
    - extension:
        cluster: m2
        context: host
      name: kubectl-mc.dev/host
    server: https://h:6443/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m2/proxy
  name: m2

# end of clusters
";
    let member = member.replace("FOLDER", scene.folder.path().to_str().unwrap());
    assert!(text.contains(&member), "{text}");
    let context = "\
- context:
    cluster: m2
    extensions:
    - extension:
        cluster: m2
        context: host
      name: kubectl-mc.dev/host
    namespace: ns
    user: u
  name: m2
current-context: host
";
    assert!(text.contains(context), "{text}");
    assert!(!text.replace("token: secret", "").contains("secret"), "{text}");
}

#[test]
fn second_merge_changes_nothing() {
    let scene = Scene::new(FILE);
    scene.merge(&["m1"], None).unwrap();
    let text = scene.text();
    let written = scene.file().metadata().unwrap().modified().unwrap();
    assert_eq!(scene.counts(&["m1"], Some(&["m1"])), (0, 0, 0));
    assert_eq!(scene.text(), text);
    assert_eq!(scene.file().metadata().unwrap().modified().unwrap(), written);
}

#[test]
fn merge_and_prune_restore_the_file() {
    let scene = Scene::new(FILE);
    scene.merge(&["m1", "m2", "m3"], None).unwrap();
    assert_eq!(scene.counts(&["m2"], Some(&["m2", "m4"])), (0, 0, 2));
    assert!(scene.text().contains("clusters/m2/") && !scene.text().contains("clusters/m3/"));
    assert_eq!(scene.counts(&[], Some(&["m4"])), (0, 0, 1));
    assert_eq!(scene.text(), FILE);
}

#[test]
fn prune_reports_a_removed_current_context() {
    let scene = Scene::new(FILE);
    scene.merge(&["m1"], None).unwrap();
    std::fs::write(scene.file(), scene.text().replace("current-context: host", "current-context: m1"))
        .unwrap();
    let report = scene.merge(&[], Some(&[])).unwrap();
    assert!(report.to_string().ends_with("1 removed; its current context \"m1\" is gone"), "{report}");
}

#[test]
fn user_changes_in_plugin_entries_survive() {
    let scene = Scene::new(FILE);
    scene.merge(&["m1"], None).unwrap();
    let text = scene.text();
    let (before, after) = text.rsplit_once("    namespace: ns\n").unwrap();
    let changed = format!("{before}    namespace: other # mine\n    extra: x\n{after}");
    let changed = changed.replace("clusters/m1/proxy\n", "clusters/m1/proxy\n    extra: yet\n");
    std::fs::write(scene.file(), &changed).unwrap();
    assert_eq!(scene.counts(&["m1"], None), (0, 0, 0));
    assert_eq!(scene.text(), changed);
    // A new server of the host also applies to its members.
    std::fs::write(scene.file(), changed.replace("https://h:6443   #", "https://h2:6443   #")).unwrap();
    assert_eq!(scene.counts(&["m1"], None), (0, 1, 0));
    let text = scene.text();
    assert!(
        text.contains("https://h2:6443/apis/") && text.contains("extra: yet") && text.contains("# mine"),
        "{text}"
    );
}

#[test]
fn foreign_entries_are_never_overwritten() {
    let foreign = FILE.replace("contexts:\n", "contexts:\n- {context: {cluster: c}, name: m1}\n");
    let other_host = {
        let scene = Scene::new(FILE);
        scene.merge(&["m1"], None).unwrap();
        scene.text().replace("        context: host\n", "        context: another\n")
    };
    for (text, kind) in [(foreign, "context"), (other_host, "cluster")] {
        let scene = Scene::new(&text);
        let error = scene.merge(&["m1"], Some(&[])).unwrap_err();
        assert_eq!(
            error.hint,
            Some("choose other names by --context-prefix, as in --context-prefix=mc/".into())
        );
        let text_of_error = error.to_string();
        assert!(text_of_error.contains(&format!("your kubeconfig has a {kind} \"m1\"")), "{text_of_error}");
        assert_eq!(scene.text(), text);
        assert_eq!(scene.counts(&["m2"], Some(&["m2"])), (1, 0, 0), "{kind}");
        assert!(scene.text().contains("m1"));
    }
}

/// The file as JSON, which kubectl and the plugin read too.
fn json_file() -> String {
    let json = json!({
        "clusters": [{"name": "c", "cluster": {"server": "https://h:6443"}}],
        "contexts": [{"name": "host", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "host", "other": {"b": [1]},
        "users": [{"name": "u", "user": {"token": "secret"}}],
    });
    json.to_string()
}

#[test]
fn other_yaml_layouts_are_edited() {
    let indented = FILE.replace("- context: {", "  - context: {").replace("  name: host", "    name: host");
    let windows = FILE.replace('\n', "\r\n");
    let no_end = FILE.replace("unknown: [1, two]\n", "unknown: [1, two]");
    let last = {
        let (clusters, rest) = FILE.split_once("contexts:\n").unwrap();
        let (contexts, rest) = rest.split_once("current-context").unwrap();
        format!("{clusters}current-context{rest}contexts:\n{}", contexts.trim_end())
    };
    for (name, text) in [
        ("indented", indented),
        ("windows", windows),
        ("no line end", no_end),
        ("contexts last", last),
        ("document start", format!("---\n{FILE}")),
        ("json", json_file()),
    ] {
        let scene = Scene::new(&text);
        let before = parse(&text).unwrap();
        assert_eq!(scene.counts(&["m1"], None), (1, 0, 0), "{name}");
        let after = parse(&scene.text()).unwrap();
        assert_eq!(after["contexts"][1]["name"], "m1", "{name}");
        assert_eq!((&after["users"], &after["other"]), (&before["users"], &before["other"]), "{name}");
        assert_eq!(scene.counts(&["m1"], None), (0, 0, 0), "{name}");
        assert_eq!(scene.counts(&[], Some(&[])), (0, 0, 1), "{name}");
        assert_eq!(parse(&scene.text()).unwrap(), before, "{name}");
        if name == "windows" {
            assert!(!scene.text().replace("\r\n", "").contains('\n'));
        }
    }
}

#[test]
fn layouts_that_an_edit_could_break_are_refused() {
    let cluster = "{cluster: {server: 'https://h:6443'}, name: c}";
    let flow = format!(
        "clusters: [{cluster}]\ncontexts:\n- context: {{cluster: c, user: u}}\n  name: host\nusers: [{{name: u, user: {{}}}}]\n"
    );
    let quoted = FILE.replace("contexts:\n", "\"contexts\":\n");
    let block = FILE.replace("  note: 'kept'\n", "  note: |\n    text\n\n    # part of the text\n\n- x");
    for (name, text) in [
        ("flow", flow),
        ("quoted key", quoted),
        ("two documents", format!("{FILE}---\na: b\n")),
        ("broken", block),
    ] {
        let scene = Scene::new(&text);
        if ClusterContext::load(
            &HostOptions { context: Some("host".to_owned()), ..HostOptions::default() },
            &[(env::KUBECONFIG, scene.file())].into_iter().collect(),
        )
        .is_err()
        {
            continue;
        }
        let error = scene.merge(&["m1"], None).unwrap_err();
        assert!(error.hint.unwrap().to_string().contains("> members.yaml"));
        assert_eq!(scene.text(), text, "{name}");
    }
}

#[cfg(unix)]
#[test]
fn mode_and_symlink_stay_and_a_lock_is_respected() {
    use std::os::unix::fs::PermissionsExt;
    let scene = Scene::new(FILE);
    let real = scene.folder.path().join("real");
    std::fs::rename(scene.file(), &real).unwrap();
    std::os::unix::fs::symlink(&real, scene.file()).unwrap();
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).unwrap();
    scene.merge(&["m1"], None).unwrap();
    assert!(scene.file().is_symlink() && scene.text().contains("m1"));
    assert_eq!(real.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(
        std::fs::read_dir(scene.folder.path()).unwrap().count(),
        2,
        "no lock and no temporary file is left"
    );
    std::fs::write(scene.folder.path().join("real.lock"), "").unwrap();
    let error = scene.merge(&["m2"], None).unwrap_err();
    assert!(error.to_string().starts_with("another program is writing the kubeconfig"), "{error}");
    assert!(!scene.text().contains("m2"));
    assert!(scene.folder.path().join("real.lock").exists());
}
