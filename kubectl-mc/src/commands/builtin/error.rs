//! The messages for flags that choose clusters, before a plugin verb that does not take them.

use crate::error::{CommandLine, Failure, Hint, mc};

pub(super) fn no_choice(verb: &str) -> Failure {
    let hint: Hint = match verb {
        "clusters" => "--selector=KEY=VALUE narrows the list by labels, --where=FIELDS by fields".into(),
        "install" | "uninstall" | "login" | "logout" | "audit" => "--context=NAME names another host".into(),
        "completion" => Hint::from("leave out the flags that choose clusters")
            .and(CommandLine::new("kubectl completion SHELL").after("kubectl's own scripts")),
        _ => "name the cluster as an argument".into(),
    };
    Failure::usage(format!("`kubectl mc {verb}` takes no choice of clusters")).with_hint(hint)
}

pub(super) fn no_contexts(verb: &str) -> Failure {
    let hint = match verb {
        "use" => CommandLine::new("kubectl config use-context NAME").after("kubectl's own"),
        "kubeconfig" => Hint::from("your kubeconfig has these contexts").and(
            CommandLine::new("kubectl config view --minify --raw --flatten --context=NAME")
                .after("one of them alone in a file"),
        ),
        _ => "leave out --contexts and --context-selector".into(),
    };
    Failure::usage(format!("`kubectl mc {verb}` works on clusters behind a host, and not on contexts"))
        .with_hint(hint)
}

pub(super) fn of_kubectl(verb: &str, flag: &str) -> Failure {
    Failure::usage(format!(
        "`kubectl mc {verb}` takes no {flag}: the flag belongs to kubectl's commands on several clusters"
    ))
    .with_hint(mc(format!("{verb} --help")).that("lists its flags"))
}
