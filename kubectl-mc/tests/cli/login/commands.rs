//! Tests logins whose credential a command prints, and its renewal by concurrent processes.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};

use super::Scene;
use crate::bed::Ran;

impl Scene {
    /// A command that counts its runs and prints an ExecCredential with the number.
    fn counting(&self) -> String {
        let counter = self.bed.path("runs");
        let script = format!(
            "#!/bin/sh\necho run >> {counter}\nsleep 0.2\nn=$(wc -l < {counter} | tr -d ' ')\n\
             echo '{{\"status\": {{\"token\": \"'$1$WORD$n'\", \"expirationTimestamp\": \"2100-01-01T00:00:00Z\"}}}}'\n",
            counter = counter.display()
        );
        self.bed.script("counting", &script).display().to_string()
    }

    fn runs(&self) -> usize {
        fs::read_to_string(self.bed.path("runs")).unwrap_or_default().lines().count()
    }
}

#[test]
fn expired_credential_runs_the_command_once_for_all_processes() {
    let scene = Scene::new(201);
    let command = scene.counting();
    let ran = scene.bed.run(&["login", "--", &command, "t"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!((scene.token().as_str(), scene.runs()), ("t1", 1));
    scene.expire();
    let info = scene.info();
    let start = |_| {
        let mut command = scene.plugin(&info);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let processes: Vec<_> = (0..8).map(start).collect();
    for process in processes {
        let output = process.wait_with_output().unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["status"]["token"], "t2", "{output:?}");
    }
    assert_eq!(scene.runs(), 2);
}

#[test]
fn renewed_credential_that_cannot_be_stored_is_used() {
    let scene = Scene::new(201);
    let counting = scene.counting();
    scene.bed.run(&["login", "--", &counting, "t"]);
    let mut plugin = scene.plugin(&scene.info());
    scene.expire();
    // The command works once more, and removes the folder of the logins.
    let folder = scene.file().unwrap().parent().unwrap().display().to_string();
    let script = scene.bed.read("counting");
    scene.bed.script("counting", &format!("{script}mv {folder} {folder}-gone; touch {folder}\n"));
    let ran = Ran::from(plugin.output().unwrap());
    assert!(ran.code == Some(0) && ran.out.contains("\"t2\""), "{ran:?}");
    assert!(
        ran.err.contains("warning: the renewed credential for ") && ran.err.contains(" was not stored: "),
        "{ran:?}"
    );
    assert!(ran.err.ends_with(": kubectl mc login\n"), "{ran:?}");
}

#[test]
fn failing_command_keeps_the_stored_credential() {
    let scene = Scene::new(201);
    let command = scene.bed.script("failing", "#!/bin/sh\necho secret\necho why >&2\nexit 3\n");
    let command = command.display().to_string();
    let ran = scene.bed.run(&["login", "--", &command]);
    assert_eq!(ran.failed(), (1, format!("why\nerror: {command} failed: exit status: 3\n").as_str()));
    assert_eq!(scene.file(), None);
    let counting = scene.counting();
    scene.bed.run(&["login", "--", &counting, "t"]);
    scene.expire();
    scene.bed.script("counting", "#!/bin/sh\nexit 4\n");
    let stored = fs::read(scene.file().unwrap()).unwrap();
    let ran = scene.credential(&scene.info());
    assert!(ran.code == Some(1) && ran.err.contains("failed: exit status: 4"), "{ran:?}");
    assert_eq!(fs::read(scene.file().unwrap()).unwrap(), stored);
}

#[test]
fn wrapped_plugin_is_cached_and_keeps_its_variables() {
    let scene = Scene::new(201);
    let command = scene.counting();
    scene.kubeconfig(&json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1beta1", "command": command, "args": ["a"],
        "env": [{"name": "WORD", "value": "-word-"}], "interactiveMode": "IfAvailable",
    }}));
    let ran = scene.bed.run(&["login", "--cache-plugin"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let exec = scene.exec();
    assert_eq!(exec["apiVersion"], "client.authentication.k8s.io/v1beta1");
    assert_eq!(exec["args"].as_array().unwrap()[3..], [json!("--"), json!(command), json!("a")]);
    assert_eq!((scene.token(), scene.token(), scene.runs()), ("a-word-1".into(), "a-word-1".into(), 1));
    scene.expire();
    assert_eq!((scene.token(), scene.runs()), ("a-word-2".into(), 2));
    // Another login runs the same plugin, and does not wrap the credential plugin in itself.
    assert_eq!(scene.bed.run(&["login"]).code, Some(0));
    assert_eq!((scene.token(), scene.exec()), ("a-word-3".into(), exec));
    let ran = scene.bed.run(&["login", "--cache-plugin"]);
    assert!(
        ran.code == Some(2) && ran.err.contains("has no credential plugin of another program"),
        "{ran:?}"
    );
    scene.bed.run(&["logout"]);
    assert_eq!(scene.exec()["command"], command);
}
