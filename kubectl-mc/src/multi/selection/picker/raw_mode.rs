//! Switches a terminal to raw mode, in which it sends each key immediately and echoes none (termios(3)).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};

/// Restores the terminal on drop, even after a panic.
pub(super) struct RawMode<'a> {
    terminal: BorrowedFd<'a>,
    before: Termios,
}

impl<'a> RawMode<'a> {
    pub(super) fn enter(terminal: &'a impl AsFd) -> io::Result<Self> {
        let terminal = terminal.as_fd();
        let before = tcgetattr(terminal)?;
        let mut raw = before.clone();
        // Ctrl-C, Ctrl-Z and Ctrl-\ become keys too. Output processing stays on, because a panic message
        // needs its line ends.
        raw.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN;
        raw.input_modes -= InputModes::ICRNL | InputModes::INLCR | InputModes::IXON;
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(terminal, OptionalActions::Now, &raw)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for RawMode<'_> {
    fn drop(&mut self) {
        // A closed terminal needs no restoring.
        let _ = tcsetattr(self.terminal, OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use rustix::pty::{OpenptFlags, openpt, unlockpt};

    use super::*;

    #[test]
    fn terminal_is_restored_after_a_panic() {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        unlockpt(&terminal).unwrap();
        let is_raw =
            || !tcgetattr(&terminal).unwrap().local_modes.contains(LocalModes::ICANON | LocalModes::ECHO);
        assert!(!is_raw());
        let entered = RawMode::enter(&terminal).unwrap();
        assert!(is_raw());
        drop(entered);
        assert!(!is_raw());
        let panicked = std::panic::catch_unwind(|| {
            let _entered = RawMode::enter(&terminal).unwrap();
            assert!(!is_raw(), "this panics");
        });
        assert!(panicked.is_err());
        assert!(!is_raw());
    }
}
