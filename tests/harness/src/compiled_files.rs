//! Checks that every file of the tests is a module of its program. A file without a `mod` is never
//! compiled, and its tests seem to pass.

use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn every_file_of_the_tests_is_a_module() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for folder in ["tests/e2e", "kubectl-mc/tests/cli"] {
        let main = root.join(folder).join("main.rs");
        let files = files(&root.join(folder));
        assert!(files.len() > 50, "{folder}: {}", files.len());
        for file in files.iter().filter(|file| **file != main) {
            let name = file.file_stem().unwrap().to_str().unwrap();
            let parent = parent(file).unwrap_or_else(|| main.clone());
            let text = fs::read_to_string(&parent).unwrap();
            let is_named =
                text.lines().any(|line| line.trim_end_matches(';').ends_with(&format!("mod {name}")));
            assert!(is_named, "{} has no `mod {name}` for {}", parent.display(), file.display());
        }
    }
}

/// A program of tests that no command names is never run, and its tests seem to pass.
#[test]
fn every_program_of_tests_is_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let commands =
        ["Makefile", "tests/e2e.sh"].map(|file| fs::read_to_string(root.join(file)).unwrap()).concat();
    let mut programs = vec!["cli".to_owned(), "e2e".to_owned()];
    for folder in ["kubectl-mc/tests", "sidecar/tests", "sidecar/api/tests"] {
        let entries = fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        let files = entries.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
        programs.extend(files.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()));
    }
    assert!(programs.len() > 10, "{programs:?}");
    let words: Vec<_> = commands.split_whitespace().collect();
    let is_run = |name: &String| words.windows(2).any(|pair| pair == ["--test", name]);
    programs.retain(|name| !is_run(name));
    assert_eq!(programs, [""; 0], "no command runs these");
}

/// `tests/e2e.sh` finds these folders as parts of a test's path, so a file of such a name would move its tests.
#[test]
fn no_file_of_the_tests_has_the_name_of_a_tier() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let files = files(&root.join("tests/e2e"));
    let is_tier = |file: &&PathBuf| TIERS.iter().any(|tier| file.file_stem().unwrap() == *tier);
    assert_eq!(files.iter().find(is_tier), None);
}

const TIERS: [&str; 6] = ["slow", "pods", "hubs", "quiet", "serial", "together"];

/// The nearest `foo.rs` next to a folder `foo` that contains the file. The folders in between are
/// modules within it.
fn parent(file: &Path) -> Option<PathBuf> {
    file.ancestors().skip(1).map(|folder| folder.with_extension("rs")).find(|beside| beside.is_file())
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}
