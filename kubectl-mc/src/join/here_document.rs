//! Renders manifests for a here-document in which the shell expands variables. The texts of the objects come
//! from a kubeconfig or from flags, so the shell must not expand anything in them.

use serde_json::Value;

use crate::apply::diff::documents;

/// The text of the objects between `<<EOF` and `EOF`. `objects` receives the function that returns
/// the placeholder of a shell variable; a placeholder is a whole string. An unset variable is an
/// error of the shell.
pub(super) fn here_document(objects: impl Fn(&dyn Fn(&str) -> String) -> Vec<Value>) -> String {
    let text = |marker: &str| documents(&objects(&|variable| format!("{marker}{variable}:?}}")));
    let plain = text("");
    let mut marker = String::from("SHELL-VARIABLE-");
    // No text in the objects can be mistaken for a variable.
    while plain.contains(&marker) {
        marker.push('-');
    }
    escaped(&text(&marker)).replace(&marker, "${")
}

/// Escapes what a shell expands in an unquoted here-document.
fn escaped(text: &str) -> String {
    text.replace('\\', r"\\").replace('$', r"\$").replace('`', r"\`")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What a shell with `V=value` passes to the command.
    fn expanded(text: &str) -> String {
        let script = format!("V=value; cat <<EOF\n{text}EOF\n");
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn shell_expands_only_the_variables_of_the_plugin() {
        let hostile = json!({
            "a": "$(echo run)", "b": "`echo run`", "c": "\\$V $V ${V}", "d": "EOF",
            "e": "one\nEOF\n$(echo run)\n", "f": "EOF\n\\", "g": "SHELL-VARIABLE-V SHELL-VARIABLE--V", "h\nEOF\n": "http://u:$p`\\w@proxy",
        });
        let objects = |token: &str| vec![json!({"stringData": hostile, "token": token})];
        let text = here_document(|variable| objects(&variable("V")));
        assert_eq!(expanded(&text), documents(&objects("value")));
    }
}
