//! Validates the audit flags.

use std::path::Path;

use super::Error;
use crate::args::Audit;
use crate::audit;

pub(super) fn config(flags: Audit) -> Result<audit::Config, Error> {
    let policy = match &flags.policy_file {
        Some(file) => audit::Policy::read(file)
            .map_err(|error| Error::Flag(format!("audit-policy-file: {}: {error}", file.display())))?,
        // In this mode only the event of the start can refuse a request.
        None => audit::Policy::everything(
            [flags.log_mode, flags.webhook_mode].contains(&audit::Mode::BlockingStrict),
        ),
    };
    let log = flags.log_path.map(|path| audit::LogConfig {
        path: Some(path).filter(|path| path != Path::new("-")),
        format: flags.log_format,
        mode: flags.log_mode,
        buffer_size: flags.log_buffer_size,
        rotation: audit::Rotation {
            max_size_mib: flags.log_maxsize,
            max_age_days: flags.log_maxage,
            max_backups: flags.log_maxbackup,
        },
    });
    let webhook = flags.webhook_config_file.map(|kubeconfig| audit::WebhookConfig {
        kubeconfig,
        mode: flags.webhook_mode,
        buffer_size: flags.webhook_buffer_size,
        batch: audit::Batch {
            max_size: flags.webhook_batch_size,
            max_wait: flags.webhook_batch_wait,
            initial_backoff: flags.webhook_backoff,
        },
    });
    if flags.policy_file.is_some() && log.is_none() && webhook.is_none() {
        let text = "audit-policy-file: events need --audit-log-path or --audit-webhook-config-file";
        return Err(Error::Flag(text.to_owned()));
    }
    Ok(audit::Config { policy, log, webhook })
}
