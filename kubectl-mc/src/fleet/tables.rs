//! kubectl's tables of several clusters as one: the cluster first, one line of names for equal columns,
//! aligned over all, and a block of its own for columns that differ.

use std::io::Write;

use kubectl_mc_api::ClusterName;
use tabwriter::TabWriter;

/// The tables, as they come.
#[derive(Debug, Default)]
pub(super) struct Tables {
    texts: Vec<(ClusterName, Vec<u8>)>,
}

/// Rows of the same columns.
#[derive(Debug, Default)]
struct Block {
    names: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Tables {
    pub(super) fn take(&mut self, cluster: &ClusterName, bytes: &[u8]) {
        match self.texts.last_mut() {
            Some((last, text)) if last == cluster => text.extend_from_slice(bytes),
            _ => self.texts.push((cluster.clone(), bytes.to_vec())),
        }
    }

    /// All of them as one text.
    pub(super) fn render(&self) -> String {
        let mut blocks: Vec<Block> = Vec::new();
        for (cluster, text) in &self.texts {
            let text = String::from_utf8_lossy(text);
            // Tables of several types have an empty line between them.
            for table in text.split("\n\n") {
                let mut lines = table.lines().filter(|line| !line.is_empty());
                let Some(header) = lines.next() else { continue };
                let starts = starts(header);
                let names = cells(header, &starts);
                let rows = lines.map(|line| {
                    let mut row = vec![cluster.to_string()];
                    row.extend(cells(line, &starts));
                    row
                });
                match blocks.iter_mut().find(|block| block.names == names) {
                    Some(block) => block.rows.extend(rows),
                    None => blocks.push(Block { names, rows: rows.collect() }),
                }
            }
        }
        blocks.iter().map(Block::render).collect::<Vec<_>>().join("\n")
    }
}

impl Block {
    fn render(&self) -> String {
        let mut text = format!("CLUSTER\t{}\n", self.names.join("\t"));
        for row in &self.rows {
            text.push_str(&row.join("\t"));
            text.push('\n');
        }
        let mut writer = TabWriter::new(Vec::new()).padding(3);
        // Writing to memory cannot fail.
        let _ = writer.write_all(text.as_bytes());
        let aligned = writer.into_inner().map_or(text, |text| String::from_utf8_lossy(&text).into_owned());
        aligned.lines().map(|line| format!("{}\n", line.trim_end())).collect()
    }
}

/// Where columns start: a name may hold one space (`LAST SEEN`), between two there are more.
fn starts(header: &str) -> Vec<usize> {
    let letters: Vec<char> = header.chars().collect();
    let is_space = |at: usize| letters.get(at).is_none_or(|letter| *letter == ' ');
    (0..letters.len())
        .filter(|&at| !is_space(at) && (at == 0 || (is_space(at - 1) && at >= 2 && is_space(at - 2))))
        .collect()
}

/// A line cut where the columns start. One that does not keep to them stays whole.
fn cells(line: &str, starts: &[usize]) -> Vec<String> {
    let letters: Vec<char> = line.chars().collect();
    let keeps = starts.iter().all(|&start| start == 0 || letters.get(start - 1).is_none_or(|c| *c == ' '));
    if !keeps {
        return vec![line.replace('\t', " ")];
    }
    let ends = starts.iter().skip(1).copied().chain([letters.len()]);
    let cell = |(start, end): (usize, usize)| {
        let cell =
            letters.get(start.min(letters.len())..end.min(letters.len()).max(start.min(letters.len())));
        cell.unwrap_or_default().iter().collect::<String>().trim_end().replace('\t', " ")
    };
    starts.iter().copied().zip(ends).map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(texts: &[(&str, &str)]) -> String {
        let mut tables = Tables::default();
        for (cluster, text) in texts {
            // However it is cut.
            for byte in text.bytes() {
                tables.take(&cluster.parse().unwrap(), &[byte]);
            }
        }
        tables.render()
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
    fn other_columns_are_another_block() {
        let two = "NAME      AGE\npod/web   3s\n\nNAME      TYPE\nsvc/web   ClusterIP\n";
        assert_eq!(
            tables(&[("m1", two), ("m2", "NAME      AGE\npod/x     1s\n")]),
            "CLUSTER   NAME      AGE\nm1        pod/web   3s\nm2        pod/x     1s\n\n\
             CLUSTER   NAME      TYPE\nm1        svc/web   ClusterIP\n"
        );
    }

    #[test]
    fn nothing_is_no_table() {
        assert_eq!(tables(&[]), "");
        assert_eq!(tables(&[("m1", "")]), "");
    }
}
