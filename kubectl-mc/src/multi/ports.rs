//! Prints the local ports of `port-forward` on several clusters as a table.

use crate::cluster::cluster_id::ClusterId;
use tokio::time::Instant;

use super::ordered_output::HELD;
use crate::tabwriter::TabWriter;

/// Collects the table.
#[derive(Debug, Default)]
pub(super) struct Ports {
    writer: TabWriter,
    begun: bool,
    /// When rows were first held back.
    held: Option<Instant>,
}

impl Ports {
    /// Consumes a line of kubectl that reports a port.
    pub(super) fn take(&mut self, cluster: &ClusterId, line: &[u8]) -> bool {
        let Some((local, remote)) = std::str::from_utf8(line).ok().and_then(forwarding) else { return false };
        if !std::mem::replace(&mut self.begun, true) {
            self.writer.line("CLUSTER\tLOCAL\tREMOTE");
        }
        self.writer.line(&format!("{cluster}\t{local}\t{remote}"));
        self.held.get_or_insert_with(Instant::now);
        true
    }

    /// When held rows must be shown.
    pub(super) fn due(&self) -> Option<Instant> {
        self.held.map(|held| held + HELD)
    }

    /// The held rows.
    pub(super) fn show(&mut self) -> String {
        self.held = None;
        self.writer.flush()
    }
}

/// Parses `Forwarding from 127.0.0.1:8080 -> 80`.
fn forwarding(line: &str) -> Option<(&str, &str)> {
    let (local, remote) = line.trim_end().strip_prefix("Forwarding from ")?.split_once(" -> ")?;
    (!local.contains(char::is_whitespace) && remote.parse::<u16>().is_ok()).then_some((local, remote))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_lines_become_rows_and_other_lines_stay() {
        let mut ports = Ports::default();
        let mut take = |cluster: &str, line: &str| ports.take(&cluster.parse().unwrap(), line.as_bytes());
        assert!(take("m1", "Forwarding from 127.0.0.1:8080 -> 80"));
        assert!(take("eu-prod-1", "Forwarding from [::1]:8081 -> 80"));
        assert!(!take("m1", "Handling connection for 8080"));
        assert!(!take("m1", "Forwarding from here -> there"));
        assert_eq!(
            ports.show(),
            "CLUSTER     LOCAL            REMOTE\n\
             m1          127.0.0.1:8080   80\n\
             eu-prod-1   [::1]:8081       80\n"
        );
        assert_eq!((ports.due(), ports.show()), (None, String::new()));
    }
}
