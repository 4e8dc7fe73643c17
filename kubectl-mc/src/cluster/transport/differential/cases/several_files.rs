//! Kubeconfigs that consist of several files.

use super::config;
use crate::cluster::transport::differential::{ClientGo, Question, compare, plugin, write};

#[test]
fn several_files_are_merged_as_kubectl_does() {
    let mut client_go = ClientGo::start();
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    write(folder.path(), "token", b"outer");
    write(&folder.path().join("sub"), "token", b"inner");
    let first = write(folder.path(), "first", config("", "tokenFile: token").as_bytes());
    let second = write(
        &folder.path().join("sub"),
        "config",
        config("tls-server-name: x.example", "tokenFile: token").as_bytes(),
    );
    let contexts = write(
        folder.path(),
        "contexts",
        b"contexts: [{name: c, context: {cluster: k, user: v, namespace: n}}]\n",
    );
    let broken = write(folder.path(), "broken", b"users: [");
    let missing = folder.path().join("missing");
    let mut ask = |files: &[&std::path::PathBuf]| {
        let files = files.iter().map(|file| (*file).clone()).collect();
        let question = Question { files, context: "c".to_owned(), ..Question::default() };
        compare(&mut client_go, &question).unwrap_or_else(|difference| panic!("{difference}"))
    };
    assert_eq!(ask(&[&first, &second]).headers, Some(vec!["authorization: Bearer outer".to_owned()]));
    assert_eq!(ask(&[&second, &first]).headers, Some(vec!["authorization: Bearer inner".to_owned()]));
    assert_eq!(ask(&[&missing, &second, &second]).server_name, "x.example");
    assert!(!ask(&[&first, &broken]).error.is_empty());
    // The user of the first file's context does not exist, which the plugin refuses.
    assert!(!plugin_error(&[&contexts, &first]).is_empty());
}

fn plugin_error(files: &[&std::path::PathBuf]) -> String {
    let files = files.iter().map(|file| (*file).clone()).collect();
    plugin(&Question { files, context: "c".to_owned(), ..Question::default() }).error
}
