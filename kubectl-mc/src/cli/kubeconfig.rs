//! Defines the flags of `kubeconfig`, `env` and `shell`.

use std::ffi::OsString;

use clap::{Args, ValueEnum};

use super::version::DataFormat;

#[derive(Debug, Args)]
#[command(after_help = KUBECONFIG_EXAMPLES)]
pub(crate) struct KubeconfigArgs {
    /// Clusters, with the syntax of --cluster [default: all]
    #[arg(value_name = "CLUSTER")]
    pub(crate) clusters: Vec<String>,
    /// Text before the cluster's name in the name of its context, as in prod/
    #[arg(long, value_name = "PREFIX", default_value = "", hide_default_value = true)]
    pub(crate) context_prefix: String,
    /// Include the user, so that the output needs no other file; refused if the user's entry holds a secret
    #[arg(long)]
    pub(crate) standalone: bool,
    /// Write the contexts into the kubeconfig file that holds the host's context
    #[arg(long, conflicts_with_all = ["standalone", "output"])]
    pub(crate) merge: bool,
    /// Remove contexts of members that are gone from that file
    #[arg(long, requires = "merge")]
    pub(crate) prune: bool,
    /// One context for all members as one cluster, of this name [default: fleet]
    #[arg(
        long,
        value_name = "NAME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "fleet",
        conflicts_with_all = ["clusters", "prune"]
    )]
    pub(crate) fleet: Option<String>,
    /// Output format [default: yaml]
    #[arg(long, short = 'o', value_name = "FORMAT")]
    pub(crate) output: Option<DataFormat>,
}

#[derive(Debug, Args)]
#[command(after_help = ENV_EXAMPLES)]
pub(crate) struct EnvArgs {
    /// Clusters, with the syntax of --cluster; the first is the current context
    #[arg(value_name = "CLUSTER")]
    pub(crate) clusters: Vec<String>,
    /// Syntax of the output [default: by the variable SHELL]
    #[arg(long, value_name = "SHELL")]
    pub(crate) shell: Option<ShellSyntax>,
    /// Print the command that undoes the last one
    #[arg(long, conflicts_with = "clusters")]
    pub(crate) unset: bool,
}

/// The syntax of a shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShellSyntax {
    Sh,
    Bash,
    Zsh,
    Fish,
    #[value(alias = "pwsh")]
    Powershell,
}

#[derive(Debug, Args)]
#[command(after_help = SHELL_EXAMPLES)]
pub(crate) struct ShellArgs {
    /// Clusters, with the syntax of --cluster; the first is the current context
    #[arg(value_name = "CLUSTER")]
    pub(crate) clusters: Vec<String>,
    /// Command to run instead of a shell
    #[arg(value_name = "COMMAND", last = true)]
    pub(crate) command: Vec<OsString>,
}

const KUBECONFIG_EXAMPLES: &str = "\
The contexts go through the host and name the user of your own kubeconfig, so
the output holds no secret and works beside that file. The current context
stays.

Examples:
  # Contexts of all members, in your kubeconfig; again later for new members
  kubectl mc kubeconfig --merge --prune
  helm --kube-context=m1 list

  # In a file of its own, named eu/eu-1 and so on
  kubectl mc kubeconfig -C 'eu-*' --context-prefix=eu/ > members.yaml
  export KUBECONFIG=~/.kube/config:members.yaml

  # All members as one cluster, if the host serves the fleet view
  kubectl mc kubeconfig --merge --fleet
  kubectl --context=fleet get pods -A

  # For a user whose kubeconfig entry is a credential plugin or names files
  kubectl mc kubeconfig m1 --standalone > m1.yaml";

const ENV_EXAMPLES: &str = "\
Examples:
  # bash and zsh
  eval \"$(kubectl mc env -C m1)\"
  helm list -A
  eval \"$(kubectl mc env --unset)\"

  # fish
  kubectl mc env -C m1 | source

  # PowerShell
  kubectl mc env -C m1 | Out-String | Invoke-Expression";

const SHELL_EXAMPLES: &str = "\
Runs your shell, or a command, with a kubeconfig whose current context is the
cluster. Its exit code is that of the shell or the command. The kubeconfig is
removed at the end.

Examples:
  # A shell on m1, with its name in the prompt
  kubectl mc shell m1

  # One command
  kubectl mc shell m1 -- helm list -A";
