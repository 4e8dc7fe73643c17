//! Raises a limit of the machine that beds exceed, if this user may, and reports it.

use std::fs;

use crate::progress::say;

/// Raises the number of inotify instances. A kube-apiserver needs six of them to watch its files,
/// and a user has 128 by default. That is enough for one bed, but not for two at the same time.
pub(crate) fn raise() {
    let Some(old) = fs::read_to_string(INSTANCES).ok().and_then(|text| text.trim().parse::<u32>().ok())
    else {
        return;
    };
    if old < ENOUGH && fs::write(INSTANCES, ENOUGH.to_string()).is_ok() {
        say(format_args!("fs.inotify.max_user_instances raised from {old} to {ENOUGH} on this machine"));
    }
}

const INSTANCES: &str = "/proc/sys/fs/inotify/max_user_instances";
/// Enough for twenty beds.
const ENOUGH: u32 = 2048;
