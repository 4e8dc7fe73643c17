//! Parses a kubeconfig as client-go does, but several times as fast if it has hundreds of contexts:
//! such a file is nearly all base64, which the YAML parser reads character by character. These
//! values are taken out before parsing and put back afterwards.

use kube::config::Kubeconfig;
use serde_json::Value;

use super::{config, document};

/// The kubeconfig of a file.
pub(crate) fn parsed(bytes: &[u8]) -> Result<Kubeconfig, String> {
    let text = document::text(bytes)?;
    let document = match without_data(&text) {
        Some(document) => document,
        None => document::parse(&text)?,
    };
    config::kubeconfig(document)
}

/// Returns nothing if a value that was taken out was not the whole value of its field, as in a
/// block of text. The same applies to errors, so that the error is that of the original text.
fn without_data(text: &str) -> Option<Value> {
    if text.len() < LARGE || text.contains(MARK) {
        return None;
    }
    let (mut short, mut values) = (String::with_capacity(text.len() / 8), Vec::new());
    for line in text.split_inclusive('\n') {
        let content = line.trim_end_matches(['\n', '\r']);
        match content.split_once(": ").filter(|(key, value)| is_data(key) && is_long_base64(value)) {
            Some((key, value)) => {
                short.extend([key, ": ", MARK, &values.len().to_string(), &line[content.len()..]]);
                values.push(value);
            }
            None => short.push_str(line),
        }
    }
    let mut document = document::parse(&short).ok()?;
    let mut put_back = 0;
    for (list, field) in [("clusters", "cluster"), ("users", "user")] {
        let entries = document.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        let fields = entries.filter_map(|entry| entry.get_mut(field)?.as_object_mut());
        for (_, value) in fields.flatten().filter(|(key, _)| is_data(key)) {
            let index = value.as_str().and_then(|text| text.strip_prefix(MARK)?.parse::<usize>().ok());
            if let Some(original) = index.and_then(|index| values.get(index)) {
                put_back += 1;
                *value = Value::from(*original);
            }
        }
    }
    (put_back == values.len()).then_some(document)
}

fn is_data(key: &str) -> bool {
    let name = key.trim_start_matches([' ', '-']);
    matches!(name, "certificate-authority-data" | "client-certificate-data" | "client-key-data")
}

/// Long enough that it cannot be a number or another YAML word.
fn is_long_base64(value: &str) -> bool {
    value.len() >= 64
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='))
}

/// File size in bytes below which parsing takes no noticeable time.
const LARGE: usize = 64 * 1024;
/// Marks the place of a value that was taken out. A file that already contains the mark is parsed
/// unchanged.
const MARK: &str = "kubectl-mc/data/";

#[cfg(test)]
mod tests {
    use super::*;

    /// A kubeconfig with this many users, whose data are written by `value`.
    fn kubeconfig(users: usize, value: impl Fn(usize, &str) -> String) -> String {
        let field = |at: usize, name: &str| format!("    {name}: {}\n", value(at, name));
        let cluster = |at: usize| {
            format!("- name: c{at}\n  cluster:\n{}", field(at, "certificate-authority-data"))
                + &format!("    server: https://192.0.2.1:{at}\n")
        };
        let user = |at: usize| {
            format!(
                "- name: u{at}\n  user:\n{}{}",
                field(at, "client-certificate-data"),
                field(at, "client-key-data")
            )
        };
        let all = |line: &dyn Fn(usize) -> String| (0..users).map(line).collect::<String>();
        format!("apiVersion: v1\nclusters:\n{}users:\n{}", all(&cluster), all(&user))
    }

    fn base64(at: usize, name: &str) -> String {
        format!("{}{}{at:04}==", "QUJD".repeat(512), &name[name.len() - 8..name.len() - 5])
    }

    #[test]
    fn data_of_a_large_file_are_put_back() {
        let file = kubeconfig(20, base64);
        assert!(file.len() > LARGE);
        let quick = without_data(&file).unwrap();
        assert_eq!(quick, document::parse(&file).unwrap());
        assert!(quick.to_string().contains(&base64(19, "client-key-data")));
        let windows = file.replace('\n', "\r\n");
        assert_eq!(without_data(&windows).unwrap(), quick);
    }

    #[test]
    fn other_spellings_are_parsed_as_they_are() {
        let quoted = kubeconfig(20, |at, name| format!("\"{}\"", base64(at, name)));
        let folded = kubeconfig(20, |at, name| format!("{}\n      QUJD", base64(at, name)));
        let in_text = kubeconfig(20, |at, name| format!("|\n      client-key-data: {}", base64(at, name)));
        let commented = kubeconfig(20, |at, name| format!("{} # of u{at}", base64(at, name)));
        let anchored = kubeconfig(20, |at, name| match at {
            0 => format!("&{} {}", &name[..8], base64(at, name)),
            _ => format!("*{}", &name[..8]),
        }) + &" ".repeat(LARGE);
        for file in [quoted, folded, in_text, commented, anchored] {
            assert!(file.len() > LARGE);
            let slow = document::parse(&file).unwrap();
            assert_eq!(without_data(&file).unwrap_or_else(|| slow.clone()), slow, "{}", &file[..200]);
        }
    }

    #[test]
    fn places_in_the_file_itself_are_no_places() {
        let file =
            kubeconfig(20, base64) + &format!("- name: {MARK}1\n  user:\n    client-key-data: {MARK}1\n");
        assert!(without_data(&file).is_none());
    }

    #[test]
    fn errors_are_those_of_the_original() {
        let file = kubeconfig(20, base64) + "users: [\n";
        assert_eq!(without_data(&file), None);
        assert!(parsed(file.as_bytes()).is_err());
    }
}
