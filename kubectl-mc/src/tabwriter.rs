//! Aligns columns as kubectl does: `liggitt/tabwriter` with a minimum width of 6, three spaces between
//! columns, and widths that are remembered from one part of a table to the next.

/// Text with tabs between cells, which waits for alignment.
#[derive(Debug, Default)]
pub(crate) struct TabWriter {
    lines: Vec<Vec<String>>,
    remembered: Vec<usize>,
}

impl TabWriter {
    /// Adds one line, without its line break.
    pub(crate) fn line(&mut self, text: &str) {
        self.lines.push(text.split(['\t', '\x0b']).map(str::to_owned).collect());
    }

    /// The number of waiting lines.
    pub(crate) fn waiting(&self) -> usize {
        self.lines.len()
    }

    /// The aligned lines so far.
    pub(crate) fn flush(&mut self) -> String {
        let lines = std::mem::take(&mut self.lines);
        let mut out = String::new();
        // A line with a single cell does not belong to the columns around it, and ends them.
        for lines in lines.split_inclusive(|line| line.len() == 1) {
            self.format(lines, &mut Vec::new(), &mut out);
        }
        out
    }

    /// The same as Go's `format`: a column extends over consecutive lines with a tab-terminated cell in it.
    fn format(&mut self, lines: &[Vec<String>], widths: &mut Vec<usize>, out: &mut String) {
        let column = widths.len();
        let has_cell = |line: &Vec<String>| column + 1 < line.len();
        let mut at = 0;
        while at < lines.len() {
            let begin = at;
            if !has_cell(&lines[at]) {
                while at < lines.len() && !has_cell(&lines[at]) {
                    at += 1;
                }
                write_lines(&lines[begin..at], widths, out);
                continue;
            }
            let mut width = MIN_WIDTH;
            while at < lines.len() && has_cell(&lines[at]) {
                width = width.max(runes(&lines[at][column]) + PADDING);
                at += 1;
            }
            if self.remembered.len() < column {
                self.remembered.extend_from_slice(&widths[self.remembered.len()..]);
            }
            if self.remembered.len() == column {
                self.remembered.push(width);
            } else {
                width = width.max(self.remembered[column]);
                self.remembered[column] = width;
            }
            widths.push(width);
            self.format(&lines[begin..at], widths, out);
            widths.pop();
        }
    }
}

fn write_lines(lines: &[Vec<String>], widths: &[usize], out: &mut String) {
    for line in lines {
        for (at, cell) in line.iter().enumerate() {
            out.push_str(cell);
            if let Some(width) = widths.get(at) {
                out.extend(std::iter::repeat_n(' ', width.saturating_sub(runes(cell))));
            }
        }
        out.push('\n');
    }
}

/// Go counts code points, not terminal columns.
fn runes(text: &str) -> usize {
    text.chars().count()
}

const MIN_WIDTH: usize = 6;
const PADDING: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_at_least_six_wide_and_three_apart() {
        let mut writer = TabWriter::default();
        for line in ["NAME\tREADY\tAGE", "a\t1/1\t2m", "long-name\t\t3"] {
            writer.line(line);
        }
        assert_eq!(
            writer.flush(),
            "NAME        READY   AGE\na           1/1     2m\nlong-name           3\n"
        );
        // Later lines keep the widths.
        writer.line("b\t0/1\t9s");
        assert_eq!(writer.flush(), "b           0/1     9s\n");
        let mut writer = TabWriter::default();
        writer.line("a\tb");
        assert_eq!(writer.flush(), "a     b\n");
    }

    #[test]
    fn line_without_cells_ends_the_columns_around_it() {
        let mut writer = TabWriter::default();
        for line in ["aaaaaaaa\tb", "one", "a\tb", "a\tb\tc"] {
            writer.line(line);
        }
        assert_eq!(writer.flush(), "aaaaaaaa   b\none\na          b\na          b     c\n");
    }
}
