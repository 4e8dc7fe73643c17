//! Decides about colors of cluster names, based on `--color`, else `NO_COLOR`, else whether the
//! output is a terminal.

use std::io::{self, IsTerminal};

use crate::cli::Color;
use crate::env::{self, Env};

/// Which of the two outputs is colored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Colors {
    pub(super) out: bool,
    pub(super) err: bool,
}

impl Colors {
    pub(super) fn new(color: Color, env: &Env) -> Self {
        let on = |terminal: bool| match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                terminal
                    && env.var(env::NO_COLOR).is_none()
                    && env.var(env::TERM).is_none_or(|term| term != "dumb")
            }
        };
        Self { out: on(io::stdout().is_terminal()), err: on(io::stderr().is_terminal()) }
    }
}

/// Paints the text in the color of the cluster's position.
pub(super) fn paint(text: &str, at: usize) -> String {
    let color = PALETTE[at % PALETTE.len()];
    format!("\x1b[{color}m{text}\x1b[0m")
}

/// Colors that are legible on dark and light backgrounds; red is for errors.
const PALETTE: &[u8] = &[36, 33, 32, 35, 34, 96, 93, 92, 95, 94];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flag_overrides_the_variable() {
        let no_color: Env = [(env::NO_COLOR, "1")].into_iter().collect();
        assert!(Colors::new(Color::Always, &no_color).out);
        assert!(!Colors::new(Color::Never, &Env::default()).out);
        assert!(!Colors::new(Color::Auto, &no_color).out);
        assert_eq!(paint("m1", 1), "\x1b[33mm1\x1b[0m");
    }
}
