//! Real shells that read hostile names: the ones that a completion offers, and the ones that
//! `kubectl mc env` prints. A canary, which is a file in the shell's folder, shows whether a name
//! ran a command.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The file that the commands in hostile names create in the current folder.
pub const CANARY: &str = "canary";

/// The words that bash with kubectl before 1.34 offers for this answer of `__complete`: each
/// candidate alone, then all together. Such a bash expands them when the user types a tab. It runs
/// in this folder, where it finds the answer as a file.
pub fn offered_by_old_bash(answer: &str, folder: &Path) -> Result<String> {
    std::fs::write(folder.join("answer"), answer)?;
    let mut bash = Command::new("bash");
    bash.args(["--noprofile", "--norc", "-c", OLD_SCRIPT]).current_dir(folder).env_clear();
    let output = bash.output().context("cannot start bash")?;
    ensure!(output.status.success(), "bash: {output:?}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The part of the script of `kubectl completion bash` of 1.32 (cobra 1.8.1) that handles the candidates.
const OLD_SCRIPT: &str = r#"
handle_standard_completion_case() {
    local tab=$'\t' comp
    if [[ "${completions[*]}" != *$tab* ]]; then
        IFS=$'\n' read -ra COMPREPLY -d '' < <(compgen -W "${completions[*]}" -- "$cur")
        return 0
    fi
    local compline
    while IFS='' read -r compline; do
        [[ -z $compline ]] && continue
        comp=${compline%%$tab*}
        [[ $comp == "$cur"* ]] || continue
        COMPREPLY+=("$comp")
    done < <(printf "%s\n" "${completions[@]}")
}
cur=
out=$(<answer)
out=${out%:*}
while IFS='' read -r line; do all+=("$line"); done <<<"$out"
# One by one, because a quote in one of them would hide the next one; then all of them.
for line in "${all[@]}"; do
    [[ -z $line ]] && continue
    completions=("$line")
    COMPREPLY=()
    handle_standard_completion_case
    printf '%s\n' "${COMPREPLY[@]}"
done
completions=("${all[@]}")
COMPREPLY=()
handle_standard_completion_case
printf '%s\n' "${COMPREPLY[@]}"
exit 0
"#;

/// A shell with the completion script of the bed's kubectl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Shell {
    pub const ALL: [Self; 3] = [Self::Bash, Self::Zsh, Self::Fish];

    pub fn program(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
        }
    }

    /// Writes the files of an interactive shell into a folder, which is its `ZDOTDIR`, and returns its arguments.
    /// Before its first prompt, `$ `, it prints `ready`.
    pub fn interactive(self, folder: &Path) -> Result<Vec<String>> {
        let (file, words, setup) = match self {
            Self::Bash => (
                "rc",
                ["--noprofile", "--rcfile", "rc", "-i"].as_slice(),
                "PS1='$ '; bind 'set enable-bracketed-paste off'\nsource /usr/share/bash-completion/bash_completion\n\
                 source <(kubectl completion bash)\necho ready\n",
            ),
            Self::Zsh => (
                ".zshrc",
                ["-d", "-i"].as_slice(),
                "PS1='$ '; unset zle_bracketed_paste\nautoload -Uz compinit && compinit -u\n\
                 source <(kubectl completion zsh)\necho ready\n",
            ),
            Self::Fish => ("config.fish", ["--no-config", "-i"].as_slice(), ""),
        };
        let file = folder.join(file);
        std::fs::write(&file, setup)?;
        let file = file.to_str().context("a path that is no text")?;
        Ok(words.iter().map(|&word| if word == "rc" { file.to_owned() } else { word.to_owned() }).collect())
    }

    /// The arguments of a shell that evaluates what `program env NAME` prints, and prints `KUBECONFIG`.
    pub fn evaluates(self, program: &str, name: &str) -> Vec<String> {
        let script = match self {
            Self::Bash | Self::Zsh => r#"eval "$("$0" env --shell=sh -- "$1")"; echo "$KUBECONFIG""#,
            Self::Fish => "$argv[1] env --shell=fish -- $argv[2] | source; echo $KUBECONFIG",
        };
        let config: &[&str] = match self {
            Self::Bash => &["--noprofile", "--norc"],
            Self::Zsh => &["-f"],
            Self::Fish => &["--no-config"],
        };
        config.iter().copied().chain(["-c", script, program, name]).map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_bash_runs_a_command_among_the_candidates() -> Result<()> {
        let folder = tempfile::tempdir()?;
        offered_by_old_bash("web\n<({touch,canary})\n:4\n", folder.path())?;
        crate::wait::eventually("the command has run", crate::wait::SOON, || {
            Ok(folder.path().join(CANARY).exists().then_some(()))
        })
    }
}
