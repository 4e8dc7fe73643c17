//! Renders a program's output and exit code as one text that a test compares word for word. Values that
//! differ from run to run are replaced by names.

use regex::Regex;

use crate::tool::Output;

impl Output {
    /// The exit code, standard output and standard error.
    pub fn rendered(&self) -> String {
        render(self.code, &self.text(), &self.stderr)
    }
}

/// The same for a program that was run in another way.
pub fn render(code: i32, stdout: &str, stderr: &str) -> String {
    let part = |name: &str, text: &str| {
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "(no newline)\n" };
        format!("----- {name} -----\n{}{end}", steady(text))
    };
    format!("exit code: {code}\n{}{}", part("stdout", stdout), part("stderr", stderr))
}

/// Replaces the values that differ from run to run.
fn steady(text: &str) -> String {
    let mut text = text.to_owned();
    for (pattern, name) in VOLATILE {
        // The patterns are constants, and every test that uses them checks that they compile.
        if let Ok(pattern) = Regex::new(pattern) {
            text = pattern.replace_all(&text, *name).into_owned();
        }
    }
    text
}

/// Patterns, and the names that replace them.
const VOLATILE: &[(&str, &str)] = &[
    (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "UID"),
    (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
    (r#"(resourceVersion"?: )"\d+""#, r#"$1"VERSION""#),
    (r"https?://[0-9.]+:\d+", "SERVER"),
    (r"/tmp/\.tmp\w+", "FOLDER"),
    // An age is at the end of a column or of a line.
    (r"   (\d+[smhd]){1,2} *(   |\n)", "   AGE$2"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_differ_from_run_to_run_become_names() {
        let text = "NAME   AGE\na      3s\nb      10m5s   x=y\nuid: 01234567-89ab-cdef-0123-456789abcdef\n\
                    resourceVersion: \"12\"\nresourceVersion: \"\"\nat https://10.0.0.1:6443 by 2026-01-01T00:00:00Z\n";
        assert_eq!(
            steady(text),
            "NAME   AGE\na      AGE\nb      AGE   x=y\nuid: UID\n\
             resourceVersion: \"VERSION\"\nresourceVersion: \"\"\nat SERVER by TIME\n"
        );
        assert_eq!(
            render(3, "a", ""),
            "exit code: 3\n----- stdout -----\na(no newline)\n----- stderr -----\n"
        );
    }
}
