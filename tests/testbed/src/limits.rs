//! A limit of the machine that beds run into. It is raised where this user may, and said.

use std::fs;

use crate::progress::say;

/// A kube-apiserver watches its files by six inotify instances, and a user has 128 of them by default: enough for
/// one bed, not for two side by side.
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
/// For twenty beds.
const ENOUGH: u32 = 2048;
