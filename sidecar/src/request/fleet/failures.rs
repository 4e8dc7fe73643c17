//! What is missing in a merged answer: which members, and why.

use std::fmt;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use kubectl_mc_api::ClusterName;
use serde_json::{Value, json};

/// The failures of members, by name.
#[derive(Clone, Debug, Default)]
pub struct Failures(pub Vec<Failure>);

/// Why a member's part is missing.
#[derive(Clone, Debug)]
pub struct Failure {
    pub member: ClusterName,
    /// The status code of the member, or that of the sidecar's own error.
    pub code: StatusCode,
    pub message: String,
}

impl Failure {
    pub fn new(member: &ClusterName, code: StatusCode, message: impl Into<String>) -> Self {
        let message: String = message.into();
        let message = message.chars().filter(|letter| !letter.is_control()).take(MAX_MESSAGE).collect();
        Self { member: member.clone(), code, message }
    }
}

impl Failures {
    pub fn push(&mut self, failure: Failure) {
        let at = self.0.partition_point(|known| known.member <= failure.member);
        self.0.insert(at, failure);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether every failure has this code.
    pub fn are_all(&self, code: StatusCode) -> bool {
        !self.is_empty() && self.0.iter().all(|failure| failure.code == code)
    }

    /// The value of `metadata.clusterErrors`.
    pub fn to_json(&self) -> Value {
        let errors = self.0.iter().map(|failure| {
            let code = failure.code.as_u16();
            json!({"cluster": failure.member.as_str(), "code": code, "message": failure.message})
        });
        errors.collect()
    }

    /// Adds one Warning that names the members (RFC 7234, 5.5).
    pub fn warn(&self, headers: &mut HeaderMap) {
        if self.is_empty() {
            return;
        }
        let quoted = self.to_string().replace('\\', r"\\").replace('"', "\\\"");
        let ascii: String =
            quoted.chars().map(|letter| if letter.is_ascii() { letter } else { '?' }).collect();
        if let Ok(warning) = HeaderValue::try_from(format!("299 - \"{ascii}\"")) {
            headers.append(header::WARNING, warning);
        }
    }
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the answer is incomplete: ")?;
        for (n, failure) in self.0.iter().take(MAX_NAMED).enumerate() {
            let separator = if n > 0 { "; " } else { "" };
            let short: String = failure.message.chars().take(MAX_SHORT).collect();
            write!(f, "{separator}{}: {short}", failure.member)?;
        }
        match self.0.len().saturating_sub(MAX_NAMED) {
            0 => Ok(()),
            more => write!(f, "; and {more} more members"),
        }
    }
}

/// Maximum length of a message, long enough for the messages of a kube-apiserver.
const MAX_MESSAGE: usize = 1024;
/// A Warning is at most some KiB.
const MAX_NAMED: usize = 10;
const MAX_SHORT: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warning_is_one_short_line() {
        let mut failures = Failures::default();
        for n in 0..1000 {
            let member = format!("m{n}").parse().unwrap();
            let message = format!("\"{}\"\r\nWarning: ü", "x".repeat(5000));
            failures.push(Failure::new(&member, StatusCode::BAD_GATEWAY, message));
        }
        let mut headers = HeaderMap::new();
        failures.warn(&mut headers);
        let all: Vec<_> = headers.get_all(header::WARNING).iter().collect();
        assert_eq!(all.len(), 1);
        let text = all[0].to_str().unwrap();
        assert!(
            text.len() < 4096 && text.contains("m0: ") && text.ends_with("and 990 more members\""),
            "{text}"
        );
        assert_eq!(failures.to_json().as_array().unwrap().len(), 1000);
    }
}
