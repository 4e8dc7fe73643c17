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
    /// The code of a child process. On Windows it may be more than 255.
    Child(i32),
}

impl ExitStatus {
    /// Converts the code of a child. A missing code becomes 1, and so does one that this system would truncate.
    pub(crate) fn of_child(code: Option<i32>) -> Self {
        let is_kept = |code: &i32| cfg!(windows) || u8::try_from(*code).is_ok();
        Self::Child(code.filter(is_kept).unwrap_or(1))
    }

    /// Ends the process with this code.
    pub(crate) fn end(self) -> ExitCode {
        let code = self.code();
        let Ok(small) = u8::try_from(code) else {
            // An ExitCode has 8 bits, and Windows has 32.
            std::process::exit(code)
        };
        ExitCode::from(small)
    }

    pub(crate) fn code(self) -> i32 {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failing_child_code_never_becomes_success() {
        for code in [0, 7, 255] {
            assert_eq!(ExitStatus::of_child(Some(code)).code(), code);
        }
        // Windows has 32-bit codes: truncated, 256 would become 0.
        for code in [256, -1, CTRL_C_ON_WINDOWS] {
            assert_eq!(ExitStatus::of_child(Some(code)).code(), if cfg!(windows) { code } else { 1 });
        }
        assert_eq!(ExitStatus::of_child(None).code(), 1);
    }

    const CTRL_C_ON_WINDOWS: i32 = 0xC000_013A_u32.cast_signed();
}
