//! Defines the audit flags, with the names and defaults of a kube-apiserver (apiserver:
//! `server/options/audit.go`).

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::audit::{Format, Mode};

#[derive(Debug, Args)]
#[command(next_help_heading = "Audit")]
pub struct Audit {
    /// File with the audit policy (audit.k8s.io/v1): levels None and Metadata, and rules that can name clusters. Default:
    /// the end of every request at level Metadata; its beginning too with mode blocking-strict.
    #[arg(id = "audit-policy-file", long = "audit-policy-file", value_name = "FILE")]
    pub policy_file: Option<PathBuf>,
    /// File for audit events, one a line; - means standard output.
    #[arg(id = "audit-log-path", long = "audit-log-path", value_name = "FILE")]
    pub log_path: Option<PathBuf>,
    /// Maximum age of rotated audit logs in days; 0 means no limit.
    #[arg(id = "audit-log-maxage", long = "audit-log-maxage", value_name = "DAYS", default_value_t = 366)]
    pub log_maxage: u32,
    /// Maximum number of rotated audit logs; 0 means no limit.
    #[arg(id = "audit-log-maxbackup", long = "audit-log-maxbackup", value_name = "N", default_value_t = 100)]
    pub log_maxbackup: usize,
    /// Size in MiB at which the audit log is rotated; 0 means never.
    #[arg(id = "audit-log-maxsize", long = "audit-log-maxsize", value_name = "MIB", default_value_t = 100)]
    pub log_maxsize: u64,
    /// Format of the audit log.
    #[arg(id = "audit-log-format", long = "audit-log-format", value_enum, default_value_t = Format::Json)]
    pub log_format: Format,
    /// How requests depend on the audit log: batch loses events rather than delay requests, blocking delays them,
    /// blocking-strict refuses requests that cannot be logged.
    #[arg(id = "audit-log-mode", long = "audit-log-mode", value_enum, default_value_t = Mode::Blocking)]
    pub log_mode: Mode,
    /// Maximum number of events that wait for the audit log.
    #[arg(
        id = "audit-log-batch-buffer-size",
        long = "audit-log-batch-buffer-size",
        value_name = "N",
        default_value_t = 10_000
    )]
    pub log_buffer_size: usize,
    /// Kubeconfig of a server for audit events.
    #[arg(id = "audit-webhook-config-file", long = "audit-webhook-config-file", value_name = "FILE")]
    pub webhook_config_file: Option<PathBuf>,
    /// How requests depend on the audit webhook, as --audit-log-mode.
    #[arg(id = "audit-webhook-mode", long = "audit-webhook-mode", value_enum, default_value_t = Mode::Batch)]
    pub webhook_mode: Mode,
    /// Maximum number of events that wait for the audit webhook.
    #[arg(
        id = "audit-webhook-batch-buffer-size",
        long = "audit-webhook-batch-buffer-size",
        value_name = "N",
        default_value_t = 10_000
    )]
    pub webhook_buffer_size: usize,
    /// Maximum number of events in one request to the audit webhook.
    #[arg(
        id = "audit-webhook-batch-max-size",
        long = "audit-webhook-batch-max-size",
        value_name = "N",
        default_value_t = 400
    )]
    pub webhook_batch_size: usize,
    /// How long events wait for more of them, in mode batch.
    #[arg(id = "audit-webhook-batch-max-wait", long = "audit-webhook-batch-max-wait", value_name = "DURATION", default_value = "30s",
        value_parser = super::duration)]
    pub webhook_batch_wait: Duration,
    /// Time before a request to the audit webhook is repeated. It grows with each of four attempts.
    #[arg(id = "audit-webhook-initial-backoff", long = "audit-webhook-initial-backoff", value_name = "DURATION", default_value = "10s",
        value_parser = super::duration)]
    pub webhook_backoff: Duration,
}
