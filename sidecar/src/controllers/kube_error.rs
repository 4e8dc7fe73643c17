//! Formats errors of kube's client. Their `Display` has a Status twice, once in Rust's debug format.

use crate::causes::innermost;

/// The API server's message, or the innermost cause, because kube's errors repeat their causes.
pub(super) fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        kube::Error::Api(status) => format!("{} {}", status.code, status.reason).trim_end().to_owned(),
        error => innermost(error),
    }
}

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
        let io = std::io::Error::other("no route");
        assert_eq!(message(&kube::Error::Service(Box::new(io))), "no route");
    }
}
