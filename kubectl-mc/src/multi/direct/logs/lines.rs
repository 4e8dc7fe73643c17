//! Log lines with timestamps, and the position from which a log resumes after a drop.

/// Cuts bytes into whole lines, and leaves out what was shown before.
#[derive(Debug, Default)]
pub(super) struct Cutter {
    /// The beginning of a line whose end has not come.
    torn: Vec<u8>,
    place: Option<Place>,
    /// How many lines of the place's own time are to be left out.
    skip: usize,
    resumed: bool,
}

/// The time of the last line that was shown, and how many lines of that time there were.
#[derive(Clone, Debug, PartialEq)]
struct Place {
    time: String,
    lines: usize,
}

impl Cutter {
    /// Takes bytes as they come, and gives whole lines, each with its timestamp.
    pub(super) fn take(&mut self, bytes: &[u8], mut line: impl FnMut(&[u8])) {
        self.torn.extend_from_slice(bytes);
        let Some(end) = self.torn.iter().rposition(|byte| *byte == b'\n') else { return };
        let rest = self.torn.split_off(end + 1);
        let whole = std::mem::replace(&mut self.torn, rest);
        for text in whole.split_inclusive(|byte| *byte == b'\n') {
            if self.is_new(text) {
                line(text);
            }
        }
    }

    /// The last line, which has no end.
    pub(super) fn finish(&mut self, mut line: impl FnMut(&[u8])) {
        let text = std::mem::take(&mut self.torn);
        if !text.is_empty() && self.is_new(&text) {
            line(&text);
        }
    }

    /// Forgets half a line, and gives the time from which the log is asked for again.
    pub(super) fn resume(&mut self) -> Option<String> {
        self.torn.clear();
        let place = self.place.as_ref()?;
        (self.skip, self.resumed) = (place.lines, true);
        Some(place.time.clone())
    }

    /// Servers give lines from the whole second on; what was shown of it is left out.
    fn is_new(&mut self, text: &[u8]) -> bool {
        let Some(time) = time(text) else { return true };
        if let Some(place) = &mut self.place {
            match order(time, &place.time) {
                std::cmp::Ordering::Less if self.resumed => return false,
                std::cmp::Ordering::Equal if self.skip > 0 => {
                    self.skip -= 1;
                    return false;
                }
                std::cmp::Ordering::Equal => {
                    place.lines += 1;
                    return true;
                }
                std::cmp::Ordering::Less | std::cmp::Ordering::Greater => {}
            }
        }
        (self.skip, self.resumed) = (0, false);
        self.place = Some(Place { time: time.to_owned(), lines: 1 });
        true
    }
}

/// A line without its timestamp.
pub(super) fn without_time(text: &[u8]) -> &[u8] {
    match time(text) {
        Some(time) => {
            let rest = &text[time.len()..];
            rest.strip_prefix(b" ").unwrap_or(rest)
        }
        None => text,
    }
}

/// The timestamp before a line: RFC 3339, in UTC.
fn time(text: &[u8]) -> Option<&str> {
    let end = text.iter().position(|byte| matches!(byte, b' ' | b'\n')).unwrap_or(text.len());
    let time = std::str::from_utf8(&text[..end]).ok()?;
    time.parse::<jiff::Timestamp>().is_ok().then_some(time)
}

/// The order of two times, whose fractions may be cut to different lengths.
fn order(a: &str, b: &str) -> std::cmp::Ordering {
    let time = |text: &str| text.parse::<jiff::Timestamp>().ok();
    time(a).cmp(&time(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(cutter: &mut Cutter, bytes: &str) -> Vec<String> {
        let mut lines = Vec::new();
        cutter.take(bytes.as_bytes(), |line| {
            lines.push(String::from_utf8(without_time(line).to_vec()).unwrap());
        });
        lines
    }

    #[test]
    fn chunks_are_joined_to_whole_lines() {
        let mut cutter = Cutter::default();
        assert_eq!(take(&mut cutter, "2026-01-01T00:00:00.5Z on"), [""; 0]);
        assert_eq!(
            take(&mut cutter, "e\n2026-01-01T00:00:01Z two\n2026-01-01T00:00:02Z"),
            ["one\n", "two\n"]
        );
        let mut last = Vec::new();
        cutter.finish(|line| last.push(without_time(line).to_vec()));
        assert_eq!(last, [b""]);
    }

    #[test]
    fn after_a_drop_no_line_is_doubled_and_none_is_lost() {
        let mut cutter = Cutter::default();
        let before = "2026-01-01T00:00:00.1Z a\n2026-01-01T00:00:00.2Z b\n2026-01-01T00:00:00.2Z c\n2026-01-01T00:00:00.2Z d";
        assert_eq!(take(&mut cutter, before), ["a\n", "b\n", "c\n"]);
        assert_eq!(cutter.resume().as_deref(), Some("2026-01-01T00:00:00.2Z"));
        let again = "2026-01-01T00:00:00.1Z a\n2026-01-01T00:00:00.200Z b\n2026-01-01T00:00:00.2Z c\n2026-01-01T00:00:00.2Z d\n2026-01-01T00:00:00.3Z e\n";
        assert_eq!(take(&mut cutter, again), ["d\n", "e\n"]);
        // Twice in a row, too.
        assert_eq!(cutter.resume().as_deref(), Some("2026-01-01T00:00:00.3Z"));
        assert_eq!(take(&mut cutter, "2026-01-01T00:00:00.3Z e\n2026-01-01T00:00:00.3Z f\n"), ["f\n"]);
    }

    #[test]
    fn a_clock_that_goes_back_loses_nothing() {
        let mut cutter = Cutter::default();
        assert_eq!(take(&mut cutter, "2026-01-01T00:00:02Z a\n2026-01-01T00:00:01Z b\n"), ["a\n", "b\n"]);
    }
}
