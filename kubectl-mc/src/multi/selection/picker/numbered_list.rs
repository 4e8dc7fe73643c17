//! Shows the numbered list and reads lines of input: numbers, ranges, the syntax of `--cluster`, and text
//! that filters the list.

use std::io::{self, BufRead, Write};

use super::super::choice::Choice;
use super::super::selected_clusters::SelectedCluster;
use super::super::term::Kind;
use crate::server_text::escaped;

/// Shows the clusters and reads the choice; `None` for empty input.
pub(super) fn pick(
    all: &[SelectedCluster],
    kind: Kind,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
) -> io::Result<Option<Choice>> {
    let mut shown: Vec<&SelectedCluster> = all.iter().collect();
    show(&shown, output)?;
    loop {
        write!(output, "Clusters (numbers, names or patterns, as in 1-3,5 or 'eu-*'; other text filters): ")?;
        output.flush()?;
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 || line.trim().is_empty() {
            return Ok(None);
        }
        match read(line.trim(), &shown, all, kind) {
            Answer::Choice(choice) => return Ok(choice),
            Answer::Filter(matching) => {
                shown = matching;
                show(&shown, output)?;
            }
            Answer::Invalid(why) => writeln!(output, "{}", escaped(&why))?,
        }
    }
}

fn show(clusters: &[&SelectedCluster], output: &mut dyn Write) -> io::Result<()> {
    let width = clusters.iter().map(|target| target.name.as_str().len()).max().unwrap_or(0);
    let digits = clusters.len().to_string().len();
    for (at, target) in clusters.iter().enumerate() {
        let state = if target.not_ready().is_some() { "   not ready" } else { "" };
        let line = format!("{:digits$}  {:width$}   {}{state}", at + 1, target.name.as_str(), labels(target));
        writeln!(output, "{}", line.trim_end())?;
    }
    Ok(())
}

fn labels(target: &SelectedCluster) -> String {
    let labels = target.listed.iter().flat_map(|listed| &listed.labels);
    labels.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

/// A parsed line of input.
enum Answer<'a> {
    Choice(Option<Choice>),
    /// The clusters with this text in their names or labels.
    Filter(Vec<&'a SelectedCluster>),
    Invalid(String),
}

/// Parses a line. Numbers and ranges are positions in the shown list; quotes are ignored.
fn read<'a>(line: &str, shown: &[&SelectedCluster], all: &'a [SelectedCluster], kind: Kind) -> Answer<'a> {
    let words: Vec<&str> = line
        .split(|c: char| c == ',' || c.is_whitespace())
        .map(|word| word.trim_matches(['\'', '"']))
        .filter(|word| !word.is_empty())
        .collect();
    let is_name = |word: &str| all.iter().any(|target| target.name.as_str() == word);
    if let [word] = words.as_slice()
        && !is_name(word)
        && numbers(word).is_none()
        && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_.=/:@".contains(c))
        && !word.starts_with('/')
    {
        let matching: Vec<_> = all
            .iter()
            .filter(|target| target.name.as_str().contains(word) || labels(target).contains(word))
            .collect();
        if matching.is_empty() {
            return Answer::Invalid(format!("no cluster has {word:?} in its name or labels"));
        }
        return Answer::Filter(matching);
    }
    let mut names = Vec::new();
    for word in words {
        match numbers(word).filter(|_| !is_name(word)) {
            None => names.push(word.to_owned()),
            Some((first, last)) if first >= 1 && first <= last && last <= shown.len() => {
                names.extend(shown[first - 1..last].iter().map(|target| target.name.as_term()));
            }
            Some(_) => return Answer::Invalid(format!("{word} is not among 1-{}", shown.len())),
        }
    }
    // An unknown name would end the command, but here the user can try again.
    let plain = |name: &&String| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if let Some(unknown) = names.iter().filter(plain).find(|name| !is_name(name)) {
        return Answer::Invalid(format!("no cluster {unknown:?}"));
    }
    let choice = match kind {
        Kind::Members => Choice::parse(&names, &[], None, false),
        Kind::Contexts => Choice::parse_contexts(&names, &[], None, false),
    };
    match choice {
        Ok(choice) => Answer::Choice(choice),
        Err(error) => Answer::Invalid(error.to_string()),
    }
}

/// Parses `3` or `1-3`.
fn numbers(word: &str) -> Option<(usize, usize)> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    Some((first.parse().ok()?, last.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picked(typed: &str) -> (Option<Choice>, String) {
        let all: Vec<_> =
            ["eu-1", "eu-2", "m1"].map(|name| SelectedCluster::unlisted(name.parse().unwrap())).into();
        let mut shown = Vec::new();
        let choice = pick(&all, Kind::Members, &mut typed.as_bytes(), &mut shown).unwrap();
        (choice, String::from_utf8(shown).unwrap())
    }

    #[test]
    fn numbers_names_and_patterns_are_parsed() {
        let choice = |text: &str| Choice::parse(&[text], &[], None, false).unwrap();
        assert_eq!(picked("3\n").0, choice("m1"));
        assert_eq!(picked("1, 3\n").0, choice("eu-1,m1"));
        assert_eq!(picked("'eu-*' !eu-2\n").0, choice("eu-*,!eu-2"));
        assert_eq!(picked("\n").0, None);
        assert_eq!(picked("").0, None);
        assert_eq!(picked("1-2\n").0, choice("eu-1,eu-2"));
        assert_eq!(picked("2-3,1\n").0, choice("eu-2,m1,eu-1"));
        assert!(picked("").1.starts_with("1  eu-1\n2  eu-2\n3  m1\nClusters ("));
    }

    #[test]
    fn text_filters_the_list() {
        let (choice, shown) = picked("eu\n2\n");
        assert_eq!(choice, Choice::parse(&["eu-2"], &[], None, false).unwrap());
        assert!(shown.contains("filters): 1  eu-1\n2  eu-2\nClusters ("), "{shown}");
        // Numbers are those of the shown list.
        assert_eq!(picked("m\n1\n").0, Choice::parse(&["m1"], &[], None, false).unwrap());
    }

    #[test]
    fn picker_repeats_after_an_invalid_answer() {
        for (typed, said) in [
            ("zzz", "no cluster has \"zzz\" in its name or labels"),
            ("4", "4 is not among 1-3"),
            ("0", "0 is not among 1-3"),
            ("2-1", "2-1 is not among 1-3"),
            ("m1,m7", "no cluster \"m7\""),
            ("/(/", "invalid"),
        ] {
            let (choice, shown) = picked(&format!("{typed}\nm1\n"));
            assert_eq!(choice, Choice::parse(&["m1"], &[], None, false).unwrap(), "{typed}");
            assert!(shown.contains(said), "{typed}: {shown}");
        }
    }
}
