//! Shells that read an attacker's names: what Tab offers, and what `env` and `shell` make of a
//! name.

use anyhow::{Result, ensure};
use harness::hostile::hubs::{GOOD, Hub, Lie};
use harness::hostile::shells::{CANARY, Shell, offered_by_old_bash};
use harness::hostile::texts;
use harness::pty::Terminal;
use harness::tool::Tool;
use harness::wait::SOON;

use super::{PLUGIN, Victim};

/// A shell of the victim, whose kubeconfig is the plugin's.
fn shell(victim: &Victim, hub: &Hub, shell: Shell) -> Result<Tool> {
    victim.with(hub.kubeconfig().as_bytes())?;
    let list = std::env::join_paths([victim.path("of-the-attacker"), victim.path(super::REAL)])?;
    let tool = Tool::client(shell.program().into(), &harness::caller::Caller::token("theo")?)?;
    Ok(tool
        .env("KUBECONFIG", list)
        .env("PATH", victim.programs()?)
        .env("ZDOTDIR", victim.path(""))
        .env("KUBECTL_MC_COMPLETION_TIMEOUT", "30s"))
}

#[test]
fn fault_81_tab_runs_no_name_of_a_hub() -> Result<()> {
    let victim = Victim::new()?;
    let hub = Hub::start(Lie::Names, &victim.trap)?;
    let plugin = victim.with(hub.kubeconfig().as_bytes())?;
    let folder = victim.path("old-bash");
    std::fs::create_dir(&folder)?;
    for words in [
        &["__complete", "-C", ""][..],
        &["__complete", "-C", GOOD, "get", "pods", ""],
        &["__complete", "use", ""],
        &["__complete", "-C", GOOD, "logs", "web", "-c", ""],
    ] {
        let answer = victim.runs(&plugin, words)?.success()?;
        let shown = offered_by_old_bash(&answer, &folder)?;
        ensure!(!folder.join(CANARY).exists(), "{words:?} ran a command: {answer:?}");
        ensure!(shown.contains(GOOD) || words.contains(&"-c"), "{words:?}: {answer:?}");
    }
    for kind in [Shell::Bash, Shell::Zsh] {
        let tool = shell(&victim, &hub, kind)?;
        let mut terminal = Terminal::start(&tool, &kind.interactive(&victim.path(""))?, 40, 120)?;
        let shows = |terminal: &mut Terminal, text: &str| {
            terminal.wait_until(text, 4 * SOON, |terminal| terminal.screen().contains(text))
        };
        shows(&mut terminal, "ready\n$")?;
        terminal.type_in("kubectl mc -C \t")?;
        shows(&mut terminal, &format!("kubectl mc -C {GOOD}"))?;
        terminal.type_in(&format!("\x15kubectl mc -C {GOOD} get pods good\t"))?;
        shows(&mut terminal, &format!("get pods {GOOD}"))?;
        ensure!(!tool.home().join(CANARY).exists(), "{kind:?} ran a command");
        victim.is_safe(&[kind.program()])?;
    }
    let fish = shell(&victim, &hub, Shell::Fish)?;
    for line in ["kubectl mc -C ".to_owned(), format!("kubectl mc -C {GOOD} get pods good")] {
        let script = format!("kubectl completion fish | source; complete -C '{line}'");
        let offered = fish.ok(&["--no-config", "-c", &script])?;
        ensure!(offered.lines().count() == 1 && offered.starts_with(GOOD), "{line:?}: {offered:?}");
        ensure!(!fish.home().join(CANARY).exists(), "fish ran a command");
    }
    Ok(())
}

#[test]
fn fault_81_shell_runs_no_name_that_env_prints() -> Result<()> {
    let victim = Victim::new()?;
    let hub = Hub::start(Lie::Names, &victim.trap)?;
    let plugin = victim.with(hub.kubeconfig().as_bytes())?;
    for kind in Shell::ALL {
        let tool = shell(&victim, &hub, kind)?;
        for name in texts::commands() {
            let output = tool.run(&kind.evaluates(PLUGIN, &name))?;
            ensure!(!tool.home().join(CANARY).exists(), "{kind:?} ran {name:?}: {output:?}");
            ensure!(!output.text().contains("contexts-"), "{kind:?} takes {name:?}: {output:?}");
        }
        let output = tool.run(&kind.evaluates(PLUGIN, GOOD))?;
        ensure!(output.text().contains("/kubectl-mc/contexts-"), "{kind:?}: {output:?}");
    }
    for name in texts::commands() {
        for words in [&["shell", "--", "true"][..], &["env"], &["get", "pods"], &["use"]] {
            let chosen = format!("--cluster={name}");
            // `use` takes its name as an argument.
            let words =
                if words == ["use"] { vec!["use", "--", &name] } else { [&[&chosen[..]], words].concat() };
            let output = victim.runs(&plugin, &words);
            let output = match output {
                Ok(output) => output,
                Err(error) => {
                    victim.note(&name, Err(error));
                    continue;
                }
            };
            ensure!(output.code != 0 || name.starts_with('-') || name.is_empty(), "{words:?}: {output:?}");
        }
    }
    victim.judge()
}
