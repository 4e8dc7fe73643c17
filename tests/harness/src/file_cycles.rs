//! Bounds the cycles between the files of each crate. A folder's file imports from the files in the folder. A file in it
//! that imports from the folder's file, with `super::` or by its whole path, makes a cycle: what
//! both need belongs in a separate file, such as `controllers::context`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The sources of each crate, the number of files in its largest cycle, and in all its cycles of
/// more than two files. Lower the numbers when a cycle is removed.
const BOUNDS: &[(&str, usize, usize)] =
    &[("kubectl-mc/src", 3, 6), ("sidecar/src", 5, 21), ("sidecar/api/src", 0, 0)];

type Imports = BTreeMap<String, BTreeSet<String>>;

#[test]
fn cycles_between_files_do_not_grow() {
    for (source, largest, all) in BOUNDS {
        let imports = imports(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(source));
        let reached: BTreeMap<&str, BTreeSet<&str>> =
            imports.keys().map(|file| (file.as_str(), reached_from(file, &imports))).collect();
        let cycles: BTreeSet<Vec<&str>> = reached
            .iter()
            .map(|(file, all)| all.iter().filter(|other| reached[*other].contains(file)).copied().collect())
            .filter(|cycle: &Vec<&str>| cycle.len() > 2)
            .collect();
        let found = (cycles.iter().map(Vec::len).max().unwrap_or(0), cycles.iter().map(Vec::len).sum());
        assert_eq!(found, (*largest, *all), "{source}: {cycles:#?}");
    }
}

fn reached_from<'a>(file: &'a str, imports: &'a Imports) -> BTreeSet<&'a str> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![file]);
    while let Some(file) = open.pop() {
        open.extend(imports[file].iter().map(String::as_str).filter(|other| reached.insert(*other)));
    }
    reached
}

/// The files that each file refers to.
fn imports(source: &Path) -> Imports {
    let mut texts = BTreeMap::new();
    visit(source, &mut |file| {
        let path = file.strip_prefix(source).unwrap().with_extension("");
        let path = path.to_str().unwrap().replace('/', "::");
        if !matches!(path.as_str(), "lib" | "main" | "layers") {
            let text = std::fs::read_to_string(file).unwrap();
            texts.insert(path, code(&text).map(str::trim).collect::<String>());
        }
    });
    texts.iter().map(|(path, text)| (path.clone(), named(path, text, &texts))).collect()
}

/// The other files that this one refers to: each path that begins with `crate`, `super`, `self` or
/// a file in its folder.
fn named(file: &str, text: &str, files: &BTreeMap<String, String>) -> BTreeSet<String> {
    let here: Vec<&str> = file.split("::").collect();
    let (mut named, mut before) = (BTreeSet::new(), ' ');
    for (at, character) in text.char_indices() {
        if is_word(character) && !is_word(before) && before != ':' {
            let mut paths = Vec::new();
            tree(&text[at..], Vec::new(), &mut paths);
            let paths = paths.into_iter().filter_map(|path| file_of(&here, &path, files));
            named.extend(paths.filter(|other| other != file));
        }
        before = character;
    }
    named
}

/// Adds the paths at the start of `text`, such as `a::{b, c::d}`, and returns the rest.
fn tree<'a>(text: &'a str, mut path: Vec<&'a str>, paths: &mut Vec<Vec<&'a str>>) -> &'a str {
    let mut rest = text.trim_start();
    if let Some(mut inner) = rest.strip_prefix('{') {
        while !inner.trim_start().starts_with('}') && !inner.is_empty() {
            let after = tree(inner, path.clone(), paths).trim_start();
            // This is something other than a list of imports.
            let Some(next) = after.strip_prefix(',').or_else(|| after.starts_with('}').then_some(after))
            else {
                return "";
            };
            inner = next;
        }
        return inner.trim_start().strip_prefix('}').unwrap_or_default();
    }
    let end = rest.find(|character| !is_word(character)).unwrap_or(rest.len());
    path.push(&rest[..end]);
    rest = &rest[end..];
    match rest.strip_prefix("::") {
        Some(inner) => tree(inner, path, paths),
        None => {
            paths.push(path);
            rest
        }
    }
}

/// The file that a path leads to: that of its longest prefix that is a file.
fn file_of(here: &[&str], path: &[&str], files: &BTreeMap<String, String>) -> Option<String> {
    // `pub(super)` refers to no file.
    if path.len() == 1 {
        return None;
    }
    let supers = path.iter().take_while(|part| **part == "super").count();
    let whole = match path.first() {
        Some(&"crate") => path[1..].to_vec(),
        Some(&"super") => [&here[..here.len().checked_sub(supers)?], &path[supers..]].concat(),
        Some(&"self") => [here, &path[1..]].concat(),
        _ if files.contains_key(&[here, &path[..1]].concat().join("::")) => [here, path].concat(),
        _ => return None,
    };
    (1..=whole.len()).rev().map(|length| whole[..length].join("::")).find(|path| files.contains_key(path))
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

fn code(text: &str) -> impl Iterator<Item = &str> {
    let text = text.split("mod tests {").next().unwrap_or_default();
    text.lines().filter(|line| !line.trim_start().starts_with("//") && !line.contains("pub(in "))
}

fn visit(folder: &Path, to: &mut impl FnMut(&Path)) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("tests") {
                visit(&path, to);
            }
        } else if !path.ends_with("tests.rs") {
            to(&path);
        }
    }
}
