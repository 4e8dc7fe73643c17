//! Tests kubeconfigs from a pipe, which can be read only once.

use std::path::Path;
use std::process::Command;

use crate::bed::{Bed, Ran};

/// A kubectl that reads its kubeconfigs twice, and shows the mode of the last one.
const READS_TWICE: &str =
    "file=${KUBECONFIG##*:}; cat \"$file\" \"$file\" | grep -o from-a-pipe; stat -c %a \"$file\"";

fn bed() -> Bed {
    let list = r#"{"items": [{"metadata": {"name": "m1"}}, {"metadata": {"name": "m2"}}]}"#;
    let bed = Bed::answering((200, "application/json", list.to_owned()));
    bed.kubectl(READS_TWICE);
    bed.script("piped", &bed.read("kubeconfig").replace("secret", "from-a-pipe"));
    bed
}

/// The plugin, with a pipe as `file`; `words` is a shell command line.
fn run(bed: &Bed, words: &str) -> Ran {
    let script = format!(
        "rm -f pipe; mkfifo pipe; cat piped >pipe & {words}; code=$?; kill $! 2>/dev/null; exit $code"
    );
    let mut command = Command::new("/bin/sh");
    let plugin = bed.command(&[]);
    for (name, value) in plugin.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command.args(["-c", &script.replace("MC ", &format!("{} ", env!("CARGO_BIN_EXE_kubectl-mc")))]);
    command.current_dir(bed.path("")).output().unwrap().into()
}

/// The remaining copies.
fn left(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    let nested = paths.flat_map(|path| match path.is_dir() {
        true => left(&path),
        false => vec![path.display().to_string()],
    });
    nested.filter(|path| path.contains("-of-a-pipe-")).collect()
}

#[test]
fn every_verb_reads_a_kubeconfig_from_a_pipe() {
    let bed = bed();
    let one = "from-a-pipe\nfrom-a-pipe\n600\n";
    let each = |name: &str| one.lines().map(|line| format!("{name} | {line}\n")).collect::<String>();
    for (words, expected) in [
        ("MC --kubeconfig pipe -C m1 describe pods", one.to_owned()),
        ("MC --kubeconfig=pipe -C m1 describe pods", one.to_owned()),
        ("KUBECONFIG=pipe MC -C m1 describe pods", one.to_owned()),
        ("KUBECONFIG=missing:pipe MC -C m1,m2 describe pods", each("m1") + &each("m2")),
        ("MC --kubeconfig pipe --contexts -C host describe pods", one.to_owned()),
        (
            "MC --kubeconfig pipe clusters -o name",
            "cluster.proxy.kubectl-mc.dev/m1\ncluster.proxy.kubectl-mc.dev/m2\n".to_owned(),
        ),
        ("MC --kubeconfig pipe clusters --contexts -o name", "host\n".to_owned()),
        (
            "MC --kubeconfig pipe shell m1 -- sh -c 'cat ${KUBECONFIG##*:} | grep -o from-a-pipe'",
            "from-a-pipe\n".to_owned(),
        ),
    ] {
        let ran = run(&bed, words);
        assert_eq!((ran.code, ran.out.as_str()), (Some(0), expected.as_str()), "{words}: {ran:?}");
        assert_eq!(left(&bed.path("home")), Vec::<String>::new(), "{words}");
    }
    let ran = run(&bed, "MC --kubeconfig pipe kubeconfig m1");
    assert!(ran.code == Some(0) && ran.out.contains("clusters/m1/proxy"), "{ran:?}");
}

#[test]
fn completion_reads_a_kubeconfig_from_a_pipe() {
    let bed = bed();
    bed.kubectl("cat \"${KUBECONFIG##*:}\" | grep -o from-a-pipe; echo :4");
    for (words, expected) in [
        ("__complete --kubeconfig pipe -C ''", "m1\nm2\n:4\n"),
        ("__complete --kubeconfig=pipe --contexts -C ''", "host\t"),
        ("__complete --kubeconfig pipe -C m1 get pods ''", "from-a-pipe\n:4\n"),
    ] {
        let ran = run(&bed, &format!("KUBECTL_MC_COMPLETION_TIMEOUT=60s MC {words}"));
        assert!(ran.code == Some(0) && ran.out.starts_with(expected), "{words}: {ran:?}");
        assert_eq!(left(&bed.path("home")), Vec::<String>::new(), "{words}");
    }
    let ran = run(&bed, "export KUBECTL_MC_COMPLETION_TIMEOUT=60s; KUBECONFIG=pipe MC __complete -C ''");
    assert_eq!(ran.out, "m1\nm2\n:4\n", "{ran:?}");
}

#[test]
fn pipe_without_a_writer_delays_no_completion_and_no_credential() {
    let bed = bed();
    assert!(Command::new("mkfifo").arg(bed.path("silent")).status().unwrap().success());
    let ran = bed
        .command(&["__complete", "--kubeconfig=silent", "-C", ""])
        .env("KUBECTL_MC_COMPLETION_TIMEOUT", "100ms")
        .output();
    assert_eq!(Ran::from(ran.unwrap()), Ran::new(0, ":4\n", ""));
    // The credential plugin gets the server from its caller, and leaves the pipe to the program that runs it.
    let ran = bed.run_with("KUBECONFIG", bed.path("silent"), &["credential", "--login=x"]);
    assert!(ran.code != Some(0) && ran.out.is_empty(), "{ran:?}");
}

#[test]
fn environment_of_a_shell_needs_a_file_that_stays() {
    let ran = run(&bed(), "MC --kubeconfig pipe env m1");
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("the kubeconfig came through a pipe"), "{ran:?}");
    // `--merge` has no file to write into.
    let ran = run(&bed(), "MC --kubeconfig pipe kubeconfig m1 --merge");
    assert!(ran.code != Some(0) && ran.out.is_empty(), "{ran:?}");
}

#[test]
fn paths_of_a_piped_kubeconfig_belong_to_its_folder() {
    let bed = bed();
    let text = bed.read("piped").replace(r#"{"token": "from-a-pipe"}"#, r#"{"tokenFile": "sub/../token"}"#);
    bed.script("piped", &text);
    bed.kubectl("grep -o '\"tokenFile\":\"[^\"]*\"' \"${KUBECONFIG##*:}\"");
    let ran = run(&bed, "MC --kubeconfig pipe -C m1 describe pods");
    let expected = format!("\"tokenFile\":\"{}\"\n", bed.path("token").display());
    assert_eq!(ran.out, expected, "{ran:?}");
}
