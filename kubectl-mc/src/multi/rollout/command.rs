//! Derives the command that lists objects from a command that changes them.

use std::ffi::{OsStr, OsString};

use crate::argv::Scanned;

/// Whether the command changes workloads, whose pods follow later.
pub(super) fn changes_workloads(scanned: &Scanned) -> bool {
    let word = scanned.word_after_verb().and_then(OsStr::to_str).unwrap_or_default();
    match scanned.verb().and_then(OsStr::to_str).unwrap_or_default() {
        "apply" | "patch" | "replace" | "scale" => true,
        "set" => ["env", "image", "resources", "serviceaccount", "sa"].contains(&word),
        "rollout" => ["restart", "undo"].contains(&word),
        _ => false,
    }
}

/// The `get` of the objects that the command names.
pub(super) fn objects(scanned: &Scanned) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["get".into()];
    words.extend(named(scanned).into_iter().map(OsString::from));
    words.extend(flags(scanned, OBJECTS));
    words.extend(caller(scanned));
    // Objects that were just changed exist, so an object that is not found is a failure.
    words.push("--output=json".into());
    words
}

/// The flags that determine the caller.
pub(super) fn caller(scanned: &Scanned) -> Vec<OsString> {
    flags(scanned, CALLER)
}

/// The words that name objects: not the command itself, and not the values to set (`web=image:2`,
/// `KEY-`).
fn named(scanned: &Scanned) -> Vec<&OsStr> {
    let is_nested = scanned.verb().is_some_and(|verb| ["set", "rollout"].iter().any(|of| verb == *of));
    let words = scanned.words_after_verb().map(|(_, word)| word).skip(usize::from(is_nested));
    let names = |word: &&OsStr| {
        let word = word.as_encoded_bytes();
        !word.contains(&b'=') && !word.ends_with(b"-")
    };
    words.take_while(names).collect()
}

fn flags(scanned: &Scanned, names: &[&[&str]]) -> Vec<OsString> {
    let kept = scanned.flags().filter_map(|(flag, value)| {
        let long = names.iter().find(|names| names.contains(&flag))?.first()?;
        let mut word = OsString::from(format!("--{long}"));
        if let Some(value) = value {
            word.push("=");
            word.push(value);
        }
        Some(word)
    });
    kept.collect()
}

const OBJECTS: &[&[&str]] =
    &[&["filename", "f"], &["kustomize", "k"], &["recursive", "R"], &["selector", "l"], &["namespace", "n"]];
const CALLER: &[&[&str]] = &[&["as"], &["as-group"], &["as-uid"], &["as-user-extra"]];

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(line: &str) -> Scanned {
        crate::argv::scan(line.split(' ').map(Into::into).collect())
    }

    #[test]
    fn objects_of_a_change_are_listed() {
        for (line, expected) in [
            ("set image deployment/web web=x:2 -n shop", "get deployment/web --namespace=shop"),
            ("set image deploy web web=x:2 --all", "get deploy web"),
            ("set env deployment/web A=b C-", "get deployment/web"),
            ("rollout -n x restart deploy/web sts/db", "get deploy/web sts/db --namespace=x"),
            ("rollout restart deployment -l app=web", "get deployment --selector=app=web"),
            ("apply -f a.yaml -f b -R --server-side", "get --filename=a.yaml --filename=b --recursive"),
            ("apply -k ./over --prune", "get --kustomize=./over"),
            ("scale --replicas=3 deploy/web --as jane", "get deploy/web --as=jane"),
            ("patch deploy web -p {}", "get deploy web"),
        ] {
            let words = objects(&scan(line));
            let words: Vec<_> = words.iter().map(|word| word.to_str().unwrap()).collect();
            assert_eq!(words.join(" "), format!("{expected} --output=json"), "{line}");
        }
    }

    #[test]
    fn only_commands_that_change_pods_later_wait() {
        for line in [
            "apply -f x",
            "set image deploy/web web=x",
            "rollout restart deploy/web",
            "scale --replicas=1 rs/x",
        ] {
            assert!(changes_workloads(&scan(line)), "{line}");
        }
        for line in [
            "delete pod x",
            "set selector svc x a=b",
            "rollout pause deploy/web",
            "label pod x a=b",
            "exec x",
        ] {
            assert!(!changes_workloads(&scan(line)), "{line}");
        }
    }
}
