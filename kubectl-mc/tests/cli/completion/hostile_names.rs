//! Tests that no candidate is a command for a shell, wherever its text comes from. kubectl before 1.34 passes
//! the candidates to `compgen -W`, which expands them when the user types a tab.

use std::fs;

use harness::hostile::shells;
use harness::hostile::texts::names;

use super::{bed, complete, patient};
use crate::bed::{Bed, Ran};

/// A member whose kubectl returns these lines.
fn member(lines: &str) -> Bed {
    let bed = bed();
    fs::write(bed.path("names"), format!("{lines}:4\n")).unwrap();
    bed.script("bin/kubectl", "#!/bin/sh\ncat names\n");
    bed
}

fn is_plain(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_alphanumeric() || "-._/:,=@+".contains(c))
}

#[test]
fn fault_81_names_of_a_member_run_nothing_in_the_shell() {
    for description in ["", "\tfrom `id` $(id) <(id) \u{7}text"] {
        let lines: String = names().iter().map(|name| format!("{name}{description}\n")).collect();
        let bed = member(&lines);
        let ran =
            Ran::from(patient(&bed, &["__complete", "-C", "us-1", "get", "pods", ""]).output().unwrap());
        fs::create_dir(bed.path("current")).unwrap();
        let shown = shells::offered_by_old_bash(&ran.out, &bed.path("current")).unwrap();
        let offered: Vec<_> = ran
            .out
            .lines()
            .filter(|line| !line.starts_with(':'))
            .map(|line| line.split('\t').next().unwrap())
            .collect();
        assert!(offered.len() > 50, "{ran:?}");
        // Neither a command nor any other expansion.
        let twice: Vec<_> = offered.iter().chain(&offered).copied().collect();
        assert_eq!(shown.lines().collect::<Vec<_>>(), twice, "{description:?}");
        let left: Vec<_> =
            fs::read_dir(bed.path("current")).unwrap().map(|file| file.unwrap().file_name()).collect();
        assert_eq!(left, ["answer"], "{description:?}");
        assert!(offered.iter().all(|word| is_plain(word) && !word.starts_with('-')), "{offered:?}");
        assert!(!ran.out.contains(['`', '$', '<', '\u{7}']), "{ran:?}");
    }
}

#[test]
fn names_of_kubernetes_are_all_offered() {
    let names = [
        "web-0",
        "sh.helm.release.v1.web.v1",
        "system:node",
        "kubeadm:get-nodes",
        "system:controller:job-controller",
        "pod/web",
        "deployments.apps",
        "jane@example.com",
        "admin_2",
        "custom-columns=",
        "a,b",
    ];
    let lines: String = names.iter().map(|name| format!("{name}\n")).collect();
    let bed = member(&lines);
    assert_eq!(complete(&bed, &["-C", "us-1", "get", "pods", ""]), [&names[..], &[":4"]].concat());
}

#[test]
fn fault_81_object_named_like_a_flag_is_not_offered() {
    let bed = member("--all\n-A\nweb\n--image=\tImage\n");
    // kubectl offers the required flags of a verb before a dash is typed.
    assert_eq!(complete(&bed, &["-C", "us-1", "delete", "pods", ""]), ["web", "--image=", ":4"]);
    let flags = complete(&bed, &["-C", "us-1", "delete", "pods", "-"]);
    assert!(flags.contains(&"--all".to_owned()), "{flags:?}");
}

#[test]
fn fault_81_typed_text_before_a_candidate_is_checked() {
    let bed = bed();
    for (typed, expected) in [
        ("us-1,", "us-1,eu-1 us-1,eu-2 :4"),
        ("!us-1,!", "!us-1,!eu-1 !us-1,!eu-2 :4"),
        ("$(id),", ":4"),
        ("<({id,-u}),", ":4"),
        ("'us-1,", ":4"),
    ] {
        assert_eq!(complete(&bed, &["-C", typed]).join(" "), expected, "{typed}");
    }
}
