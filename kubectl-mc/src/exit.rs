//! Defines the exit codes of the program. If kubectl runs, its own exit code applies.

use std::process::ExitCode;

/// The exit code of the program if kubectl did not replace it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitStatus {
    Success,
    /// The host, the sidecar or the member refused or was unreachable; kubectl's code for any error.
    Failed,
    /// The command line or the environment is invalid.
    Usage,
    /// The host has no cluster of that name.
    NoSuchCluster,
    /// The command failed on some of several clusters.
    SomeFailed,
    /// The command failed on all of several clusters.
    AllFailed,
    /// Ctrl-C; the usual code of shells.
    Interrupted,
    /// kubectl exists but did not start; the usual code of shells.
    CannotStart,
    /// No kubectl was found; the usual code of shells.
    NoKubectl,
    /// The code of a child process.
    Child(u8),
}

impl ExitStatus {
    /// Converts the code of a child. A missing code, or one out of range such as 0xC000013A (Ctrl-C on
    /// Windows), becomes 1.
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
        // Windows has 32-bit codes: truncated, 256 and 0xC000013A would become 0 and 58.
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
