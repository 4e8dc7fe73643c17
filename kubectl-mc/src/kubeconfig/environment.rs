//! Implements `kubectl mc env`: prints the command that makes the tools of a shell use a cluster.

use std::ffi::OsStr;
use std::io::IsTerminal;
use std::path::Path;

use super::overlay;
use super::selection::Chosen;
use crate::cache;
use crate::cli::{EnvArgs, Flags, ShellSyntax};
use crate::env::{self, Env};
use crate::error::{CommandLine, Failure};
use crate::exit::ExitStatus;
use crate::printer::Printer;

pub(crate) fn run(
    arguments: &EnvArgs,
    flags: &Flags,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let EnvArgs { clusters, shell, unset } = arguments;
    let syntax = shell.map_or_else(|| syntax(env), Ok)?;
    if *unset {
        let files = overlay::without_overlays(env);
        let files = files.map(std::env::join_paths).transpose();
        let value = files.map_err(|_| not_text(env::KUBECONFIG))?;
        let command = value.map(|value| assignment(syntax, &value)).transpose()?;
        printer.out(&command.unwrap_or_default());
        return Ok(ExitStatus::Success);
    }
    let chosen = Chosen::resolve(clusters, flags, env, printer)?;
    let shell = || CommandLine::new(format!("{} shell {}", chosen.kubectl_mc(), chosen.terms()));
    if chosen.files().iter().any(|file| cache::is_copy(file)) {
        return Err(Failure::usage(
            "the kubeconfig came through a pipe, and the environment of a shell needs a file that stays",
        )
        .with_hint(shell().after("save it in a file, or run the tools below it")));
    }
    if chosen.has_copies() {
        return Err(Failure::usage("the contexts come from several kubeconfigs, and a copy of their credentials would stay in a file").with_hint(shell().after("choose the contexts of one file, or run the tools below it")));
    }
    let overlay = cache::store_lasting(overlay::text(&chosen)?.as_bytes(), env)?;
    let list = overlay::list(&overlay, &chosen, env)?;
    printer.out(&assignment(syntax, &list)?);
    if std::io::stdout().is_terminal() {
        let command = format!("{} env {}", chosen.kubectl_mc(), chosen.terms());
        printer.note_line(&format!("to use it: {}", usage(syntax, &command)));
    }
    Ok(ExitStatus::Success)
}

/// The syntax of the user's shell.
fn syntax(env: &Env) -> Result<ShellSyntax, Failure> {
    let Some(shell) = env.var(env::SHELL) else {
        return Ok(if cfg!(windows) { ShellSyntax::Powershell } else { ShellSyntax::Sh });
    };
    let name = Path::new(shell).file_stem().and_then(OsStr::to_str).unwrap_or_default();
    Ok(match name {
        "sh" | "dash" | "ash" | "ksh" | "mksh" | "busybox" => ShellSyntax::Sh,
        "bash" => ShellSyntax::Bash,
        "zsh" => ShellSyntax::Zsh,
        "fish" => ShellSyntax::Fish,
        "pwsh" | "powershell" => ShellSyntax::Powershell,
        _ => {
            return Err(Failure::usage(format!("unknown shell {}", shell.display()))
                .with_hint("name a syntax: --shell=sh, bash, zsh, fish or powershell"));
        }
    })
}

/// The command that sets `KUBECONFIG`, or unsets it if the value is empty.
fn assignment(syntax: ShellSyntax, value: &OsStr) -> Result<String, Failure> {
    let name = env::KUBECONFIG;
    let text = value.to_str().ok_or_else(|| not_text(name))?;
    let quoted = quoted(syntax, text);
    Ok(match (syntax, text.is_empty()) {
        (ShellSyntax::Sh | ShellSyntax::Bash | ShellSyntax::Zsh, true) => format!("unset {name}\n"),
        (ShellSyntax::Sh | ShellSyntax::Bash | ShellSyntax::Zsh, false) => {
            format!("export {name}={quoted}\n")
        }
        (ShellSyntax::Fish, true) => format!("set -e {name}\n"),
        (ShellSyntax::Fish, false) => format!("set -gx {name} {quoted}\n"),
        (ShellSyntax::Powershell, true) => format!("Remove-Item Env:{name}\n"),
        (ShellSyntax::Powershell, false) => format!("$Env:{name} = {quoted}\n"),
    })
}

/// Quotes text in single quotes. Inside them only the quote itself is special, and in fish also `\`.
pub(super) fn quoted(syntax: ShellSyntax, text: &str) -> String {
    let text = match syntax {
        ShellSyntax::Sh | ShellSyntax::Bash | ShellSyntax::Zsh => text.replace('\'', r"'\''"),
        ShellSyntax::Fish => text.replace('\\', r"\\").replace('\'', r"\'"),
        // PowerShell also treats typographic quotes as quotes.
        ShellSyntax::Powershell => text
            .chars()
            .flat_map(|c| {
                std::iter::repeat_n(c, if "'\u{2018}\u{2019}\u{201a}\u{201b}".contains(c) { 2 } else { 1 })
            })
            .collect(),
    };
    format!("'{text}'")
}

/// How the user runs this command so that its output takes effect.
fn usage(syntax: ShellSyntax, command: &str) -> String {
    match syntax {
        ShellSyntax::Sh | ShellSyntax::Bash | ShellSyntax::Zsh => format!("eval \"$({command})\""),
        ShellSyntax::Fish => format!("{command} | source"),
        ShellSyntax::Powershell => format!("{command} | Out-String | Invoke-Expression"),
    }
}

fn not_text(name: &str) -> Failure {
    Failure::new(format!("cannot print {name}: it is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_81_value_round_trips_through_every_shell() {
        let value = OsStr::new(r"/a b/it's\n:/‘c’");
        for (syntax, expected) in [
            (ShellSyntax::Sh, "export KUBECONFIG='/a b/it'\\''s\\n:/‘c’'\n"),
            (ShellSyntax::Fish, "set -gx KUBECONFIG '/a b/it\\'s\\\\n:/‘c’'\n"),
            (ShellSyntax::Powershell, "$Env:KUBECONFIG = '/a b/it''s\\n:/‘‘c’’'\n"),
        ] {
            assert_eq!(assignment(syntax, value).unwrap(), expected);
        }
        assert_eq!(assignment(ShellSyntax::Zsh, OsStr::new("")).unwrap(), "unset KUBECONFIG\n");
    }

    #[test]
    fn syntax_follows_the_shell_of_the_user() {
        for (shell, expected) in [
            ("/usr/bin/zsh", Some(ShellSyntax::Zsh)),
            ("/opt/fish", Some(ShellSyntax::Fish)),
            ("/bin/dash", Some(ShellSyntax::Sh)),
            ("pwsh", Some(ShellSyntax::Powershell)),
            ("/bin/tcsh", None),
        ] {
            let env: Env = [(env::SHELL, shell)].into_iter().collect();
            assert_eq!(syntax(&env).ok(), expected, "{shell}");
        }
    }
}
