//! Tests the scripts of `kubectl mc completion` in real shells, on a terminal where a shell needs one.

use std::fs;
use std::process::Command;
use std::time::Duration;

use harness::pty::Terminal;

use super::{bed, complete, patient, put_in_path};
use crate::bed::{Bed, Ran};

/// zsh reads some hundred files before its first prompt.
const DEADLINE: Duration = Duration::from_secs(240);

/// A program that is installed on this machine, in the bed's environment.
fn program(bed: &Bed, name: &str, words: &[&str]) -> Command {
    let mut command = Command::new(name);
    let plugin = patient(bed, &[]);
    command.args(words).env_clear();
    command.envs(plugin.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(bed.path(""));
    command
}

/// Types text that ends with a tab, and waits until the screen shows the completed text.
fn types(terminal: &mut Terminal, typed: &str, shown: &str) {
    terminal.type_in(typed).unwrap();
    terminal.wait_until(shown, DEADLINE, |terminal| terminal.screen().contains(shown)).unwrap();
}

fn check(bed: &Bed, mut terminal: Terminal) {
    terminal.wait_until("ready", DEADLINE, |terminal| terminal.screen().contains("ready\n$")).unwrap();
    types(&mut terminal, "kmc -C eu-\t", "eu-2");
    types(&mut terminal, "1,u\t", "-C eu-1,us-1");
    types(&mut terminal, "\x15kubectl-mc --cluster=u\t", "--cluster=us-1");
    types(&mut terminal, "get __com\t", "__complete+get+__com");
    types(&mut terminal, "\x15kmc --dry\t", "kmc --dry-run=");
    types(&mut terminal, "c\t", "--dry-run=clusters");
    fs::write(bed.path("a-file"), "").unwrap();
    types(&mut terminal, "\x15kmc --kubeconfig a-\t", "--kubeconfig a-file");
}

#[test]
fn bash_completes_by_the_script() {
    let bed = bed();
    put_in_path(&bed);
    let rc = "PS1='$ '\nbind 'set enable-bracketed-paste off'\nbind 'set show-all-if-ambiguous on'\nsource <(kubectl-mc completion bash)\necho ready\n";
    fs::write(bed.path("rc"), rc).unwrap();
    let rc = bed.path("rc").display().to_string();
    let bash = program(&bed, "bash", &["--noprofile", "--rcfile", &rc, "-i"]);
    check(&bed, Terminal::of(&bash, 40, 100).unwrap());
}

#[test]
fn zsh_completes_by_the_script() {
    let bed = bed();
    put_in_path(&bed);
    let rc = "PS1='$ '\nunset zle_bracketed_paste\nautoload -Uz compinit && compinit -u\n\
              source <(kubectl-mc completion zsh)\necho ready\n";
    fs::create_dir_all(bed.path("home")).unwrap();
    fs::write(bed.path("home/.zshrc"), rc).unwrap();
    check(&bed, Terminal::of(&program(&bed, "zsh", &["-d", "-i"]), 40, 100).unwrap());
}

#[test]
fn fish_completes_by_the_script() {
    let bed = bed();
    put_in_path(&bed);
    fs::write(bed.path("a-file"), "").unwrap();
    let complete = |line: &str| {
        let script = format!("kubectl-mc completion fish | source; complete -C '{line}'");
        let ran: Ran = program(&bed, "fish", &["--no-config", "-c", &script]).output().unwrap().into();
        assert_eq!(ran.err, "", "{line}");
        ran.out
    };
    assert_eq!(complete("kmc -C eu"), "eu-1\tv1.34.4\neu-2\tnot ready\n");
    assert_eq!(complete("kmc -C eu-1,u"), "eu-1,us-1\n");
    assert_eq!(complete("kubectl-mc --cluster=u"), "--cluster=us-1\n");
    assert_eq!(complete("kmc -C us-1 get __com"), "__complete+get+__com+on:us-1\n");
    assert_eq!(complete("kmc --dry"), "--dry-run=\tShow the clusters and the commands, and run nothing (kubectl\\'s own --dry-run is not affected)\n".replace("\\'", "'"));
    assert_eq!(complete("kmc --kubeconfig a-"), "a-file\n");
}

/// The script itself is not run: no PowerShell is installed where the tests run.
#[test]
fn powershell_script_has_its_parts() {
    let bed = bed();
    let script = bed.run(&["completion", "powershell"]).out;
    for part in [
        "'kubectl-mc', 'kmc'",
        "kubectl-mc __complete @arguments 2>$null",
        // The directive against file names.
        "-not $found -and ($directive -band 4)",
        // Characters with a special meaning in PowerShell, after a backquote.
        r#"-replace '[\s#@$;,''{}()"`|<>&\u2018-\u201e]', '`$&'"#,
        // An empty argument of older versions.
        r#"'""'"#,
    ] {
        assert!(script.contains(part), "{part}: {script}");
    }
    // It would run a `$(…)` in the typed line.
    assert!(!script.contains("Invoke-Expression"), "{script}");
    assert_eq!(complete(&bed, &["completion", "pow"]), ["powershell", ":4"]);
}

#[test]
fn completion_takes_no_cluster() {
    let bed = bed();
    let ran = bed.run(&["-C", "eu-1", "completion", "bash"]);
    let (code, said) = ran.failed();
    assert!(code == 2 && said.contains("kubectl completion SHELL"), "{said}");
    assert_eq!(bed.run_with("KUBECTL_MC_CLUSTER", "eu-1", &["completion", "bash"]).code, Some(0));
}
