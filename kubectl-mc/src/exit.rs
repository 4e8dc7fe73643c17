//! The exit codes of the program. When kubectl runs, its own exit code is used.

use std::process::ExitCode;

/// How the program ends when no kubectl took its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitStatus {
    Success,
    /// The host, the sidecar or the member refused or could not be reached; kubectl's own code for any error.
    Failed,
    /// The command line or the environment asks for something that cannot be.
    Usage,
    /// No cluster of that name behind this host.
    NoSuchCluster,
    /// Several clusters: the command failed on some of them.
    SomeFailed,
    /// Several clusters: the command failed on all of them.
    AllFailed,
    /// Ctrl-C; the shells' code for it.
    Interrupted,
    /// kubectl was found but could not be started; the shells' code for it.
    CannotStart,
    /// No kubectl was found; the shells' code for it.
    NoKubectl,
    /// The code of a child that ran instead of kubectl taking our place.
    Child(u8),
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(match status {
            ExitStatus::Success => 0,
            ExitStatus::Failed => 1,
            ExitStatus::Usage => 2,
            ExitStatus::NoSuchCluster => 3,
            ExitStatus::SomeFailed => 4,
            ExitStatus::AllFailed => 5,
            ExitStatus::Interrupted => 130,
            ExitStatus::CannotStart => 126,
            ExitStatus::NoKubectl => 127,
            ExitStatus::Child(code) => code,
        })
    }
}
