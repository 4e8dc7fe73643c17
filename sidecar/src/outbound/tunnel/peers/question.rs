//! The protocol between replicas, version 1: after the handshake the asking side sends one line. Both sides
//! are replicas of one installation; the version is in the ALPN.
//!
//! | question | answer |
//! |---|---|
//! | `has <cluster>` | `yes` or `no` |
//! | `tunnels` | a line `<cluster> <replica> <agent's version>` for each cluster with a tunnel, then the end |
//! | `enroll <cluster>`, `confirm <cluster>` | the status of the agent's answer, a line, then the answer; or `no` |
//! | `connect <cluster> <target>` | `connected`, then the bytes of a connection to the member; or the reason why there is none |

use std::fmt;
use std::io;

use http::uri::Authority;
use kubectl_mc_api::ClusterName;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::Elsewhere;
use crate::outbound::tunnel::enrollment::Request;
use crate::outbound::tunnel::registry::dial::{DialError, Reason};

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Question {
    Has(ClusterName),
    Tunnels,
    Enroll(ClusterName, Request),
    Connect(ClusterName, Authority),
}

pub(super) const YES: &str = "yes";
pub(super) const NO: &str = "no";
pub(super) const CONNECTED: &str = "connected";

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Has(cluster) => writeln!(f, "has {cluster}"),
            Self::Tunnels => writeln!(f, "tunnels"),
            Self::Enroll(cluster, Request::Enroll) => writeln!(f, "enroll {cluster}"),
            Self::Enroll(cluster, Request::Confirm) => writeln!(f, "confirm {cluster}"),
            Self::Connect(cluster, target) => writeln!(f, "connect {cluster} {target}"),
        }
    }
}

impl Question {
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let question = match (words.next()?, words.next(), words.next()) {
            ("has", Some(cluster), None) => Self::Has(cluster.parse().ok()?),
            ("tunnels", None, None) => Self::Tunnels,
            ("enroll", Some(cluster), None) => Self::Enroll(cluster.parse().ok()?, Request::Enroll),
            ("confirm", Some(cluster), None) => Self::Enroll(cluster.parse().ok()?, Request::Confirm),
            ("connect", Some(cluster), Some(target)) => {
                Self::Connect(cluster.parse().ok()?, target.parse().ok()?)
            }
            _ => return None,
        };
        words.next().is_none().then_some(question)
    }

    /// Parses the answer to a question for a connection.
    pub(super) fn connected(&self, answer: &str) -> Result<(), DialError> {
        let reasons = [Reason::Refused, Reason::Timeout, Reason::Dns, Reason::Network];
        if let Some(reason) = reasons.into_iter().find(|reason| reason.as_str() == answer) {
            return Err(DialError::Failed(reason));
        }
        match (answer, self) {
            (CONNECTED, _) => Ok(()),
            (FULL, _) => Err(DialError::Full),
            (SILENT, _) => Err(DialError::Silent),
            (OTHER_TARGET, Self::Connect(_, target)) => Err(DialError::NotTheTarget(target.clone())),
            _ => Err(DialError::Ended),
        }
    }
}

/// The answer that contains the reason why there is no connection.
pub(super) fn refusal(error: &DialError) -> &'static str {
    match error {
        DialError::Failed(reason) => reason.as_str(),
        DialError::Full => FULL,
        DialError::Silent => SILENT,
        DialError::NotTheTarget(_) => OTHER_TARGET,
        DialError::NoAgent { .. } | DialError::Unexpected(_) | DialError::Broken(_) | DialError::Ended => NO,
    }
}

/// The tunnels in a replica's answer.
pub(super) fn tunnels(text: &str) -> Vec<(ClusterName, Elsewhere)> {
    let lines = text.lines().filter_map(|line| {
        let mut words = line.splitn(3, ' ');
        let cluster = words.next()?.parse().ok()?;
        let (replica, version) = (words.next()?.to_owned(), words.next()?.to_owned());
        Some((cluster, Elsewhere { replica, version }))
    });
    lines.collect()
}

/// Reads exactly one line: the bytes after it belong to the member.
pub(super) async fn line(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<String> {
    let mut line = Vec::new();
    loop {
        match stream.read_u8().await? {
            b'\n' => break,
            _ if line.len() == MAX_LINE => return Err(io::ErrorKind::InvalidData.into()),
            byte => line.push(byte),
        }
    }
    String::from_utf8(line).map_err(|_| io::ErrorKind::InvalidData.into())
}

const FULL: &str = "full";
const SILENT: &str = "silent";
const OTHER_TARGET: &str = "other-target";
const MAX_LINE: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_round_trip_through_text() {
        let (m1, target): (ClusterName, Authority) = ("m1".parse().unwrap(), "k:443".parse().unwrap());
        for question in [
            Question::Has(m1.clone()),
            Question::Tunnels,
            Question::Enroll(m1.clone(), Request::Enroll),
            Question::Enroll(m1.clone(), Request::Confirm),
            Question::Connect(m1, target),
        ] {
            let written = question.to_string();
            assert_eq!(Question::parse(written.strip_suffix('\n').unwrap()), Some(question));
        }
        for other in [
            "",
            "has",
            "has M1",
            "has m1 x",
            "tunnels x",
            "enroll",
            "confirm m1 x",
            "connect m1",
            "connect m1 k:1 x",
            "who",
        ] {
            assert_eq!(Question::parse(other), None, "{other:?}");
        }
    }

    #[test]
    fn refusals_round_trip_through_text() {
        let target: Authority = "k:443".parse().unwrap();
        let question = Question::Connect("m1".parse().unwrap(), target.clone());
        for error in [
            DialError::Failed(Reason::Refused),
            DialError::Failed(Reason::Dns),
            DialError::Full,
            DialError::Silent,
            DialError::NotTheTarget(target),
            DialError::Ended,
        ] {
            let read = question.connected(refusal(&error)).unwrap_err();
            assert_eq!(read.to_string(), error.to_string());
        }
        assert!(question.connected(CONNECTED).is_ok());
        assert!(matches!(question.connected("what?"), Err(DialError::Ended)));
    }

    #[tokio::test]
    async fn line_is_bounded_and_leaves_later_bytes_unread() {
        let mut bytes = &b"yes\nrest"[..];
        assert_eq!(line(&mut bytes).await.unwrap(), "yes");
        assert_eq!(bytes, b"rest");
        assert!(line(&mut &b"no end"[..]).await.is_err());
        assert!(line(&mut &vec![b'x'; 10_000][..]).await.is_err());
        assert!(line(&mut &b"\xff\n"[..]).await.is_err());
    }
}
