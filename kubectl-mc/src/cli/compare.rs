//! The help of `compare`. Its words are those of `kubectl get` and do not pass through the parser.

use std::ffi::OsString;

use clap::Args;

#[derive(Debug, Args)]
#[command(override_usage = USAGE, after_help = EXAMPLES)]
pub(crate) struct CompareArgs {
    /// Types, names and flags of `kubectl get`, without an output format
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<OsString>,
}

const USAGE: &str = "kubectl mc compare [get] TYPE[/NAME] [ARGUMENTS of kubectl get] --cluster=CLUSTERS";

const EXAMPLES: &str = "\
Fields that each cluster writes itself (uid, resourceVersion, status) are not compared, and the values of Secrets
are never shown. Exit codes: 0 no differences, 1 differences.

Examples:
  # One object on two clusters
  kubectl mc compare get deploy/web -n shop -C m1,m2

  # All ConfigMaps of a namespace, on every cluster with a label
  kubectl mc compare get configmaps -n shop --cluster-selector=env=prod";
