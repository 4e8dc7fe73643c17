//! Texts and names that attack terminals and shells, and the characters that no output of the plugin may have.

/// Clears the screen, sets a color, rings the bell, reverses and isolates the text that follows,
/// and adds a line.
pub const CONTROLS: &str =
    "x\u{1b}[2J\u{9b}31m\u{7}\u{7f}\u{202e}\u{2066}\u{200f}\u{2028}\u{feff}\nFORGED line\r\tend";

/// Parts of hostile names. The commands create the file `canary` in the current folder.
pub const PARTS: [&str; 46] = [
    "web",
    "m1",
    "A",
    "0",
    "-",
    "--",
    ".",
    "_",
    "/",
    ":",
    ",",
    "=",
    "@",
    "+",
    "%",
    "!",
    "~",
    "*",
    "?",
    "[a]",
    "#",
    "^",
    "&",
    "|",
    ";",
    "'",
    "\"",
    "\\",
    "{a,b}",
    "{1..3}",
    "$x",
    "$'x'",
    "é",
    "\u{202e}",
    " ",
    "<",
    ">",
    "<({touch,canary})",
    ">({touch,canary})",
    "$({touch,canary})",
    "`{touch,canary}`",
    "${x:=$({touch,canary})}",
    "$((a[$({touch,canary})]))",
    "&{touch,canary}",
    "|{touch,canary}",
    "\u{1b}[2J",
];

/// The parts, and a thousand names of up to four parts, the same in every run.
pub fn names() -> Vec<String> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % limit as u64).unwrap_or_default()
    };
    let mut random = || (0..=below(4)).map(|_| PARTS[below(PARTS.len())]).collect::<String>();
    let single = PARTS.map(str::to_owned);
    single.into_iter().chain((0..1_000).map(|_| random())).collect()
}

/// Names that each run a command in one place: in a shell's words or quotes, in flags, paths, lines
/// or templates.
pub fn commands() -> Vec<String> {
    [
        "<({touch,canary})",
        "$({touch,canary})",
        "$(touch canary)",
        "`touch canary`",
        ";touch canary;",
        "|touch canary",
        "&touch canary&",
        "x\ntouch canary\n",
        "';touch canary;'",
        "\";touch canary;\"",
        "(touch canary)",
        "--help",
        "-Ctouch",
        "--kubeconfig=canary",
        "..",
        "../../../../canary",
        "a/../../b",
        "%2e%2e",
        "\u{1b}]0;title\u{7}",
        "\u{1b}[2J",
        "tab\there",
        CONTROLS,
        "",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// The first character of an output that a terminal would act on. Tables contain no tabs, but
/// completions do.
pub fn acted_on(text: &str, has_tabs: bool) -> Option<char> {
    let is_plain = |c: char| c == '\n' || has_tabs && c == '\t';
    text.chars().find(|&c| c.is_control() && !is_plain(c) || DIRECTIONS.contains(c))
}

/// Characters that change the direction of text, end a line or have no width.
const DIRECTIONS: &str = "\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}\u{200e}\u{200f}\u{2028}\u{2029}\u{feff}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_found() {
        assert_eq!(acted_on(CONTROLS, false), Some('\u{1b}'));
        assert_eq!(acted_on("a\tb\n", true), None);
        assert_eq!(acted_on("a\tb\n", false), Some('\t'));
        assert_eq!(acted_on("ab\u{202e}", true), Some('\u{202e}'));
    }

    #[test]
    fn names_are_the_same_in_every_run() {
        assert_eq!(names(), names());
        assert!(names().iter().any(|name| name.contains("$({touch,canary})")));
    }
}
