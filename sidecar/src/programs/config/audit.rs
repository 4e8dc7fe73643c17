//! Validates the audit flags.

use std::path::Path;

use super::error::Error;
use crate::programs::args::Audit;
use crate::telemetry::audit;

pub(super) fn config(flags: Audit) -> Result<audit::Config, Error> {
    let policy = match &flags.audit_policy_file {
        Some(file) => audit::Policy::read(file)
            .map_err(|error| Error::Flag(format!("audit-policy-file: {}: {error}", file.display())))?,
        // In this mode, only the event of the start can lead to a refusal.
        None => audit::Policy::everything(
            [flags.audit_log_mode, flags.audit_webhook_mode].contains(&audit::Mode::BlockingStrict),
        ),
    };
    let log = flags.audit_log_path.map(|path| audit::LogConfig {
        path: Some(path).filter(|path| path != Path::new("-")),
        format: flags.audit_log_format,
        mode: flags.audit_log_mode,
        buffer_size: flags.audit_log_batch_buffer_size,
        rotation: audit::Rotation {
            max_size_mib: flags.audit_log_maxsize,
            max_age_days: flags.audit_log_maxage,
            max_backups: flags.audit_log_maxbackup,
        },
    });
    let webhook = flags.audit_webhook_config_file.map(|kubeconfig| audit::WebhookConfig {
        kubeconfig,
        mode: flags.audit_webhook_mode,
        buffer_size: flags.audit_webhook_batch_buffer_size,
        batch: audit::Batch {
            max_size: flags.audit_webhook_batch_max_size,
            max_wait: flags.audit_webhook_batch_max_wait,
            initial_backoff: flags.audit_webhook_initial_backoff,
        },
    });
    if flags.audit_policy_file.is_some() && log.is_none() && webhook.is_none() {
        let text = "audit-policy-file: events need --audit-log-path or --audit-webhook-config-file";
        return Err(Error::Flag(text.to_owned()));
    }
    let redacts_exec_arguments = flags.audit_redact_exec_arguments;
    Ok(audit::Config { policy, log, webhook, redacts_exec_arguments })
}
