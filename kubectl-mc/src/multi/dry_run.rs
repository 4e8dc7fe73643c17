//! `--dry-run=clusters`: prints the targets, and for each the command, ready to be pasted.

use std::ffi::OsStr;

use crate::argv::Scanned;
use crate::cluster::context::ClusterContext;
use crate::multi::selection::{Readiness, SelectedClusters};
use crate::tabwriter::TabWriter;

/// A table of the targets.
pub(crate) fn show(scanned: &Scanned, host: &ClusterContext, targets: &SelectedClusters) -> String {
    let mut writer = TabWriter::default();
    writer.line("CLUSTER\tREADY\tCOMMAND");
    for target in targets.iter() {
        let ready = match target.listed.as_ref().map(|listed| &listed.ready) {
            Some(Readiness::Ready) => "True",
            Some(Readiness::NotReady(_)) => "False",
            Some(Readiness::Unknown) | None => "Unknown",
        };
        let context = host.context.as_deref().map(|context| format!("--context={context}"));
        let cluster = format!("--cluster={}", target.name);
        let ours = context.iter().chain([&cluster]).map(|word| quoted(OsStr::new(word)));
        let words = ours.chain(scanned.kubectl.iter().map(|word| quoted(word)));
        let command = words.collect::<Vec<_>>().join(" ");
        writer.line(&format!("{}\t{ready}\tkubectl mc {command}", target.name));
    }
    writer.flush()
}

/// A word as a shell reads it back.
pub(super) fn quoted(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,@%+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.into_owned();
    }
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_when_a_shell_would_read_them_otherwise() {
        for (word, expected) in
            [("pods", "pods"), ("a b", "'a b'"), ("", "''"), ("it's", r"'it'\''s'"), ("-l=a!=b", "'-l=a!=b'")]
        {
            assert_eq!(quoted(OsStr::new(word)), expected);
        }
    }
}
