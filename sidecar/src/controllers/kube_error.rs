//! Formats errors of kube's client. Their `Display` has a Status twice, once in Rust's debug format.

use crate::base::causes::innermost;

/// A text of a member or a host on one line of limited length, for logs, conditions and Events.
pub(super) fn printable(text: &str, most: usize) -> String {
    let cut = &text[..text.floor_char_boundary(most)];
    cut.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The API server's message, or the innermost cause, because kube's errors repeat their causes.
pub(super) fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => printable(&status.message, MAX_MESSAGE),
        kube::Error::Api(status) => {
            printable(format!("{} {}", status.code, status.reason).trim_end(), MAX_MESSAGE)
        }
        error => printable(&innermost(error), MAX_MESSAGE),
    }
}

/// As long as the message of a condition may be.
pub(super) const MAX_MESSAGE: usize = 1000;

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn message_is_that_of_the_server_or_the_cause() {
        let api = |text: &str| {
            let status = Status {
                code: 401,
                message: text.to_owned(),
                reason: "Unauthorized".to_owned(),
                ..Status::default()
            };
            message(&kube::Error::Api(Box::new(status)))
        };
        assert_eq!(api("you must be logged in"), "you must be logged in");
        assert_eq!(api(""), "401 Unauthorized");
        assert_eq!(api("a\nlevel=INFO \u{1b}[2J"), "a level=INFO  [2J");
        assert_eq!(api(&"é".repeat(MAX_MESSAGE)).len(), MAX_MESSAGE);
        let io = std::io::Error::other("no route");
        assert_eq!(message(&kube::Error::Service(Box::new(io))), "no route");
    }
}
