//! Defines the flags of `audit`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use kubectl_mc_api::go_duration::parse_flag;
use kubectl_mc_api::names::NAMESPACE;

use super::version::DataFormat;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AuditArgs {
    /// Audit-ID of the request: a header of its answer, and in the audit logs of the host and the member
    #[arg(value_name = "AUDIT-ID")]
    pub(crate) id: String,
    /// File with audit events, in place of the logs of the sidecar's pods; - is standard input, and it can be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Vec<PathBuf>,
    /// Namespace of the sidecar
    #[arg(long, short = 'n', value_name = "NAME", default_value = NAMESPACE)]
    pub(crate) namespace: String,
    /// How far back the logs of the pods are read, as in 30m or 12h [default: all of them]
    #[arg(long, value_name = "DURATION", value_parser = parse_flag, conflicts_with = "file")]
    pub(crate) since: Option<Duration>,
    /// Output format; the events as they were written
    #[arg(long, short = 'o', value_name = "FORMAT")]
    pub(crate) output: Option<DataFormat>,
}

const EXAMPLES: &str = "\
Prints the caller, the member's object, the host's decision, how the request
ended, and where else it is recorded. The sidecar writes audit events if it
has an audit log or an audit webhook:
https://github.com/kubectl-mc/kubectl-mc/blob/main/docs/how-to/audit.md

Reading the logs of the sidecar's pods needs the right to get pods/log there.

Examples:
  # A request, from the logs of the sidecar's pods
  kubectl mc audit 5f2c7f9e-3f0e-4d3c-9f0a-6a5d1f0c3b1e

  # From a file that a log collector has, for a program
  kubectl mc audit 5f2c7f9e-3f0e-4d3c-9f0a-6a5d1f0c3b1e --file=a.log -o json";
