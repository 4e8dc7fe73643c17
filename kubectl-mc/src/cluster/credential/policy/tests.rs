use super::*;

fn rule(text: &str) -> Result<Option<Rule>, String> {
    parse::rule(&format!("apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\n{text}"))
}

#[test]
fn policy_is_that_of_the_first_preferences() {
    assert_eq!(rule("aliases: []"), Ok(None));
    assert_eq!(rule("credentialPluginPolicy: ''"), Ok(None));
    assert_eq!(rule("credentialPluginPolicy: DenyAll"), Ok(Some(Rule::DenyAll)));
    let two =
        "credentialPluginPolicy: DenyAll\n---\napiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\n";
    assert_eq!(rule(two), Ok(Some(Rule::DenyAll)));
    let after = "---\n---\napiVersion: v1\nkind: ConfigMap\n---\napiVersion: kubectl.config.k8s.io/v2\n\
                 kind: Preference\ncredentialPluginPolicy: DenyAll\n";
    assert_eq!(parse::rule(after), Ok(Some(Rule::DenyAll)));
    assert_eq!(parse::rule(""), Ok(None));
    assert_eq!(parse::rule("kind: Preference"), Err("no valid preferences found".to_owned()));
}

/// If the policy cannot be read, kubectl must run no credential plugin.
#[test]
fn unreadable_policy_denies_the_plugins_of_children() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kuberc");
    let env: Env = [(env::KUBERC, file.clone())].into_iter().collect();
    let scanned = crate::argv::scan(vec!["get".into()]);
    let of_children = |text: &str| {
        fs::write(&file, text).unwrap();
        without_preferences(&scanned, &env).map(|kuberc| String::from_utf8(kuberc).unwrap())
    };
    let denied = of_children("kind: Preference").unwrap();
    assert!(denied.contains(r#""credentialPluginPolicy":"DenyAll""#), "{denied}");
    assert_eq!(of_children("apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\naliases: []"), None);
}

#[cfg(unix)]
#[test]
fn allowlist_compares_the_files_that_run() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let make = |name: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    let (in_path, other) = (make("bin/login"), make("other/login"));
    let env: Env = [(env::PATH, folder.path().join("bin"))].into_iter().collect();
    let permits = |entry: &str, command: &Path| {
        let Ok(Some(rule)) = rule(&format!(
            "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: [{{command: {entry}}}]"
        )) else {
            panic!("{entry}")
        };
        let policy = Policy { file: "kuberc".into(), rule };
        let program = look_path(command.as_os_str(), &env);
        policy.check("jane", command, program.as_deref(), &env).map_err(|e| e.to_string())
    };
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    for (entry, command) in [
        ("login", Path::new("login")),
        ("login", &in_path),
        (&text(&in_path), Path::new("login")),
        (&text(&in_path), &in_path),
        // As in kubectl, the program need not exist.
        ("gone", Path::new("gone")),
    ] {
        assert_eq!(permits(entry, command), Ok(()), "{entry} {command:?}");
    }
    let refusal = |path: &Path| {
        Err(format!(
            "getting credentials of user \"jane\": plugin path {path:?} is not permitted by the credential plugin allowlist in kuberc"
        ))
    };
    assert_eq!(permits("login", &other), refusal(&other));
    assert_eq!(permits(&text(&other), Path::new("login")), refusal(&in_path));
    let gone = "getting credentials of user \"jane\": plugin path \"gone\" cannot be resolved for credential plugin \
                allowlist check in kuberc: no such file in PATH";
    assert_eq!(permits("login", Path::new("gone")), Err(gone.to_owned()));
}

#[test]
fn path_is_cleaned_as_by_go() {
    for (path, expected) in [
        ("a", "a"),
        ("/a/./b", "/a/b"),
        ("/a//b/../c/", "/a/c"),
        ("../a", "../a"),
        ("/..", "/"),
        ("", "."),
        ("a/..", "."),
    ] {
        assert_eq!(clean(Path::new(path)).to_str(), Some(expected), "{path}");
    }
}
