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

impl ExitStatus {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NoSuchCluster => 3,
            Self::SomeFailed => 4,
            Self::AllFailed => 5,
            Self::Interrupted => 130,
            Self::CannotStart => 126,
            Self::NoKubectl => 127,
            Self::Child(code) => code,
        }
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(status.code())
    }
}
