use std::fs;
use std::os::unix::fs::symlink;

use super::*;
use crate::cluster::context::User;

fn kubeconfig(server: &str, token: &str) -> String {
    format!(
        "clusters: [{{name: c, cluster: {{server: 'https://{server}', certificate-authority: ca.crt}}}}]\n\
         contexts: [{{name: admin, context: {{cluster: c, user: u}}}}]\nusers: [{{name: u, user: {{token: {token}}}}}]\n"
    )
}

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// The names, each with its server or with `-` if it cannot be used.
fn names(dirs: &[PathBuf]) -> Result<Vec<String>, HostError> {
    let shown = |context: &KubeconfigContext| match context.cluster.check_usable() {
        Ok(()) => format!("{} {}", context.raw_name(), context.cluster.server),
        Err(_) => format!("{} -", context.raw_name()),
    };
    Ok(contexts(dirs)?.all.iter().map(shown).collect())
}

#[test]
fn context_uses_the_entries_of_its_own_file() {
    let (eu, us) = (kubeconfig("eu", "of-eu"), kubeconfig("us", "of-us"));
    let only =
        eu.replace("admin", "only").replace("https://eu", "https://only").replace("user: u}", "user: x}");
    let folder = folder(&[("eu.yaml", &eu), ("us", &us), ("only.conf", &only)]);
    let dirs = [folder.path().to_owned()];
    assert_eq!(names(&dirs).unwrap(), ["eu/admin https://eu", "only https://only", "us/admin https://us"]);
    for context in contexts(&dirs).unwrap().all {
        let ClusterContext { context: name, kubeconfig, cluster, files, user, .. } = &context.cluster;
        let place = context.raw_name().split('/').next().unwrap();
        let own = kubeconfig.auth_infos.iter().find(|user| user.name == "u");
        let token = own.and_then(|user| user.auth_info.as_ref()?.token.clone());
        let token = token.map(|token| secrecy::ExposeSecret::expose_secret(&token).to_owned());
        // A user that is missing in its own file is not taken from another file.
        let expected = (place != "only").then(|| format!("of-{place}"));
        assert_eq!(token, expected, "{place}");
        assert_eq!((kubeconfig.contexts.len(), kubeconfig.clusters.len()), (1, 1));
        assert_eq!(name.as_deref(), Some(if place == "only" { "only" } else { "admin" }));
        assert_eq!(cluster.certificate_authority.as_deref(), folder.path().join("ca.crt").to_str());
        assert_eq!(files.len(), 1);
        assert!(matches!(user, User::Named(Some(_))));
    }
}

#[test]
fn files_are_those_of_folders_and_globs() {
    let text = |name: &str| kubeconfig(name, "t").replace("admin", name);
    let folder = folder(&[
        ("k/a.yaml", &text("a")),
        ("k/b.conf", &text("b")),
        ("k/.hidden.yaml", &text("hidden")),
        ("k/below/c.yaml", &text("c")),
        ("l/c.yaml", &text("l")),
        ("x[1].yaml", &text("x")),
        ("x1.yaml", &text("y")),
    ]);
    symlink(folder.path().join("k/a.yaml"), folder.path().join("k/link.yaml")).unwrap();
    let at = |dirs: &[&str]| {
        let dirs: Vec<_> = dirs.iter().map(|dir| folder.path().join(dir)).collect();
        names(&dirs).map(|names| names.iter().map(|name| name[..1].to_owned()).collect::<String>())
    };
    for (dirs, expected) in [
        (&["k"][..], "ab"),
        (&["k/*.yaml"], "a"),
        (&["*/c.yaml"], "l"),
        (&["k/b*/c.yaml", "l"], "cl"),
        (&["k/[!a]*"], "ab"),
        (&["k/.h*"], "h"),
        (&["k/b.conf", "k"], "ab"),
        (&["x[1].yaml"], "x"),
    ] {
        assert_eq!(at(dirs).unwrap(), expected, "{dirs:?}");
    }
    assert!(matches!(at(&["k/*.json"]), Err(HostError::NoFiles { .. })));
    assert!(matches!(at(&["k/[]"]), Err(HostError::InvalidGlob { .. })));
    assert!(matches!(at(&["missing"]), Err(HostError::Read { .. })));
    assert!(matches!(at(&["k", "k/missing.yaml"]), Err(HostError::Read { .. })));
}

#[test]
fn unreadable_files_are_contexts_and_others_are_skipped() {
    let folder = folder(&[
        ("a.yaml", &kubeconfig("a", "t")),
        ("ca.crt", "-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n"),
        ("pod.yaml", "apiVersion: v1\nkind: Pod\n"),
        ("empty", ""),
        ("cut.yaml", "clusters: [{name: c"),
        ("kind.yaml", "kind: Other\ncontexts: []\n"),
        ("no-server.yaml", "contexts: [{name: none, context: {cluster: gone}}]"),
    ]);
    symlink("nowhere", folder.path().join("link")).unwrap();
    let expected = ["admin https://a", "cut.yaml -", "kind.yaml -", "link -", "none -"];
    assert_eq!(names(&[folder.path().to_owned()]).unwrap(), expected);
    let skipped = contexts(&[folder.path().to_owned()]).unwrap().skipped;
    let skipped: Vec<_> = skipped.iter().map(|text| text.rsplit('/').next().unwrap()).collect();
    assert_eq!(
        skipped,
        [
            "ca.crt is skipped: it is no kubeconfig: the file is a text and not a map",
            "empty is skipped: it has no contexts",
            "pod.yaml is skipped: it is no kubeconfig: no kind \"Pod\" is registered for version \"v1\"",
        ]
    );
    // A file that the user names is not skipped.
    for name in ["ca.crt", "pod.yaml", "empty"] {
        assert_eq!(names(&[folder.path().join(name)]).unwrap(), [format!("{name} -")]);
    }
}
