//! Tests the manual pages, which packages install.

use std::collections::BTreeSet;
use std::fs;

use crate::bed::Bed;

const REFERENCE: &str = include_str!("../../../docs/reference/cli.md");

#[test]
fn manual_pages_have_every_verb_and_flag_of_the_reference() {
    let bed = Bed::unreachable();
    let ran = bed.run(&["__man", "man"]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(0), "", ""));
    let (mut verbs, mut described) = (0, 0);
    for section in REFERENCE.split("\n## `").skip(1).filter(|section| section.starts_with("kubectl mc")) {
        let (name, help) = section.split_once('`').unwrap();
        let page = fs::read_to_string(bed.path("man").join(name.replace(' ', "-") + ".1")).unwrap();
        let expected = flags(help, "\n");
        assert_eq!(flags(&page.replace("\\-", "-"), ".TP\n"), expected, "{name}");
        verbs += 1;
        described += expected.len();
    }
    assert!(verbs > 15 && described > 100, "{verbs} {described}");
}

#[test]
fn manual_pages_are_written_into_one_folder_or_refused() {
    let bed = Bed::unreachable();
    let ran = bed.run(&["__man"]);
    let said = "error: __man takes the folder for the manual pages, and nothing else\n";
    assert_eq!(ran.failed(), (2, said));
    fs::write(bed.path("file"), "").unwrap();
    let ran = bed.run(&["__man", "file"]);
    assert!(ran.code == Some(1) && ran.err.contains("cannot write manual pages into file: "), "{ran:?}");
}

/// The long flags that a text describes, each at the beginning of an entry.
fn flags(text: &str, begin: &str) -> BTreeSet<String> {
    let entries = text.split(begin).map(|entry| entry.lines().next().unwrap_or_default());
    let described = entries.filter(|line| line.trim_start_matches([' ', '\\', 'f', 'B']).starts_with('-'));
    let long = described.filter_map(|line| line.split("--").nth(1));
    long.map(|flag| flag.chars().take_while(|c| c.is_alphanumeric() || *c == '-').collect()).collect()
}
