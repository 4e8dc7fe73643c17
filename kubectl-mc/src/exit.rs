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
    /// The code of a child. A code that does not fit, such as 0xC000013A (Ctrl-C on Windows), and none, is 1.
    pub(crate) fn of_child(code: Option<i32>) -> Self {
        Self::Child(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failing_child_code_never_becomes_success() {
        // Windows has codes of 32 bits: 256 and 0xC000013A would be 0 and 58 if they were cut.
        for (code, expected) in [
            (Some(0), 0),
            (Some(7), 7),
            (Some(255), 255),
            (Some(256), 1),
            (Some(-1), 1),
            (Some(0xC000_013A_u32.cast_signed()), 1),
            (None, 1),
        ] {
            assert_eq!(ExitStatus::of_child(code).code(), expected, "{code:?}");
        }
    }
}
