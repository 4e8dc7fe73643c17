//! Defines the audit flags, with the names and defaults of a kube-apiserver (apiserver:
//! `server/options/audit.go`).

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::telemetry::audit::{Format, Mode};

#[derive(Debug, Args)]
#[command(next_help_heading = "Audit")]
pub struct Audit {
    /// File with the audit policy (audit.k8s.io/v1): levels None and Metadata, and rules that can name clusters. Default:
    /// the end of every request at level Metadata; its beginning too with mode blocking-strict.
    #[arg(long, value_name = "FILE")]
    pub audit_policy_file: Option<PathBuf>,
    /// File for audit events, one a line; - means standard output.
    #[arg(long, value_name = "FILE")]
    pub audit_log_path: Option<PathBuf>,
    /// Maximum age of rotated audit logs in days; 0 means no limit.
    #[arg(long, value_name = "DAYS", default_value_t = 366)]
    pub audit_log_maxage: u32,
    /// Maximum number of rotated audit logs; 0 means no limit.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub audit_log_maxbackup: usize,
    /// Size in MiB at which the audit log is rotated; 0 means never.
    #[arg(long, value_name = "MIB", default_value_t = 100)]
    pub audit_log_maxsize: u64,
    /// Format of the audit log.
    #[arg(long, value_enum, default_value_t = Format::Json)]
    pub audit_log_format: Format,
    /// How requests depend on the audit log: batch loses events rather than delay requests, blocking delays them,
    /// blocking-strict refuses requests that cannot be logged.
    #[arg(long, value_enum, default_value_t = Mode::Blocking)]
    pub audit_log_mode: Mode,
    /// Maximum number of events that wait for the audit log.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub audit_log_batch_buffer_size: usize,
    /// Kubeconfig of a server for audit events.
    #[arg(long, value_name = "FILE")]
    pub audit_webhook_config_file: Option<PathBuf>,
    /// How requests depend on the audit webhook, as --audit-log-mode.
    #[arg(long, value_enum, default_value_t = Mode::Batch)]
    pub audit_webhook_mode: Mode,
    /// Maximum number of events that wait for the audit webhook.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub audit_webhook_batch_buffer_size: usize,
    /// Maximum number of events in one request to the audit webhook.
    #[arg(long, value_name = "N", default_value_t = 400)]
    pub audit_webhook_batch_max_size: usize,
    /// How long events wait for more of them, in mode batch.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = super::duration)]
    pub audit_webhook_batch_max_wait: Duration,
    /// Time before a request to the audit webhook is repeated. It grows with each of four attempts.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = super::duration)]
    pub audit_webhook_initial_backoff: Duration,
    /// Leave the commands of exec out of audit events, because their arguments may be secrets. A kube-apiserver has no
    /// such flag: the audit logs of host and member still record them.
    #[arg(long)]
    pub audit_redact_exec_arguments: bool,
}
