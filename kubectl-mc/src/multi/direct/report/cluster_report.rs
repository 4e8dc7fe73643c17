//! The output for one member.

/// The output for one member.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// Whole lines for standard output.
    pub(super) lines: String,
    /// Lines for standard error, printed first.
    pub(super) remarks: Vec<String>,
    /// Whether the command is a question with a negative answer.
    pub(super) is_negative: bool,
}
