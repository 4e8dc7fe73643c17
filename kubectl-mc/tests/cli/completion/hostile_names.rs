//! Tests that no candidate is a command for a shell, wherever its text comes from. kubectl before 1.34 passes
//! the candidates to `compgen -W`, which expands them when the user types a tab.

use std::fs;
use std::process::Command;

use super::{bed, complete, patient};
use crate::bed::{Bed, Ran};

/// The part of the script of `kubectl completion bash` of 1.32 (cobra 1.8.1) that handles the candidates.
const SCRIPT: &str = r#"
handle_standard_completion_case() {
    local tab=$'\t' comp
    if [[ "${completions[*]}" != *$tab* ]]; then
        IFS=$'\n' read -ra COMPREPLY -d '' < <(compgen -W "${completions[*]}" -- "$cur")
        return 0
    fi
    local compline
    while IFS='' read -r compline; do
        [[ -z $compline ]] && continue
        comp=${compline%%$tab*}
        [[ $comp == "$cur"* ]] || continue
        COMPREPLY+=("$comp")
    done < <(printf "%s\n" "${completions[@]}")
}
cur=
out=$(<answer)
out=${out%:*}
while IFS='' read -r line; do all+=("$line"); done <<<"$out"
# One by one, because a quote in one of them would hide the next one; then all of them.
for line in "${all[@]}"; do
    [[ -z $line ]] && continue
    completions=("$line")
    COMPREPLY=()
    handle_standard_completion_case
    printf '%s\n' "${COMPREPLY[@]}"
done
completions=("${all[@]}")
COMPREPLY=()
handle_standard_completion_case
printf '%s\n' "${COMPREPLY[@]}"
"#;

/// Parts of hostile names. The commands create a file in the current folder.
const PARTS: [&str; 46] = [
    "web",
    "m1",
    "A",
    "0",
    "-",
    "--",
    ".",
    "_",
    "/",
    ":",
    ",",
    "=",
    "@",
    "+",
    "%",
    "!",
    "~",
    "*",
    "?",
    "[a]",
    "#",
    "^",
    "&",
    "|",
    ";",
    "'",
    "\"",
    "\\",
    "{a,b}",
    "{1..3}",
    "$x",
    "$'x'",
    "é",
    "\u{202e}",
    " ",
    "<",
    ">",
    "<({touch,canary})",
    ">({touch,canary})",
    "$({touch,canary})",
    "`{touch,canary}`",
    "${x:=$({touch,canary})}",
    "$((a[$({touch,canary})]))",
    "&{touch,canary}",
    "|{touch,canary}",
    "\u{1b}[2J",
];

/// Names of up to four parts, the same in every run.
fn names() -> Vec<String> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % limit as u64).unwrap()
    };
    let mut random = || (0..=below(4)).map(|_| PARTS[below(PARTS.len())]).collect::<String>();
    let single = PARTS.map(str::to_owned);
    single.into_iter().chain((0..1_000).map(|_| random())).collect()
}

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
        fs::write(bed.path("answer"), &ran.out).unwrap();
        fs::create_dir(bed.path("current")).unwrap();
        fs::rename(bed.path("answer"), bed.path("current/answer")).unwrap();
        let mut bash = Command::new("bash");
        bash.args(["--noprofile", "--norc", "-c", SCRIPT]).current_dir(bed.path("current"));
        let shown = Ran::from(bash.output().unwrap());
        let offered: Vec<_> = ran
            .out
            .lines()
            .filter(|line| !line.starts_with(':'))
            .map(|line| line.split('\t').next().unwrap())
            .collect();
        assert!(offered.len() > 50, "{ran:?}");
        // Neither a command, nor any other expansion.
        let twice: Vec<_> = offered.iter().chain(&offered).copied().collect();
        assert_eq!(shown.out.lines().collect::<Vec<_>>(), twice, "{description:?}");
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
