//! Names the contexts of several files. A context keeps its name if no other file has a context of
//! that name; otherwise it is prefixed with the name of its file, as in `prod/admin`.

use std::collections::{HashMap, HashSet};
use std::path::Path;

/// A unique name for each entry. An entry without a context is a file that cannot be read.
pub(super) fn unique(entries: &[(&Path, Option<&str>)]) -> Vec<String> {
    let mut levels = vec![0; entries.len()];
    let mut names: Vec<_> = entries.iter().map(|entry| name(*entry, 0)).collect();
    loop {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        names.iter().for_each(|name| *counts.entry(name).or_default() += 1);
        let next = |at: usize| {
            let is_taken = counts.get(&*names[at]).is_some_and(|count| *count > 1);
            (is_taken && levels[at] < last_level(entries[at].0)).then(|| levels[at] + 1)
        };
        let changed: Vec<_> = (0..entries.len()).filter_map(|at| Some((at, next(at)?))).collect();
        if changed.is_empty() {
            return numbered(names);
        }
        for (at, level) in changed {
            levels[at] = level;
            names[at] = name(entries[at], level);
        }
    }
}

/// The name at a level: only the context, with the name of its file, with the file's extension,
/// then with one more folder at each level.
fn name((file, context): (&Path, Option<&str>), level: usize) -> String {
    let folders = level.saturating_sub(2);
    let mut parts: Vec<_> = file.iter().rev().take(folders + 1).map(|part| part.to_string_lossy()).collect();
    parts.reverse();
    let mut path = parts.join("/").trim_start_matches('/').to_owned();
    match (level, context) {
        (0, Some(context)) => return context.to_owned(),
        (1, Some(_)) => {
            let ending = ENDINGS.iter().find(|ending| path.len() > ending.len() && path.ends_with(**ending));
            path.truncate(path.len() - ending.map_or(0, |ending| ending.len()));
        }
        _ => {}
    }
    context.map_or_else(|| path.clone(), |context| format!("{path}/{context}"))
}

/// The level that includes the whole path.
fn last_level(file: &Path) -> usize {
    file.iter().count() + 1
}

/// Adds a number if a context in one file already has the name that another one gets from its file.
fn numbered(names: Vec<String>) -> Vec<String> {
    let mut taken: HashSet<String> = HashSet::new();
    let unique = |name: String| {
        let numbered = (2..).map(|number| format!("{name}#{number}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|name| !taken.contains(name));
        let name = free.unwrap_or(name);
        taken.insert(name.clone());
        name
    };
    names.into_iter().map(unique).collect()
}

/// The file name extensions to strip.
const ENDINGS: [&str; 6] = [".yaml", ".yml", ".json", ".conf", ".config", ".kubeconfig"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colliding_contexts_have_the_name_of_their_file() {
        for (entries, expected) in [
            (&[("/k/eu.yaml", "a"), ("/k/us.yaml", "b")][..], &["a", "b"][..]),
            (&[("/k/eu.yaml", "a"), ("/k/us.yaml", "a"), ("/k/us.yaml", "b")], &["eu/a", "us/a", "b"]),
            (
                &[("/k/eu.yaml", "a"), ("/k/eu.yml", "a"), ("/k/eu-1.34", "a")],
                &["eu.yaml/a", "eu.yml/a", "eu-1.34/a"],
            ),
            (&[("/k/eu/config", "a"), ("/k/us/config", "a")], &["eu/config/a", "us/config/a"]),
            (&[("k/config", "a"), ("config", "a")], &["k/config/a", "config/a"]),
            // A file that cannot be read has its whole name.
            (&[("/k/eu.yaml", ""), ("/k/us.yaml", "a")], &["eu.yaml", "a"]),
            (&[("/k/1/eu.yaml", ""), ("/k/2/eu.yaml", "")], &["1/eu.yaml", "2/eu.yaml"]),
            // A context already has the name that another one would get.
            (&[("/eu", "a"), ("/us", "a"), ("/x", "eu/a")], &["eu/a", "us/a", "x/eu/a"]),
            (&[("/c", "a"), ("/c", "a")], &["c/a", "c/a#2"]),
        ] {
            let of = |(file, context): &(&'static str, &'static str)| {
                (Path::new(*file), Some(*context).filter(|context| !context.is_empty()))
            };
            assert_eq!(unique(&entries.iter().map(of).collect::<Vec<_>>()), expected, "{entries:?}");
        }
    }
}
