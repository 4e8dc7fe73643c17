//! Tests arguments that differ between clusters, and commands that are refused because theirs
//! cannot differ.

use std::io::{Read, Write};

use crate::bed::{Bed, Ran};

#[test]
fn interactive_commands_are_refused_for_several() {
    let bed = Bed::with_kubectl("echo run");
    for (words, why) in [
        (&["exec", "-it", "x", "--", "sh"][..], "a terminal (--tty)"),
        (&["edit", "deploy/x"], "an editor"),
        (&["proxy"], "one local port"),
    ] {
        let ran = bed.run(&[&["-C", "m1,m2"], words].concat());
        let said = format!(
            "error: the command needs {why} and works on one cluster only, but 2 are chosen\n\
             hint: name one cluster: --cluster=NAME\n"
        );
        assert_eq!(ran, Ran::new(2, "", &said));
    }
}

#[test]
fn interactive_commands_for_several_leave_standard_input_unread() {
    let bed = Bed::with_kubectl("echo run");
    let (mut typed, mut keyboard) = std::io::pipe().unwrap();
    keyboard.write_all(b"exit").unwrap();
    drop(keyboard);
    let mut command = bed.command(&["-C", "m1,m2", "exec", "-it", "x", "--", "sh"]);
    let refused = command.stdin(typed.try_clone().unwrap()).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let mut left = String::new();
    typed.read_to_string(&mut left).unwrap();
    assert_eq!(left, "exit");
}

#[test]
fn copies_from_several_clusters_need_a_path_for_each() {
    let bed = Bed::with_kubectl("echo \"$@\"");
    let said = "error: 2 clusters would write their files to the same path \"log\"\n\
                hint: put the cluster's name into the path: log-{cluster}\n";
    for words in [
        &["cp", "web:/log", "log"][..],
        &["cp", "--", "web:/log", "log"],
        &["cluster-info", "dump", "--output-directory=log"],
    ] {
        assert_eq!(bed.run(&[&["-C", "m1,m2"], words].concat()), Ran::new(2, "", said), "{words:?}");
    }
    // A copy out of a cluster needs no confirmation.
    let copied = bed.run(&["-C", "m1,m2", "cp", "web:/log", "log-{cluster}"]);
    assert_eq!(
        (copied.code, copied.out.as_str()),
        (Some(0), "m1 | cp --context=mc/m1 web:/log log-m1\nm2 | cp --context=mc/m2 web:/log log-m2\n")
    );
}

#[test]
fn local_ports_and_paths_differ_from_cluster_to_cluster() {
    let bed = Bed::with_kubectl("echo \"$@\"");
    assert_eq!(
        bed.run(&["--yes", "-C", "m1,m2", "cp", "web:/log", "{cluster}.log"]).out,
        "m1 | cp --context=mc/m1 web:/log m1.log\nm2 | cp --context=mc/m2 web:/log m2.log\n"
    );
    let dumped = bed.run(&["-C", "m1,m2", "cluster-info", "dump", "--output-directory", "d/{cluster}"]).out;
    assert!(dumped.contains(" dump --output-directory d/m1\n"), "{dumped}");
    assert!(dumped.contains(" dump --output-directory d/m2\n"), "{dumped}");
    let mut lines: Vec<_> = bed
        .run(&["-C", "m1,m2", "port-forward", "svc/web", "8080:80"])
        .out
        .lines()
        .map(str::to_owned)
        .collect();
    lines.sort();
    assert_eq!(
        lines,
        [
            "m1 | port-forward --context=mc/m1 svc/web 8080:80",
            "m2 | port-forward --context=mc/m2 svc/web 8081:80"
        ]
    );
}
