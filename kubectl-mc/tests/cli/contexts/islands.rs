//! Tests `--kubeconfig-dir`, where the files are independent of each other: all contexts, users and
//! clusters have the same name.

use std::fs;

use insta::assert_snapshot;
use serde_json::json;

use super::{bed, rendered, secure_bed};
use crate::bed::Bed;
use crate::completion::complete;

/// Two files with equal names, one with a unique name, and something else.
fn files(bed: &Bed) {
    fs::create_dir_all(bed.path("k")).unwrap();
    for (file, context, cluster) in
        [("eu.yaml", "admin", "a"), ("us.yaml", "admin", "b"), ("only", "only", "a")]
    {
        let text = json!({
            "clusters": [{"name": "kubernetes", "cluster": bed.cluster_below(cluster)}],
            "users": [{"name": "admin", "user": {"token": format!("token-of-{file}")}}],
            "contexts": [{"name": context, "context": {"cluster": "kubernetes", "user": "admin"}}],
            "current-context": context,
        });
        fs::write(bed.path("k").join(file), text.to_string()).unwrap();
    }
    fs::write(bed.path("k/README.md"), "How to use these files\n").unwrap();
}

fn shown(bed: &Bed, words: &[&str]) -> String {
    let folder = format!("{}/", bed.path("").display());
    rendered(&bed.run(words)).replace(bed.server(), "SERVER").replace(&folder.replace("//", "/"), "BED/")
}

#[test]
fn equal_names_of_files_keep_their_own_server_and_credential() {
    let bed = secure_bed();
    files(&bed);
    let ran = bed.run(&["--contexts", "--kubeconfig-dir", "k/*.yaml", "--all-clusters", "get", "pods"]);
    assert_snapshot!(rendered(&ran), @r"
    exit code: 0
    ----- stdout -----
    CLUSTER    NAME
    eu/admin   web-of-a
    us/admin   web-of-b
    ----- stderr -----
    ");
    let requests = bed.requests();
    for (path, token) in [("/pre/a/", "token-of-eu.yaml"), ("/pre/b/", "token-of-us.yaml")] {
        let of_path: Vec<_> = requests.iter().filter(|head| head.contains(path)).collect();
        assert!(!of_path.is_empty() && of_path.iter().all(|head| head.contains(token)), "{requests:?}");
    }
    // A kubectl that shows its server and its user, and the credential in the file that has the user.
    bed.kubectl(
        r#"own() { grep -o "\"$1\":\"[^\"]*\"" "${KUBECONFIG%%:*}" | cut -d'"' -f4; }
        echo "$(own server | grep -o '/pre/.*') $(own user) $(grep -o 'token-of-[a-z.]*' "${KUBECONFIG#*:}")""#,
    );
    for (choice, expected) in [
        (&["--contexts", "-C", "eu/admin"][..], "/pre/a admin token-of-eu.yaml\n"),
        (&["--contexts", "-C", "us/*"], "us/admin | /pre/b admin token-of-us.yaml\n"),
        (&["-C", "context:only"], "/pre/a admin token-of-only\n"),
    ] {
        for command in [&["describe", "pods"][..], &["exec", "web", "--yes", "--", "id"]] {
            let ran = bed.run(&[&["--kubeconfig-dir=k"], choice, command].concat());
            assert_eq!(ran.out, expected, "{ran:?}");
        }
    }
}

#[test]
fn contexts_of_files_are_listed_and_completed() {
    let bed = bed();
    files(&bed);
    assert_snapshot!(shown(&bed, &["clusters", "--contexts", "--kubeconfig-dir=k"]), @r"
    exit code: 0
    ----- stdout -----
    NAME       SERVER                         USER    NAMESPACE
    eu/admin   SERVER/pre/a   admin   default
    only       SERVER/pre/a   admin   default
    us/admin   SERVER/pre/b   admin   default
    ----- stderr -----
    note: k/README.md is skipped: it is no kubeconfig: the file is a text and not a map
    ");
    assert_snapshot!(shown(&bed, &["clusters", "--contexts", "--kubeconfig-dir=k/only,k/us.yaml", "-o", "name"]), @r"
    exit code: 0
    ----- stdout -----
    admin
    only
    ----- stderr -----
    ");
    let words = complete(&bed, &["--contexts", "--kubeconfig-dir=k", "-C", ""]);
    assert_eq!(words.join(" "), "eu/admin only us/admin :4");
    // The key of the configuration, relative to its file.
    fs::create_dir_all(bed.path("home/.config/kubectl-mc")).unwrap();
    let config = "defaults:\n  kubeconfigDir: ['../../../k/*.yaml']\n";
    fs::write(bed.path("home/.config/kubectl-mc/config.yaml"), config).unwrap();
    let list = |words: &[&str]| bed.run(&[&["clusters", "--contexts", "-o", "name"], words].concat()).out;
    assert_eq!(list(&[]), "eu/admin\nus/admin\n");
    assert_eq!(list(&["--kubeconfig-dir=~/../k/only"]), "only\n");
    assert_eq!(list(&["--kubeconfig=k/only"]), "only\n");
}

#[test]
fn file_that_cannot_be_read_fails_where_it_may_be_meant() {
    let bed = secure_bed();
    files(&bed);
    fs::write(bed.path("k/cut.yaml"), "clusters: [{name: c").unwrap();
    let get = |choice: &[&str]| {
        shown(&bed, &[&["--contexts", "--kubeconfig-dir=k/*.yaml"], choice, &["get", "pods"]].concat())
    };
    assert_snapshot!(get(&["--all-clusters"]), @r"
    exit code: 4
    ----- stdout -----
    CLUSTER    NAME
    eu/admin   web-of-a
    us/admin   web-of-b
    ----- stderr -----
    cut.yaml | error: cannot set up the connection: cannot parse kubeconfig k/cut.yaml: line 1 column 12: unclosed bracket '{'
    1 of 3 clusters failed: 1 failed (cut.yaml)
    ");
    let ran = get(&["-C", "eu/*"]);
    assert!(
        ran.starts_with("exit code: 4\n") && ran.contains("1 of 2 clusters failed: 1 failed (cut.yaml)\n"),
        "{ran}"
    );
    assert_snapshot!(get(&["-C", "cut.yaml"]), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: cannot parse kubeconfig k/cut.yaml: line 1 column 12: unclosed bracket '{'
    hint: mend the file, or leave it out: --exclude=NAME, or a glob for --kubeconfig-dir
    ");
    // Contexts that are not selected do not fail.
    for choice in [&["-C", "eu/admin,us/admin"][..], &["--all-clusters", "--exclude=cut.yaml"]] {
        assert!(get(choice).starts_with("exit code: 0\n"), "{}", get(choice));
    }
    assert_snapshot!(shown(&bed, &["--contexts", "--kubeconfig-dir=k/*.yaml", "-C", "*", "describe", "pods"]), @r"
    exit code: 4
    ----- stdout -----
    eu/admin | [describe --context=mc/eu/admin pods] on mc/eu/admin
    us/admin | [describe --context=mc/us/admin pods] on mc/us/admin
    ----- stderr -----
    cut.yaml | error: cannot set up the connection: cannot parse kubeconfig k/cut.yaml: line 1 column 12: unclosed bracket '{'
    1 of 3 clusters failed: 1 failed (cut.yaml)
    ");
    assert_snapshot!(shown(&bed, &["clusters", "--contexts", "--kubeconfig-dir=k/*.yaml", "-o", "name"]), @r"
    exit code: 4
    ----- stdout -----
    eu/admin
    us/admin
    ----- stderr -----
    error: cut.yaml: cannot parse kubeconfig k/cut.yaml: line 1 column 12: unclosed bracket '{'
    ");
}

#[test]
fn shell_has_the_users_of_several_files() {
    let bed = bed();
    files(&bed);
    let shows = ["--", "sh", "-c", "cat \"$KUBECONFIG\""];
    let ran =
        bed.run(&[&["shell", "--contexts", "--kubeconfig-dir=k", "eu/admin,us/admin"], &shows[..]].concat());
    assert_snapshot!(ran.out.replace(bed.server(), "SERVER"), @r"
    apiVersion: v1
    clusters:
    - cluster:
        server: SERVER/a
      name: mc/eu/admin
    - cluster:
        server: SERVER/b
      name: mc/us/admin
    contexts:
    - context:
        cluster: mc/eu/admin
        extensions:
        - extension:
            context: mc/eu/admin
          name: kubectl-mc.dev/host
        user: mc/eu/admin
      name: mc/eu/admin
    - context:
        cluster: mc/us/admin
        extensions:
        - extension:
            context: mc/us/admin
          name: kubectl-mc.dev/host
        user: mc/us/admin
      name: mc/us/admin
    current-context: mc/eu/admin
    kind: Config
    users:
    - name: mc/eu/admin
      user:
        token: token-of-eu.yaml
    - name: mc/us/admin
      user:
        token: token-of-us.yaml
    ");
    // One file is referenced, and its users are not copied.
    let list = ["--", "sh", "-c", "cat \"${KUBECONFIG%%:*}\"; echo \"${KUBECONFIG#*:}\""];
    let ran = bed.run(&[&["shell", "--contexts", "--kubeconfig-dir=k", "eu/admin"], &list[..]].concat());
    assert!(!ran.out.contains("token") && ran.out.ends_with("/k/eu.yaml\n"), "{ran:?}");
    assert_snapshot!(shown(&bed, &["env", "--contexts", "--kubeconfig-dir=k", "*/admin"]), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    note: k/README.md is skipped: it is no kubeconfig: the file is a text and not a map
    error: the contexts come from several kubeconfigs, and a copy of their credentials would stay in a file
    hint: choose the contexts of one file, or run the tools below it: kubectl mc --kubeconfig-dir=k shell context:eu/admin,context:us/admin
    ");
}

#[test]
fn folders_without_a_choice_of_contexts_are_refused() {
    let bed = bed();
    files(&bed);
    for words in [&["--kubeconfig-dir=k", "-C", "m1", "get", "pods"][..], &["clusters", "--kubeconfig-dir=k"]]
    {
        let ran = bed.run(words);
        let expected = "error: --kubeconfig-dir names files of contexts, and no context is chosen\n";
        assert!(ran.code == Some(2) && ran.err.starts_with(expected), "{ran:?}");
    }
    assert_snapshot!(shown(&bed, &["--contexts", "--kubeconfig-dir=k", "--kubeconfig=k/only", "get", "pods"]), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: --kubeconfig-dir and --kubeconfig contradict each other
    hint: name the file as one of --kubeconfig-dir too
    ");
    assert_snapshot!(shown(&bed, &["--contexts", "--kubeconfig-dir=k/*.json", "get", "pods"]), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: no file matches --kubeconfig-dir=k/*.json
    hint: name a folder, a file or a glob, as in --kubeconfig-dir='~/.kube/clusters/*.yaml'
    ");
}
