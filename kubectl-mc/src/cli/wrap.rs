//! Wraps the help to the width of a terminal. Examples are commands, so they are never wrapped.

/// Wraps long lines at spaces. A wrapped line of a flag continues in the column of its description.
pub(crate) fn wrap(text: &str) -> String {
    let mut wrapped = String::with_capacity(text.len());
    for line in text.lines() {
        wrap_line(line, &mut wrapped);
    }
    wrapped
}

fn wrap_line(line: &str, wrapped: &mut String) {
    let indent = column(line);
    let mut rest = line.to_owned();
    while let Some(at) = cut(&rest, indent) {
        wrapped.push_str(rest[..at].trim_end());
        wrapped.push('\n');
        rest = format!("{:indent$}{}", "", rest[at..].trim_start());
    }
    wrapped.push_str(&rest);
    wrapped.push('\n');
}

/// Where to wrap a long line: at its last space before the width and after the indentation.
fn cut(line: &str, indent: usize) -> Option<usize> {
    let (edge, _) = line.char_indices().nth(WIDTH)?;
    let space = line[..=edge].rfind(' ')?;
    (line[..space].trim_end().len() > indent).then_some(space)
}

/// The column of a flag's description: after the first two spaces inside the line.
fn column(line: &str) -> usize {
    let text = line.trim_start();
    let indent = line.len() - text.len();
    let description = text.find("  ").map(|gap| gap + text[gap..].len() - text[gap..].trim_start().len());
    let is_list = indent > 0 && description.is_some_and(|at| indent + at < WIDTH / 2 + indent);
    if is_list { indent + description.unwrap_or_default() } else { indent }
}

/// The minimum width of a terminal.
pub(crate) const WIDTH: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_continue_under_their_description() {
        let long = "word ".repeat(20);
        let long = long.trim();
        for (line, indent) in [
            (format!("  -C, --cluster <CLUSTERS>  {long}"), 28),
            (format!("          {long}"), 10),
            (long.to_owned(), 0),
        ] {
            let wrapped = wrap(&line);
            assert!(
                wrapped.lines().count() > 1 && wrapped.lines().all(|line| line.len() <= WIDTH),
                "{wrapped}"
            );
            let next = format!("\n{:indent$}word", "");
            assert!(wrapped.contains(&next), "{wrapped}");
            assert_eq!(
                wrapped.split_whitespace().collect::<Vec<_>>(),
                line.split_whitespace().collect::<Vec<_>>()
            );
        }
        let word = "x".repeat(90);
        assert_eq!(wrap(&format!("  {word} y")), format!("  {word} y\n"));
        assert_eq!(wrap("short\n\n  two\n"), "short\n\n  two\n");
    }
}
