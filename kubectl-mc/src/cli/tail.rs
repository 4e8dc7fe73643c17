//! Defines the help of `tail`. Its arguments are parsed like those of kubectl and do not go through
//! the parser.

use std::ffi::OsString;

use clap::Args;

#[derive(Debug, Args)]
#[command(override_usage = USAGE, after_help = EXAMPLES)]
pub(crate) struct TailArgs {
    /// Regular expression that matches names of pods; ^web- for those that begin with web-
    #[arg(value_name = "PODS", trailing_var_arg = true, allow_hyphen_values = true)]
    _pods: Vec<OsString>,
    /// Follow the logs: new lines, new pods, containers that start again, and clusters that become Ready
    #[arg(long = "follow", short = 'f')]
    _follow: bool,
    /// Namespaces on the clusters, separated by commas
    #[arg(long = "namespace", short = 'n', value_name = "NAMES")]
    _namespace: Option<OsString>,
    /// Pods of all namespaces
    #[arg(long = "all-namespaces", short = 'A')]
    _all_namespaces: bool,
    /// Pods by label, as in app=web
    #[arg(long = "selector", short = 'l', value_name = "SELECTOR")]
    _selector: Option<OsString>,
    /// Pods by field, as in spec.nodeName=worker-1
    #[arg(long = "field-selector", value_name = "SELECTOR")]
    _field_selector: Option<OsString>,
    /// Pods to leave out; repeatable
    #[arg(long = "exclude-pod", value_name = "REGEX")]
    _exclude_pod: Vec<OsString>,
    /// Containers, init and ephemeral ones included; repeatable [default: all]
    #[arg(long = "container", short = 'c', value_name = "REGEX")]
    _container: Vec<OsString>,
    /// Containers to leave out; repeatable
    #[arg(long = "exclude-container", short = 'E', value_name = "REGEX")]
    _exclude_container: Vec<OsString>,
    /// Lines to show; repeatable, one must match
    #[arg(long = "include-line", short = 'i', value_name = "REGEX")]
    _include_line: Vec<OsString>,
    /// Lines to leave out; repeatable
    #[arg(long = "exclude-line", short = 'e', value_name = "REGEX")]
    _exclude_line: Vec<OsString>,
    /// Lines not older than this, as in 30s or 2h
    #[arg(long = "since", short = 's', value_name = "DURATION")]
    _since: Option<OsString>,
    /// Lines not older than this time (RFC 3339)
    #[arg(long = "since-time", value_name = "TIME")]
    _since_time: Option<OsString>,
    /// Number of lines at the end of each log to begin with; -1 means all [default: 10; all with --since]
    #[arg(long = "tail", value_name = "NUMBER", allow_hyphen_values = true)]
    _tail: Option<OsString>,
    /// Show the time of each line
    #[arg(long = "timestamps", short = 't')]
    _timestamps: bool,
    /// Template of a line; fields {cluster}, {namespace}, {pod}, {container}, {node}, {time}, {message}
    #[arg(long = "template", value_name = "TEXT")]
    _template: Option<OsString>,
    /// Output format: json, one object a line
    #[arg(long = "output", short = 'o', value_name = "FORMAT")]
    _output: Option<OsString>,
    /// Maximum number of logs of a cluster that are open at a time [default: 50 with --follow, else 5]
    #[arg(long = "max-log-requests", value_name = "NUMBER")]
    _max_log_requests: Option<OsString>,
}

const USAGE: &str = "kubectl mc tail [PODS] [FLAGS] --cluster=CLUSTERS";

const EXAMPLES: &str = "\
Expressions match anywhere in a text; ^ and $ mean its beginning and its end.
A line of more than 1 MiB is shown in parts.

Examples:
  # Two Deployments in a namespace of every cluster, as they go on
  kubectl mc tail '^(web|api)-' -n shop -f --all-clusters

  # Errors of the last hour, but not those of health checks
  kubectl mc tail -l app=web -s 1h -i 'ERROR|WARN' -e /healthz -C m1,m2

  # All pods, for another program
  kubectl mc tail . -A -o json --tail=-1 -C m1

  # Lines of a form of your own
  kubectl mc tail web --template='{time} {cluster}/{pod} {message}' -C 'eu-*'";
