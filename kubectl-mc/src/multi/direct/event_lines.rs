//! Splits the body of a watch into events: one JSON object per line, in frames with arbitrary boundaries.

use crate::multi::fault::Fault;

/// Joins frames to complete events.
#[derive(Debug, Default)]
pub(super) struct EventLines(Vec<u8>);

impl EventLines {
    /// Adds a frame and returns the events that it completes.
    pub(super) fn take(&mut self, data: &[u8]) -> Result<Events, Fault> {
        let begun = self.0.len();
        self.0.extend_from_slice(data);
        match self.0[begun..].iter().rposition(|byte| *byte == b'\n') {
            Some(end) => {
                let rest = self.0.split_off(begun + end + 1);
                Ok(Events(std::mem::replace(&mut self.0, rest)))
            }
            None if self.0.len() > MAX_EVENT => Err(Fault::Unreadable("an event without end".into())),
            None => Ok(Events(Vec::new())),
        }
    }
}

/// Complete events.
#[derive(Debug)]
pub(super) struct Events(Vec<u8>);

impl Events {
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty())
    }
}

/// An object is at most 1.5 MiB in etcd.
const MAX_EVENT: usize = 16 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn take(lines: &mut EventLines, data: &str) -> Vec<String> {
        let events = lines.take(data.as_bytes()).unwrap();
        events.iter().map(|event| String::from_utf8(event.to_vec()).unwrap()).collect()
    }

    #[test]
    fn events_are_whole_across_frame_boundaries() {
        let mut lines = EventLines::default();
        assert_eq!(take(&mut lines, "{\"a\""), [""; 0]);
        assert_eq!(take(&mut lines, ":1}\n{\"b\":2}\n\n{"), ["{\"a\":1}", "{\"b\":2}"]);
        assert_eq!(take(&mut lines, "}\n"), ["{}"]);
    }

    #[test]
    fn endless_event_is_refused() {
        let mut lines = EventLines::default();
        let piece = vec![b'x'; MAX_EVENT / 2];
        assert!(lines.take(&piece).is_ok() && lines.take(&piece).is_ok());
        assert!(lines.take(b"x").is_err());
    }
}
