//! Defines the verbs and flags of `completion`.

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Args)]
#[command(disable_help_subcommand = true, after_help = EXAMPLES)]
pub(crate) struct CompletionArgs {
    #[command(subcommand)]
    pub(crate) command: CompletionCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CompletionCommand {
    /// Print the script for bash
    Bash,
    /// Print the script for zsh
    Zsh,
    /// Print the script for fish
    Fish,
    /// Print the script for PowerShell
    Powershell,
    /// Install kubectl_complete-mc, which completes `kubectl mc` in kubectl 1.26 and later
    Install(ShimArgs),
    /// Remove kubectl_complete-mc
    Uninstall {
        /// Show the files and change nothing
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ShimArgs {
    /// Shell to name the next step for [default: by the variable SHELL]
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Option<Shell>,
    /// Show the files and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// A shell that can complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
    Powershell,
}

const EXAMPLES: &str = "\
The scripts complete the program called by its own name, kubectl-mc or kmc.
kubectl's own scripts are those of `kubectl completion`.

Examples:
  # Complete `kubectl mc`, where kubectl itself is completed already
  kubectl mc completion install

  # Complete kubectl-mc and kmc in this bash
  source <(kubectl mc completion bash)";
