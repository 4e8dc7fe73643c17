//! The login is stored in the keyring: a real Secret Service (gnome-keyring) on the test's own
//! D-Bus.

use std::path::Path;

use anyhow::{Result, ensure};
use harness::bed::kubectl;
use harness::caller::Caller;
use harness::script;
use harness::tool::Tool;

use super::Person;

/// Runs a bash script in a session with an unlocked keyring, with kubectl as KUBECTL.
fn in_session(person: &Person, text: &str, input: &str) -> Result<String> {
    let path = person.plugin.home().join("session");
    let head = "#!/usr/bin/env bash\nset -euo pipefail\nprintf password | gnome-keyring-daemon --unlock --components=secrets >/dev/null\n";
    let text = text.replace("KUBECTL", &kubectl()?.display().to_string());
    script::write(&path, &format!("{head}{text}"))?;
    let plugin = Path::new(env!("CARGO_BIN_EXE_kubectl-mc"));
    let folder = plugin.parent().unwrap_or(plugin).display();
    let search = format!("{folder}:{}", std::env::var("PATH")?);
    let tool = Tool::client("dbus-run-session".into(), &Caller::token("theo")?)?;
    let tool =
        tool.env("HOME", person.plugin.home()).env("KUBECONFIG", person.plugin.home().join("kubeconfig"));
    let tool = tool.env("PATH", search).env("XDG_RUNTIME_DIR", person.plugin.home());
    let path = path.display().to_string();
    tool.run_with_input(&["--", &path], input.as_bytes())?.success()
}

#[test]
fn login_is_in_the_keyring_and_in_no_file() -> Result<()> {
    let person = Person::new()?;
    let robot = Caller::service_account("e2e-login-keyring", "robot")?;
    let token = robot.token.clone().unwrap_or_default();
    let text = "kubectl-mc login --token-file=- 2>&1\nls -A \"$HOME/.local/state/kubectl-mc\"\n\
                KUBECTL auth whoami -o 'jsonpath={.status.userInfo.username}{\"\\n\"}'\n\
                kubectl-mc logout 2>&1\nkubectl-mc logout 2>&1 || true\n";
    let output = in_session(&person, text, &token)?;
    let lines: Vec<_> = output.lines().collect();
    ensure!(lines.len() == 6, "{output}");
    ensure!(lines[1].starts_with("the credential is in the keyring, and "), "{output}");
    ensure!(lines[2].ends_with(".lock") && lines[3] == robot.user, "{output}");
    ensure!(lines[4].starts_with("logged out of ") && lines[5].contains("stored no credential"), "{output}");
    ensure!(person.file().is_err() && !output.contains(&token));
    Ok(())
}

#[test]
fn login_to_a_file_clears_the_keyring() -> Result<()> {
    let person = Person::new()?;
    let robot = Caller::service_account("e2e-login-both", "robot")?;
    let token = robot.token.clone().unwrap_or_default();
    let text = "cat >~/token\nkubectl-mc login --token-file=$HOME/token --credential-store=keyring 2>&1\n\
                kubectl-mc login --token-file=$HOME/token --credential-store=file 2>&1\n\
                rm ~/.local/state/kubectl-mc/*.json\nKUBECTL auth whoami 2>&1 || true\n";
    let output = in_session(&person, text, &token)?;
    ensure!(
        output.contains("the credential is in the keyring") && output.contains("which only you can read"),
        "{output}"
    );
    ensure!(output.contains("error: there is no login for https://"), "{output}");
    Ok(())
}
