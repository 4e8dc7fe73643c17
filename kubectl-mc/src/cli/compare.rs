//! Defines the help of `compare`. Its arguments are those of `kubectl get` and do not go through
//! the parser.

use std::ffi::OsString;

use clap::Args;

#[derive(Debug, Args)]
#[command(override_usage = USAGE, after_help = EXAMPLES)]
pub(crate) struct CompareArgs {
    /// Types and names as of `kubectl get`: deploy/web, configmaps, deploy/a svc/b
    #[arg(value_name = "TYPE[/NAME]", trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<OsString>,
    /// Namespace on the clusters
    #[arg(long = "namespace", short = 'n', value_name = "NAME")]
    _namespace: Option<OsString>,
    /// Objects of all namespaces
    #[arg(long = "all-namespaces", short = 'A')]
    _all_namespaces: bool,
    /// Objects by label, as in app=web
    #[arg(long = "selector", short = 'l', value_name = "SELECTOR")]
    _selector: Option<OsString>,
    /// Objects by field, as in metadata.name=web
    #[arg(long = "field-selector", value_name = "SELECTOR")]
    _field_selector: Option<OsString>,
    /// Compare also what each cluster writes itself
    #[arg(long = "all-fields")]
    _all_fields: bool,
}

const USAGE: &str = "kubectl mc compare [get] TYPE[/NAME]... [FLAGS] --cluster=CLUSTERS";

const EXAMPLES: &str = "\
Each field that differs is a unified diff: --- the value of most clusters, +++
another one. The one cluster that differs from all others is marked (odd one
out). Not compared are fields that each cluster writes itself (status, uid,
resourceVersion, generation, creationTimestamp, managedFields, uids of owners,
clusterIP, nodeName) and objects that it makes itself (ConfigMap
kube-root-ca.crt, tokens of service accounts). The values of Secrets are never
shown.

Exit codes: 0 no differences, 1 differences.

Examples:
  # One object on two clusters
  kubectl mc compare deploy/web -n shop -C m1,m2

  # All ConfigMaps of a namespace, on every cluster with a label
  kubectl mc compare configmaps -n shop --cluster-selector=env=prod

  # With status and everything else
  kubectl mc compare node/worker-1 --all-fields -C m1,m2";
