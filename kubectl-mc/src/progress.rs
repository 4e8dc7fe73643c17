//! Shows the steps of a long command: a spinner on a terminal's standard error, else one line per step.

#[cfg(unix)]
mod interrupt;

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
#[cfg(unix)]
pub(crate) use interrupt::Interrupt;

use crate::printer::Printer;
use crate::server_text::escaped;

/// The display of steps.
pub(crate) struct Progress<'a> {
    printer: &'a Printer,
    terminal: bool,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(printer: &'a Printer) -> Self {
        Self { printer, terminal: std::io::stderr().is_terminal() }
    }

    /// Starts a step, which other output does not end.
    pub(crate) fn step(&self, text: &str) -> Step<'a> {
        let text = escaped(text.trim());
        let bar = self.terminal.then(|| {
            let bar = bar();
            // Must be set before the first drawing.
            #[cfg(unix)]
            interrupt::clears(Some(bar.clone()));
            bar.set_message(text.clone());
            bar.enable_steady_tick(TICK);
            self.printer.draw(Some(bar.clone()));
            bar
        });
        Step { printer: self.printer, bar, text, said: String::new() }
    }
}

/// A line below the output, which is removed on drop. It is drawn only if standard error is a terminal.
pub(crate) struct Line<'a> {
    printer: &'a Printer,
    bar: ProgressBar,
}

impl<'a> Line<'a> {
    pub(crate) fn draw(printer: &'a Printer, text: String) -> Self {
        let bar = bar();
        // Must be set before the first drawing.
        bar.set_message(text);
        bar.enable_steady_tick(TICK);
        printer.draw(Some(bar.clone()));
        Self { printer, bar }
    }

    pub(crate) fn bar(&self) -> &ProgressBar {
        &self.bar
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        self.printer.draw(None);
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
        bar.set_style(style);
    }
    bar
}

/// On other systems only Ctrl-C is a signal.
#[cfg(not(unix))]
pub(crate) struct Interrupt;

#[cfg(not(unix))]
impl Interrupt {
    pub(crate) fn handle() -> Self {
        Self
    }

    /// The result of the work; `None` if Ctrl-C was pressed first.
    pub(crate) async fn unless<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            Ok(()) = tokio::signal::ctrl_c() => None,
            done = work => Some(done),
        }
    }
}

/// A running step. Without [`Step::done`] it has failed, and the error is printed separately.
pub(crate) struct Step<'a> {
    printer: &'a Printer,
    bar: Option<ProgressBar>,
    text: String,
    said: String,
}

impl Step<'_> {
    /// Shows the current state.
    pub(crate) fn update(&mut self, state: &str) {
        let state = escaped(state.trim());
        if self.said == state {
            return;
        }
        let line = format!("{}: {state}", self.text);
        match &self.bar {
            Some(bar) => bar.set_message(line),
            None => self.printer.note_line(&line),
        }
        self.said = state;
    }

    /// Marks the step as successful.
    pub(crate) fn done(mut self) {
        self.clear();
        self.printer.note_line(&format!("{}: done", self.text));
    }

    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
            self.printer.draw(None);
            #[cfg(unix)]
            interrupt::clears(None);
        }
    }
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The cursor returns to the start of the line: the terminal echoes `^C` there, and both are cleared.
const TEMPLATE: &str = "{spinner} {wide_msg}\r";
const TICK: Duration = Duration::from_millis(100);
