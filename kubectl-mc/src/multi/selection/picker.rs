//! Asks at the terminal for clusters when none is chosen: a numbered list and one line of input, with the syntax of
//! `--cluster`.

use std::io::{self, BufRead, Write};

use super::{Choice, SelectedCluster, TermError};
use crate::server_text::escaped;

/// Shows the clusters and reads the choice; `None` when the answer is empty.
pub(crate) fn pick(
    all: &[SelectedCluster],
    input: &mut dyn BufRead,
    output: &mut dyn Write,
) -> io::Result<Option<Choice>> {
    let width = all.iter().map(|target| target.name.as_str().len()).max().unwrap_or(0);
    let digits = all.len().to_string().len();
    for (at, target) in all.iter().enumerate() {
        let state = if target.not_ready().is_some() { "   not ready" } else { "" };
        let labels = target.listed.iter().flat_map(|listed| &listed.labels);
        let labels: Vec<_> = labels.map(|(key, value)| format!("{key}={value}")).collect();
        let line =
            format!("{:digits$}  {:width$}   {}{state}", at + 1, target.name.as_str(), labels.join(","));
        writeln!(output, "{}", line.trim_end())?;
    }
    loop {
        write!(output, "Clusters (numbers, names or patterns, as in 1,3 or 'eu-*'): ")?;
        output.flush()?;
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 || line.trim().is_empty() {
            return Ok(None);
        }
        match read(line.trim(), all) {
            Ok(choice) => return Ok(choice),
            Err(error) => writeln!(output, "{}", escaped(&error.to_string()))?,
        }
    }
}

/// Numbers are names by their place; quotes are forgiven.
fn read(line: &str, all: &[SelectedCluster]) -> Result<Option<Choice>, TermError> {
    let by_number = |word: &str| {
        let at: usize = word.parse().ok()?;
        all.get(at.checked_sub(1)?).map(|target| target.name.to_string())
    };
    let words: Vec<_> = line
        .split(|c: char| c == ',' || c.is_whitespace())
        .map(|word| word.trim_matches(['\'', '"']))
        .filter(|word| !word.is_empty())
        .map(|word| by_number(word).unwrap_or_else(|| word.to_owned()))
        .collect();
    Choice::parse(&words, &[], None, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picked(typed: &str) -> (Option<Choice>, String) {
        let all: Vec<_> =
            ["eu-1", "eu-2", "m1"].map(|name| SelectedCluster::unlisted(name.parse().unwrap())).into();
        let mut shown = Vec::new();
        let choice = pick(&all, &mut typed.as_bytes(), &mut shown).unwrap();
        (choice, String::from_utf8(shown).unwrap())
    }

    #[test]
    fn numbers_names_and_patterns_are_understood() {
        let choice = |text: &str| Choice::parse(&[text], &[], None, false).unwrap();
        assert_eq!(picked("3\n").0, choice("m1"));
        assert_eq!(picked("1, 3\n").0, choice("eu-1,m1"));
        assert_eq!(picked("'eu-*' !eu-2\n").0, choice("eu-*,!eu-2"));
        assert_eq!(picked("\n").0, None);
        assert_eq!(picked("").0, None);
        assert!(picked("").1.starts_with("1  eu-1\n2  eu-2\n3  m1\nClusters ("));
    }

    #[test]
    fn picker_repeats_after_an_invalid_answer() {
        let (choice, shown) = picked("Nope\nm1\n");
        assert!(choice.unwrap().exact().is_some());
        assert!(shown.contains("invalid cluster name \"Nope\""), "{shown}");
    }
}
