//! Merges kubectl's tables of several clusters: a CLUSTER column first, one header for equal columns, aligned
//! over all clusters, and a separate block for each other set of columns.
//!
//! Rows are held back for half a second, so that those of all fast clusters are aligned; later rows keep the
//! widths. Blocks with other columns follow.

use crate::cluster::cluster_id::ClusterId;
use tokio::time::Instant;

use super::ordered_output::HELD;
use crate::server_text::escaped;
use crate::tabwriter::TabWriter;

/// Collects the tables.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// The output of the current cluster.
    text: Vec<u8>,
    /// The first block is printed as it grows.
    blocks: Vec<Block>,
    /// When rows were first held back.
    held: Option<Instant>,
}

/// Rows with the same columns.
#[derive(Debug, Default)]
struct Block {
    names: Vec<String>,
    writer: TabWriter,
}

impl Tables {
    /// Adds output of kubectl for the current cluster.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.text.extend_from_slice(bytes);
    }

    /// Handles the end of the current cluster.
    pub(super) fn end(&mut self, cluster: &ClusterId) {
        let text = std::mem::take(&mut self.text);
        let text = String::from_utf8_lossy(&text);
        // An empty line separates the tables of several types.
        for table in text.split("\n\n") {
            let mut lines = table.lines().filter(|line| !line.is_empty());
            let Some(header) = lines.next() else { continue };
            let starts = starts(header);
            let names = cells(header, &starts);
            let at = self.blocks.iter().position(|block| block.names == names).unwrap_or_else(|| {
                self.blocks.push(Block::new(names));
                self.blocks.len() - 1
            });
            for line in lines {
                self.blocks[at].writer.line(&format!("{cluster}\t{}", cells(line, &starts).join("\t")));
            }
            self.held.get_or_insert_with(Instant::now);
        }
    }

    /// When held rows must be shown.
    pub(super) fn due(&self) -> Option<Instant> {
        let waits = self.blocks.first().is_some_and(|block| block.writer.waiting() > 0);
        self.held.filter(|_| waits).map(|held| held + HELD)
    }

    /// The held rows of the first block.
    pub(super) fn show(&mut self) -> String {
        self.blocks.first_mut().map(Block::show).unwrap_or_default()
    }

    /// All rows that were not shown yet.
    pub(super) fn finish(mut self) -> String {
        self.blocks.iter_mut().map(Block::show).collect::<Vec<_>>().join("\n")
    }
}

impl Block {
    fn new(names: Vec<String>) -> Self {
        let mut writer = TabWriter::default();
        writer.line(&format!("CLUSTER\t{}", names.join("\t")));
        Self { names, writer }
    }

    fn show(&mut self) -> String {
        self.writer.flush().lines().map(|line| format!("{}\n", line.trim_end())).collect()
    }
}

/// The start of each column: a column name may contain one space (`LAST SEEN`), and at least two separate
/// columns.
fn starts(header: &str) -> Vec<usize> {
    let letters: Vec<char> = header.chars().collect();
    let is_space = |at: usize| letters.get(at).is_none_or(|letter| *letter == ' ');
    (0..letters.len())
        .filter(|&at| !is_space(at) && (at == 0 || (is_space(at - 1) && at >= 2 && is_space(at - 2))))
        .collect()
}

/// Splits a line at the column starts. A line that does not match them stays whole.
fn cells(line: &str, starts: &[usize]) -> Vec<String> {
    let letters: Vec<char> = line.chars().collect();
    let keeps = starts.iter().all(|&start| start == 0 || letters.get(start - 1).is_none_or(|c| *c == ' '));
    if !keeps {
        return vec![escaped(&line.replace('\t', " "))];
    }
    let ends = starts.iter().skip(1).copied().chain([letters.len()]);
    let cell = |(start, end): (usize, usize)| {
        let cell =
            letters.get(start.min(letters.len())..end.min(letters.len()).max(start.min(letters.len())));
        escaped(&cell.unwrap_or_default().iter().collect::<String>().trim_end().replace('\t', " "))
    };
    starts.iter().copied().zip(ends).map(cell).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn tables(texts: &[(&str, &str)]) -> String {
        let mut tables = Tables::default();
        for (cluster, text) in texts {
            // Split at every position.
            for byte in text.bytes() {
                tables.take(&[byte]);
            }
            tables.end(&cluster.parse().unwrap());
        }
        tables.finish()
    }

    #[test]
    fn equal_columns_are_one_table_aligned_over_all() {
        let small = "NAME   READY   LAST SEEN   AGE\nweb    1/1                 3s\n";
        let wide = "NAME           READY   LAST SEEN   AGE\nweb-with-name  1/1     2 m ago     3d\nx              0/1     <none>\n";
        assert_eq!(
            tables(&[("m1", small), ("eu-prod-1", wide)]),
            "CLUSTER     NAME            READY   LAST SEEN   AGE\n\
             m1          web             1/1                 3s\n\
             eu-prod-1   web-with-name   1/1     2 m ago     3d\n\
             eu-prod-1   x               0/1     <none>\n"
        );
    }

    #[test]
    fn other_columns_start_another_block() {
        let two = "NAME      AGE\npod/web   3s\n\nNAME      TYPE\nsvc/web   ClusterIP\n";
        assert_eq!(
            tables(&[("m1", two), ("m2", "NAME      AGE\npod/x     1s\n")]),
            "CLUSTER   NAME      AGE\nm1        pod/web   3s\nm2        pod/x     1s\n\n\
             CLUSTER   NAME      TYPE\nm1        svc/web   ClusterIP\n"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn late_rows_keep_the_column_widths() {
        let mut tables = Tables::default();
        let mut end = |cluster: &str, text: &str| {
            tables.take(text.as_bytes());
            tables.end(&cluster.parse().unwrap());
            tables.due().map(|due| due - Instant::now())
        };
        assert_eq!(end("m1", "NAME       AGE\na          3s\n"), Some(HELD));
        tokio::time::advance(HELD).await;
        assert_eq!(end("m2", "NAME            AGE\nwith-a-name     3s\n\nX\n1\n"), Some(Duration::ZERO));
        assert_eq!(
            tables.show(),
            "CLUSTER   NAME          AGE\nm1        a             3s\nm2        with-a-name   3s\n"
        );
        assert_eq!(tables.due(), None);
        tables.take(b"NAME   AGE\nb      9s\n");
        tables.end(&"m3".parse().unwrap());
        assert_eq!(tables.finish(), "m3        b             9s\n\nCLUSTER   X\nm2        1\n");
    }

    #[test]
    fn empty_output_prints_no_table() {
        assert_eq!(tables(&[]), "");
        assert_eq!(tables(&[("m1", "")]), "");
    }
}
