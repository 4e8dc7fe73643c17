//! Starts interactive shells with the names of the clusters in the prompt. The user's own startup files are
//! read first; a `KUBECONFIG` that they set is overridden. Other shells only get the environment.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use crate::cli::ShellSyntax;
use crate::env::{self, Env};
use crate::error::Failure;
use crate::kubeconfig::environment::quoted;
use crate::multi::RunFolder;

/// The shell, which reads its startup files from the folder of the run.
pub(super) fn interactive(
    shell: &OsStr,
    names: &str,
    kubeconfig: &OsStr,
    folder: &RunFolder,
    env: &Env,
) -> Result<Command, Failure> {
    let mut command = Command::new(shell);
    // A value that is not UTF-8 cannot be written into a script; the environment still contains it.
    let Some(kubeconfig) = kubeconfig.to_str() else { return Ok(command) };
    match Path::new(shell).file_name().and_then(OsStr::to_str) {
        Some("bash") => {
            let script = BASH
                .replace("KUBECONFIG_VALUE", &quoted(ShellSyntax::Bash, kubeconfig))
                .replace("NAMES", names);
            let file = folder.write("bashrc", script.as_bytes())?;
            command.arg("--rcfile").arg(file).arg("-i");
        }
        Some("zsh") => {
            let text = |path: &Path| path.to_str().map(|path| quoted(ShellSyntax::Zsh, path));
            let own = env.var(env::ZDOTDIR).map(Path::new);
            let path = folder.path()?;
            let Some(folder_text) = text(path) else { return Ok(command) };
            let own = own.and_then(text).unwrap_or_default();
            folder.write(".zshenv", format!("{}{ZSHENV}", zsh_variables(&folder_text, &own)).as_bytes())?;
            let script = ZSHRC
                .replace("KUBECONFIG_VALUE", &quoted(ShellSyntax::Zsh, kubeconfig))
                .replace("NAMES", names);
            folder.write(".zshrc", script.as_bytes())?;
            command.env(env::ZDOTDIR, path).arg("-i");
        }
        Some("fish") => {
            let script = FISH
                .replace("KUBECONFIG_VALUE", &quoted(ShellSyntax::Fish, kubeconfig))
                .replace("NAMES", names);
            command.arg("--init-command").arg(script);
        }
        _ => {}
    }
    Ok(command)
}

fn zsh_variables(folder: &str, own: &str) -> String {
    format!("__kubectl_mc_folder={folder}\n__kubectl_mc_zdotdir={own}\n")
}

/// Marks the prompt again before each command, because other tools may reset it.
const BASH: &str = r#"[ -f ~/.bashrc ] && . ~/.bashrc
export KUBECONFIG=KUBECONFIG_VALUE
__kubectl_mc_prompt() {
    case $PS1 in
        '(NAMES) '*) ;;
        *) PS1="(NAMES) $PS1" ;;
    esac
}
PROMPT_COMMAND="${PROMPT_COMMAND:+$PROMPT_COMMAND
}__kubectl_mc_prompt"
"#;

/// The user's startup files see the user's own ZDOTDIR, or none.
const ZSHENV: &str = r#"__kubectl_mc_own() {
    if [[ -n $__kubectl_mc_zdotdir ]]; then ZDOTDIR=$__kubectl_mc_zdotdir; else unset ZDOTDIR; fi
}
__kubectl_mc_own
[[ -f ${ZDOTDIR:-$HOME}/.zshenv ]] && . "${ZDOTDIR:-$HOME}/.zshenv"
__kubectl_mc_zdotdir=${ZDOTDIR:-}
ZDOTDIR=$__kubectl_mc_folder
"#;

const ZSHRC: &str = r#"__kubectl_mc_own
[[ ${HISTFILE:-} == $__kubectl_mc_folder/* ]] && HISTFILE=${ZDOTDIR:-$HOME}/.zsh_history
[[ -f ${ZDOTDIR:-$HOME}/.zshrc ]] && . "${ZDOTDIR:-$HOME}/.zshrc"
export KUBECONFIG=KUBECONFIG_VALUE
__kubectl_mc_prompt() {
    [[ $PROMPT == '(NAMES) '* ]] || PROMPT="(NAMES) $PROMPT"
}
autoload -Uz add-zsh-hook
add-zsh-hook precmd __kubectl_mc_prompt
"#;

/// Passes the status of the last command on to the user's prompt.
const FISH: &str = r#"set -gx KUBECONFIG KUBECONFIG_VALUE
functions -q fish_prompt; and functions -c fish_prompt __kubectl_mc_fish_prompt
function __kubectl_mc_status; return $argv[1]; end
function fish_prompt
    set -l last $status
    echo -n '(NAMES) '
    if functions -q __kubectl_mc_fish_prompt
        __kubectl_mc_status $last
        __kubectl_mc_fish_prompt
    end
end
"#;
