//! Splits a log into lines with timestamps, and tracks the position from which it resumes after a lost
//! connection.

use crate::multi::lines::LONGEST_LINE;

/// Splits bytes into whole lines, and skips lines that were already printed.
#[derive(Debug)]
pub(super) struct Cutter {
    /// Longer lines are split into parts of this length.
    longest: usize,
    /// Whether a line that is being split into parts is printed.
    part: Option<bool>,
    /// The beginning of an incomplete line.
    torn: Vec<u8>,
    place: Option<Place>,
    /// Number of lines to skip with the time of the position.
    skip: usize,
    resumed: bool,
}

/// The time of the last printed line, and the number of printed lines with that time.
#[derive(Clone, Debug, PartialEq)]
struct Place {
    time: String,
    lines: usize,
}

impl Default for Cutter {
    fn default() -> Self {
        Self::with_longest_line(LONGEST_LINE)
    }
}

impl Cutter {
    /// Buffers at most this number of bytes of a line.
    fn with_longest_line(longest: usize) -> Self {
        Self { longest, part: None, torn: Vec::new(), place: None, skip: 0, resumed: false }
    }

    /// Adds received bytes and passes on whole lines, each with its timestamp. If a long line is split, only
    /// its first part has a timestamp.
    pub(super) fn take(&mut self, bytes: &[u8], mut line: impl FnMut(&[u8])) {
        let begun = self.torn.len();
        self.torn.extend_from_slice(bytes);
        if let Some(end) = self.torn[begun..].iter().rposition(|byte| *byte == b'\n') {
            let rest = self.torn.split_off(begun + end + 1);
            let whole = std::mem::replace(&mut self.torn, rest);
            for text in whole.split_inclusive(|byte| *byte == b'\n') {
                if self.part.take().unwrap_or_else(|| self.is_new(text)) {
                    line(text);
                }
            }
        }
        if self.torn.len() > self.longest {
            let text = std::mem::take(&mut self.torn);
            let is_shown = self.part.unwrap_or_else(|| self.is_new(&text));
            self.part = Some(is_shown);
            if is_shown {
                line(&text);
            }
        }
    }

    /// Passes on the last line, which has no line break.
    pub(super) fn finish(&mut self, mut line: impl FnMut(&[u8])) {
        let text = std::mem::take(&mut self.torn);
        if !text.is_empty() && self.part.take().unwrap_or_else(|| self.is_new(&text)) {
            line(&text);
        }
    }

    /// Drops an incomplete line, and returns the time from which to request the log again.
    pub(super) fn resume(&mut self) -> Option<String> {
        self.torn.clear();
        let is_part = self.part.take() == Some(true);
        let place = self.place.as_mut()?;
        if is_part {
            // Its end was not printed, so the line is printed again.
            place.lines = place.lines.saturating_sub(1);
        }
        (self.skip, self.resumed) = (place.lines, true);
        Some(place.time.clone())
    }

    /// Servers resume from the start of a second; lines of it that were printed are skipped.
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

/// The line without its timestamp.
pub(super) fn without_time(text: &[u8]) -> &[u8] {
    split_time(text).1
}

/// The timestamp of a line, and the line without it.
pub(super) fn split_time(text: &[u8]) -> (Option<&str>, &[u8]) {
    let Some(time) = time(text) else { return (None, text) };
    let rest = &text[time.len()..];
    (Some(time), rest.strip_prefix(b" ").unwrap_or(rest))
}

/// The timestamp of a line: RFC 3339, in UTC.
fn time(text: &[u8]) -> Option<&str> {
    let end = text.iter().position(|byte| matches!(byte, b' ' | b'\n')).unwrap_or(text.len());
    let time = std::str::from_utf8(&text[..end]).ok()?;
    time.parse::<jiff::Timestamp>().is_ok().then_some(time)
}

/// Compares two times, whose fractions may have different lengths.
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
    fn reconnect_neither_repeats_nor_loses_a_line() {
        let mut cutter = Cutter::default();
        let before = "2026-01-01T00:00:00.1Z a\n2026-01-01T00:00:00.2Z b\n2026-01-01T00:00:00.2Z c\n2026-01-01T00:00:00.2Z d";
        assert_eq!(take(&mut cutter, before), ["a\n", "b\n", "c\n"]);
        assert_eq!(cutter.resume().as_deref(), Some("2026-01-01T00:00:00.2Z"));
        let again = "2026-01-01T00:00:00.1Z a\n2026-01-01T00:00:00.200Z b\n2026-01-01T00:00:00.2Z c\n2026-01-01T00:00:00.2Z d\n2026-01-01T00:00:00.3Z e\n";
        assert_eq!(take(&mut cutter, again), ["d\n", "e\n"]);
        // The log resumes twice in a row.
        assert_eq!(cutter.resume().as_deref(), Some("2026-01-01T00:00:00.3Z"));
        assert_eq!(take(&mut cutter, "2026-01-01T00:00:00.3Z e\n2026-01-01T00:00:00.3Z f\n"), ["f\n"]);
    }

    #[test]
    fn long_line_is_split_into_bounded_parts() {
        let mut cutter = Cutter::with_longest_line(30);
        let long = format!("2026-01-01T00:00:01Z {}", "x".repeat(20));
        assert_eq!(take(&mut cutter, &long), ["x".repeat(20)]);
        assert!(cutter.torn.is_empty());
        assert_eq!(take(&mut cutter, "tail\n2026-01-01T00:00:02Z b\n"), ["tail\n", "b\n"]);
    }

    #[test]
    fn long_line_cut_by_a_reconnect_is_shown_again() {
        let mut cutter = Cutter::with_longest_line(30);
        let (first, long) = ("2026-01-01T00:00:01Z a\n", format!("2026-01-01T00:00:01Z {}", "x".repeat(20)));
        assert_eq!(take(&mut cutter, &format!("{first}{long}")).len(), 2);
        assert_eq!(cutter.resume().as_deref(), Some("2026-01-01T00:00:01Z"));
        assert_eq!(take(&mut cutter, &format!("{first}{long}")), ["x".repeat(20)]);
        // A line that was printed completely is skipped completely.
        assert_eq!(take(&mut cutter, "end\n"), ["end\n"]);
        assert!(cutter.resume().is_some());
        assert_eq!(take(&mut cutter, &format!("{first}{long}")), [""; 0]);
        assert_eq!(take(&mut cutter, "end\n2026-01-01T00:00:02Z b\n"), ["b\n"]);
    }

    #[test]
    fn clock_step_backwards_loses_no_line() {
        let mut cutter = Cutter::default();
        assert_eq!(take(&mut cutter, "2026-01-01T00:00:02Z a\n2026-01-01T00:00:01Z b\n"), ["a\n", "b\n"]);
    }
}
