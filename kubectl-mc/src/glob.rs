//! Converts a glob into a regular expression: `*`, `?`, `[a-c]` and `[!a-c]`. All other characters are literal.

/// The regular expression, or `None` if a class is invalid or a literal character is not allowed.
pub(crate) fn expression(text: &str, may_be: fn(char) -> bool) -> Option<String> {
    // The names of contexts and files may contain line ends.
    let mut expression = String::from("(?s)^(?:");
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '*' => expression.push_str(".*"),
            '?' => expression.push('.'),
            '[' => {
                let class: String = letters.by_ref().take_while(|&letter| letter != ']').collect();
                let (not, class) = match class.strip_prefix(['!', '^']) {
                    Some(class) => ("^", class),
                    None => ("", class.as_str()),
                };
                if class.is_empty() || !class.chars().all(|letter| is_of_classes(letter) && may_be(letter)) {
                    return None;
                }
                expression.push_str(&format!("[{not}{class}]"));
            }
            letter if may_be(letter) => expression.push_str(&regex::escape(letter.encode_utf8(&mut [0; 4]))),
            _ => return None,
        }
    }
    expression.push_str(")$");
    Some(expression)
}

/// Whether the text has the syntax of a glob.
pub(crate) fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Literal characters in a class of a regular expression, and the range sign.
fn is_of_classes(letter: char) -> bool {
    letter.is_alphanumeric() || "-_.:@/".contains(letter)
}
