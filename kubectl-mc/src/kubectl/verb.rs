//! Classifies the effect of a kubectl command on a cluster by its verb. An unknown verb counts as a write.

use std::ffi::OsStr;

use crate::argv::{Scanned, TAIL};

/// What a command does to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It only reads.
    Reads,
    /// It opens a connection into the cluster that can also be used for writes.
    Opens,
    /// It may write.
    Writes,
}

/// What the command does to a cluster.
pub(crate) fn effect(scanned: &Scanned) -> Effect {
    let verb = scanned.verb().and_then(OsStr::to_str).unwrap_or_default();
    if !scanned.verb_is_builtin() && !verb.starts_with("__complete") {
        return Effect::Writes;
    }
    let word = scanned.word_after_verb().and_then(OsStr::to_str).unwrap_or_default();
    match (verb, word) {
        // As with `exec`, the data that it sends can change anything.
        ("attach", _) if scanned.has("stdin") && !scanned.has("help") => Effect::Writes,
        ("port-forward" | "attach", _) => Effect::Opens,
        _ if scanned.has("help") || READS.contains(&verb) || verb.starts_with("__complete") => Effect::Reads,
        ("auth", "can-i" | "whoami") | ("rollout", "status" | "history") | ("apply", "view-last-applied") => {
            Effect::Reads
        }
        ("cp", _) if download(scanned).is_some() => Effect::Opens,
        ("exec" | "cp" | "debug" | "edit" | "proxy", _) => Effect::Writes,
        // kubectl ignores --dry-run together with these flags.
        ("create" | "replace" | "delete", _) if scanned.value("raw").is_some() || edits(scanned) => {
            Effect::Writes
        }
        ("set", _) if scanned.has("local") => Effect::Reads,
        _ if is_dry(scanned) => Effect::Reads,
        _ => Effect::Writes,
    }
}

/// Whether the command streams, or waits for the cluster: its lines are printed as they arrive.
pub(crate) fn is_stream(scanned: &Scanned) -> bool {
    let verb = scanned.verb().unwrap_or_default();
    let word = scanned.word_after_verb().unwrap_or_default();
    let follows = (verb == "get" || verb == "events") && (scanned.has("watch") || scanned.has("watch-only"));
    follows
        || ((verb == "logs" || verb == TAIL) && scanned.has("follow"))
        || verb == "wait"
        || verb == "port-forward"
        || verb == "attach"
        || (verb == "rollout" && word == "status")
}

/// Why the command needs a single cluster: it is interactive, or it serves a local port.
pub(crate) fn needs_one_cluster(scanned: &Scanned) -> Option<&'static str> {
    let verb = scanned.verb().and_then(OsStr::to_str).unwrap_or_default();
    let word = scanned.word_after_verb().and_then(OsStr::to_str).unwrap_or_default();
    match verb {
        "exec" | "attach" | "run" | "debug" if scanned.has("tty") => Some("a terminal (--tty)"),
        "edit" => Some("an editor"),
        "create" if edits(scanned) => Some("an editor"),
        "apply" if word == "edit-last-applied" => Some("an editor"),
        "delete" if scanned.has("interactive") || scanned.has("stdin") => Some("questions (--interactive)"),
        "proxy" => Some("one local port"),
        _ => None,
    }
}

/// The words of a `delete` without an object, which kubectl also refuses.
pub(crate) fn deletes_nothing(scanned: &Scanned) -> Option<String> {
    let chooses = ["filename", "kustomize", "raw", "selector", "field-selector", "all", "help"];
    let is_chosen = chooses.iter().any(|flag| scanned.has(flag));
    if is_chosen || scanned.verb().is_none_or(|verb| verb != "delete") {
        return None;
    }
    let words: Vec<_> = scanned.words_after_verb().map(|(_, word)| word.to_string_lossy()).collect();
    match words.as_slice() {
        [] => Some("delete".to_owned()),
        [one] if !one.contains('/') => Some(format!("delete {one}")),
        _ => None,
    }
}

/// The local path that the command writes to, if it copies from a pod or writes a dump.
pub(crate) fn local_target(scanned: &Scanned) -> Option<&OsStr> {
    match scanned.verb()?.to_str()? {
        "cp" => download(scanned),
        "cluster-info" => scanned.value("output-directory").filter(|path| !path.is_empty() && *path != "-"),
        _ => None,
    }
}

fn download(scanned: &Scanned) -> Option<&OsStr> {
    let paths = scanned.words_after_verb().map(|(_, path)| path);
    let mut paths = paths.chain(scanned.words_after_dashes());
    let (from, to) = (paths.next()?, paths.next()?);
    // kubectl treats a path with a colon as one in a pod.
    let is_remote = |path: &OsStr| path.to_string_lossy().contains(':');
    (is_remote(from) && !is_remote(to)).then_some(to)
}

/// Whether the command is local to kubectl, and thus the same for every cluster.
pub(crate) fn is_local(scanned: &Scanned) -> bool {
    let verb = scanned.verb().unwrap_or_default();
    let local =
        ["help", "options", "completion", "__complete", "__completeNoDesc", "plugin", "kustomize", "kuberc"];
    // In the arguments of another plugin, `-h` belongs to that plugin.
    local.iter().any(|local| verb == *local) || (scanned.has("help") && scanned.verb_is_builtin())
}

/// Whether an exit code of 1 is a negative answer and not a failure.
pub(crate) fn may_say_no(scanned: &Scanned) -> bool {
    let verb = scanned.verb().unwrap_or_default();
    verb == "diff" || (verb == "auth" && scanned.word_after_verb().is_some_and(|word| word == "can-i"))
}

/// Whether the command reads standard input.
pub(crate) fn reads_stdin(scanned: &Scanned) -> bool {
    let verb = scanned.verb().and_then(OsStr::to_str).unwrap_or_default();
    let takes = matches!(verb, "exec" | "attach" | "run" | "debug") && scanned.has("stdin");
    let from = ["filename", "from-file", "from-env-file", "patch-file"];
    let is_stdin = |value: &OsStr| {
        // A list of files, each such as FILE or, for --from-file, KEY=FILE.
        value.to_string_lossy().split(',').any(|item| {
            let file = item.rsplit('=').next().unwrap_or_default();
            file == "-" || file == "/dev/stdin"
        })
    };
    takes || from.iter().any(|name| scanned.values(name).any(is_stdin))
}

/// Whether `create` opens an editor first.
fn edits(scanned: &Scanned) -> bool {
    scanned.has("edit")
}

fn is_dry(scanned: &Scanned) -> bool {
    let given = scanned.value("dry-run").and_then(OsStr::to_str);
    match given {
        Some(strategy) => matches!(strategy, "client" | "server"),
        // kubectl treats a bare --dry-run as `client`.
        None => scanned.has("dry-run"),
    }
}

const READS: &[&str] = &[
    "api-resources",
    "api-versions",
    "cluster-info",
    "completion",
    "describe",
    "diff",
    "events",
    "explain",
    "get",
    "help",
    "kuberc",
    "kustomize",
    "logs",
    "options",
    "plugin",
    "top",
    "version",
    "wait",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::argv::scan;

    fn of(line: &str) -> Scanned {
        scan(line.split_whitespace().map(Into::into).collect())
    }

    #[test]
    fn h_of_another_plugin_is_not_local() {
        assert!(is_local(&of("get -h")) && is_local(&of("get pods --help")));
        assert!(!is_local(&of("view-utilization -h")));
    }

    #[test]
    fn standard_input_in_a_list_of_files_is_read() {
        for line in
            ["apply -f a.yaml,-", "apply -f -,a.yaml", "create configmap x --from-file=k=/dev/stdin,y"]
        {
            assert!(reads_stdin(&of(line)), "{line}");
        }
        assert!(!reads_stdin(&of("apply -f a.yaml,b-")));
    }

    #[test]
    fn delete_names_its_objects() {
        for line in ["delete", "delete pods", "delete -n x pods,svc"] {
            assert!(deletes_nothing(&of(line)).is_some(), "{line}");
        }
        for line in [
            "delete pod web",
            "delete pod/web",
            "delete pods --all",
            "delete pods -l a=b",
            "delete pods --field-selector=a=b",
            "delete -f x",
            "delete -k x",
            "delete --raw /x",
            "get",
            "delete --help",
        ] {
            assert_eq!(deletes_nothing(&of(line)), None, "{line}");
        }
    }

    #[test]
    fn attached_standard_input_changes_something() {
        assert_eq!(effect(&of("attach -i web")), Effect::Writes);
        assert_ne!(effect(&of("attach web")), Effect::Writes);
    }

    #[test]
    fn reads_differ_from_writes() {
        for (line, expected) in [
            ("get pods", Effect::Reads),
            ("-n x get pods -w", Effect::Reads),
            ("logs -f x", Effect::Reads),
            ("rollout status deploy/x", Effect::Reads),
            ("rollout -n x history deploy/x", Effect::Reads),
            ("auth can-i get pods", Effect::Reads),
            ("apply -f x --dry-run=server", Effect::Reads),
            ("delete pod x --dry-run", Effect::Reads),
            ("set image deploy/x a=b --local", Effect::Reads),
            ("delete pod x --help", Effect::Reads),
            ("port-forward x 80", Effect::Opens),
            ("apply -f x", Effect::Writes),
            ("apply -f x --dry-run=none", Effect::Writes),
            ("rollout restart deploy/x", Effect::Writes),
            ("-n status rollout restart deploy/x", Effect::Writes),
            ("rollout -n status restart deploy/x", Effect::Writes),
            ("auth reconcile -f x", Effect::Writes),
            ("exec x -- rm -rf /", Effect::Writes),
            ("exec x --dry-run=client -- rm", Effect::Writes),
            ("cp a x:/b", Effect::Writes),
            ("cp -n ns x:/b a", Effect::Opens),
            ("cp ns/x:/b a -c main", Effect::Opens),
            ("create token x", Effect::Writes),
            ("delete --raw /x", Effect::Writes),
            ("delete --raw /x --dry-run=server", Effect::Writes),
            ("create --raw=/x -f x --dry-run=client", Effect::Writes),
            ("replace --raw /x -f x --dry-run=server", Effect::Writes),
            ("create -f x --edit --dry-run=server", Effect::Writes),
            ("create -f x --edit=false --dry-run=server", Effect::Reads),
            ("some-plugin get", Effect::Writes),
        ] {
            assert_eq!(effect(&of(line)), expected, "{line}");
        }
    }

    #[test]
    fn stdin_is_read_only_on_request() {
        for (line, expected) in [
            ("apply -f -", true),
            ("apply --filename=-", true),
            ("create configmap c --from-file=key=/dev/stdin", true),
            ("exec -i x -- tar x", true),
            ("exec -ti x -- sh", true),
            ("apply -f file", false),
            ("get pods", false),
            ("exec x -- cat -", false),
        ] {
            assert_eq!(reads_stdin(&of(line)), expected, "{line}");
        }
    }

    #[test]
    fn interactive_commands_need_one_cluster() {
        for line in [
            "exec -it x -- sh",
            "run -ti x --image=y",
            "edit deploy/x",
            "create -f x --edit",
            "delete pod x -i",
            "proxy",
        ] {
            assert!(needs_one_cluster(&of(line)).is_some(), "{line}");
        }
        for line in ["exec -i x -- sh", "exec x -- ls", "get pods", "logs -f x", "exec x -- tool -it"] {
            assert_eq!(needs_one_cluster(&of(line)), None, "{line}");
        }
    }
}
