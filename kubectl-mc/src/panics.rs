//! Reports a panic, which is a bug of the plugin, in one line. The task that panicked has no
//! result, so its cluster has failed; the others continue.

use std::panic::{self, PanicHookInfo};

use crate::env::{self, Env};
use crate::printer;

/// Replaces Rust's report, unless `RUST_BACKTRACE` asks for it.
pub(crate) fn report(env: &Env) {
    if env.var(env::RUST_BACKTRACE).is_none() {
        panic::set_hook(Box::new(|panic| printer::log(&line(panic))));
    }
}

fn line(panic: &PanicHookInfo<'_>) -> String {
    let why = panic.payload_as_str().unwrap_or("a panic").replace('\n', " ");
    let place = panic.location().map_or_else(String::new, |place| format!(" at {place}"));
    format!("internal error{place}: {why}; please report it: {}/issues", env!("CARGO_PKG_REPOSITORY"))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn panic_is_one_line_with_its_place() {
        let (sender, lines) = mpsc::channel();
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| drop(sender.send(line(panic)))));
        let _ = panic::catch_unwind(|| panic!("no result\nof m1"));
        panic::set_hook(before);
        // Another test may panic at the same time.
        let line = lines.iter().find(|line| line.contains("no result")).unwrap();
        assert!(line.starts_with("internal error at ") && line.contains("panics.rs:"), "{line}");
        assert!(
            line.contains("no result of m1") && !line.contains('\n') && line.ends_with("/issues"),
            "{line}"
        );
    }
}
