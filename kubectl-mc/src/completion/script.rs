//! Returns the scripts that shells source to complete this program under its own name.

use crate::cli::Shell;

/// The script of a shell.
pub(crate) fn script(shell: Shell) -> &'static str {
    match shell {
        Shell::Bash => include_str!("script/kubectl-mc.bash"),
        Shell::Zsh => include_str!("script/kubectl-mc.zsh"),
        Shell::Fish => include_str!("script/kubectl-mc.fish"),
        Shell::Powershell => include_str!("script/kubectl-mc.ps1"),
    }
}
