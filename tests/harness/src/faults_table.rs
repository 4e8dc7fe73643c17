//! Checks that the tests that `docs/dev/faults.md` lists for each fault exist. The test of a fault
//! has the fault's number in its name.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn every_named_test_exists() {
    let (tests, named) = (tests(), named());
    assert!(named.len() > 150, "{}", named.len());
    for (line, name) in &named {
        assert!(tests.contains(name), "there is no test {name}");
        let numbers = numbers(name);
        assert!(line.is_none_or(|line| numbers.contains(&line)), "{name} does not bear the number {line:?}");
    }
}

#[test]
fn every_fault_has_a_row_and_every_test_a_fault() {
    let lines: Vec<u32> = rows().iter().filter_map(|(first, _)| first.parse().ok()).collect();
    assert!(lines.is_sorted());
    let numbers: BTreeSet<u32> = lines.iter().copied().collect();
    let largest = numbers.last().copied().unwrap_or_default();
    assert!(largest > 80 && numbers.into_iter().eq(1..=largest), "a number is missing up to {largest}");
    assert!(tests().iter().flat_map(|name| self::numbers(name)).all(|number| lines.contains(&number)));
}

/// The numbers of the faults that a test covers, from its name.
fn numbers(name: &str) -> Vec<u32> {
    let words = name.strip_prefix("fault_").unwrap_or_default().split('_');
    words.map_while(|word| word.parse().ok()).collect()
}

/// Every test that a row lists, with the row's number if it has one.
fn named() -> Vec<(Option<u32>, String)> {
    let of_row = |(first, last): (String, String)| {
        let names = last.split('`').skip(1).step_by(2).filter(|word| !word.contains(':')).map(str::to_owned);
        names.map(|name| (first.parse().ok(), name)).collect::<Vec<_>>()
    };
    rows().into_iter().flat_map(of_row).collect()
}

/// The first and the last cell of each row.
fn rows() -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join("docs/dev/faults.md")).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let cells = rows.filter_map(|row| Some((row.split_once(" | ")?.0, row.rsplit_once(" | ")?.1)));
    cells.map(|(first, last)| (first.to_owned(), last.to_owned())).collect()
}

/// The names of all functions in the repository, including tests.
fn tests() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut folders =
        ["sidecar/src", "sidecar/tests", "sidecar/api", "kubectl-mc", "tests/e2e", "tests/testbed/src"]
            .map(|folder| root().join(folder))
            .to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let functions = text
                    .lines()
                    .filter_map(|line| line.trim().trim_start_matches("async ").strip_prefix("fn "));
                names.extend(functions.filter_map(|rest| Some(rest.split_once('(')?.0.to_owned())));
            }
        }
    }
    names
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
