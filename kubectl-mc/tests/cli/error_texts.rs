//! Tests error texts: they name the command, the cluster and the cause on one line, and a hint gives the next
//! step.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use crate::bed::{Bed, Ran};

/// No server of these contexts answers.
fn bed() -> Bed {
    let bed = Bed::unreachable();
    let context = |name: &str| format!("{{name: {name}, context: {{cluster: c, user: u}}}}");
    let contexts = ["host", "dev", "eu"].map(context).join(", ");
    let kubeconfig = format!(
        "current-context: host\nclusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:2'}}}}]\n\
         contexts: [{contexts}]\nusers: [{{name: u, user: {{token: secret}}}}]\n"
    );
    fs::write(bed.path("kubeconfig"), kubeconfig).unwrap();
    bed
}

const REFUSED: &str = "tcp connect error: Connection refused (os error 111)";

fn assert_says(bed: &Bed, words: &[&str], code: i32, text: &str) {
    let ran = bed.run(words);
    assert_eq!(ran, Ran::new(code, "", text), "{words:?}");
}

#[test]
fn tail_of_an_unreachable_context_names_it() {
    let said = format!(
        "error: kubectl mc tail on context dev (https://127.0.0.1:2): unreachable: {REFUSED}\n\
         hint: check the network and the server of context dev\n"
    );
    assert_says(&bed(), &["--contexts", "-C", "dev", "tail", "web"], 1, &said);
    assert_says(&bed(), &["--contexts", "-C", "dev", "tail", "web", "-f"], 1, &said);
}

#[test]
fn print_warns_about_a_host_without_an_answer() {
    let bed = bed();
    let ran = bed.run(&["join", "m1", "--member-context=dev", "--server=https://m1:6443", "--print"]);
    let said = format!(
        "warning: the host did not answer: cannot reach the host, context \"host\" (https://127.0.0.1:2): {REFUSED}; \
         the commands do not record its uid, and use namespace kubectl-mc-system\n"
    );
    assert_eq!((ran.code, ran.err), (Some(0), said));
    let ran = bed.run(&["join", "m1", "--member-context=dev", "--print"]);
    let said = "error: cannot join: the member's server https://127.0.0.1:2 is a loopback address: ";
    assert!(ran.code == Some(1) && ran.err.starts_with(said) && ran.out.is_empty(), "{ran:?}");
}

#[test]
fn missing_context_is_named_by_its_role() {
    let bed = bed();
    for (words, role) in [
        (&["join", "m1", "--member-context=nope"][..], "member"),
        (&["unjoin", "m1", "--member-context=nope"], "member"),
        (&["uninstall", "--run-on=nope"], "cluster of the sidecars"),
        (&["--context=nope", "clusters"], "host"),
    ] {
        let (code, text) = (bed.run(words).code, bed.run(words).err);
        let said = format!("error: no {role}: context \"nope\" does not exist in ");
        assert!(code == Some(2) && text.starts_with(&said), "{words:?}: {text}");
    }
}

#[test]
fn missing_cluster_error_explains_the_missing_list() {
    let ran = bed().run(&["get", "pods"]);
    let (code, text) = ran.failed();
    let said = "; the clusters could not be listed: cannot list clusters through host \"host\" (https://127.0.0.1:2): ";
    assert!(
        code == 2 && text.starts_with("error: no cluster chosen\nhint: ") && text.contains(said),
        "{text}"
    );
    let text = "error: no cluster chosen\nhint: did you mean --cluster=m1?\n";
    assert_says(&bed(), &["--clustr=m1", "get", "pods"], 2, text);
}

#[test]
fn misspelled_kubectl_verb_is_no_change() {
    let said = "error: unknown command \"gte\": no plugin kubectl-gte is in PATH\nhint: did you mean get?\n";
    assert_says(&bed(), &["--contexts", "-C", "dev,eu", "gte", "pods"], 2, said);
    assert_says(&bed(), &["-C", "m1,m2", "gte", "pods"], 2, said);
    // A newer kubectl may have verbs that the plugin does not know.
    let ran = bed().run(&["--contexts", "-C", "dev", "frobnicate"]);
    assert_eq!(ran.arguments(), ["frobnicate"], "{ran:?}");
}

#[test]
fn clusters_lists_the_contexts_that_are_chosen() {
    let listed = |words: &[&str]| {
        let ran = bed().run(&[&["clusters", "--contexts", "-o", "name"], words].concat());
        assert_eq!(ran.err, "", "{words:?}");
        ran.out.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(listed(&[]), ["dev", "eu", "host"]);
    assert_eq!(listed(&["-C", "dev,h*"]), ["dev", "host"]);
    assert_eq!(listed(&["--exclude=dev"]), ["eu", "host"]);
    let said = "error: context unknown: nope\nhint: there are dev, eu, host\n";
    assert_says(&bed(), &["clusters", "--contexts", "-C", "nope"], 3, said);
}

#[test]
fn hint_keeps_the_choice_of_contexts() {
    let said = "error: no command given for context dev\n\
                hint: for example: kubectl mc --contexts --cluster=dev get pods\n";
    assert_says(&bed(), &["--contexts", "-C", "dev"], 2, said);
    let said = "error: compare needs at least two clusters, but only dev is chosen\n\
                hint: choose a second cluster: --contexts --cluster=dev,NAME\n";
    assert_says(&bed(), &["--contexts", "-C", "dev", "compare", "get", "pods"], 2, said);
}

#[test]
fn join_without_a_valid_name_gives_an_example() {
    let hint = "hint: for example: kubectl mc join m1 --member-context=dev\n";
    let said = format!("error: no cluster named\n{hint}");
    assert_says(&bed(), &["join", "--member-context=dev"], 2, &said);
    let reason = "only lower case letters, digits and '-' are allowed";
    let said = format!("error: invalid cluster name \"M_1\": {reason}\n{hint}");
    assert_says(&bed(), &["join", "M_1", "--member-context=dev"], 2, &said);
}

#[test]
fn unreachable_server_is_named_with_a_hint() {
    let at = "context \"host\" (https://127.0.0.1:2)";
    let network = "hint: check the network, and the server of the kubeconfig context\n";
    let said = format!("error: cannot reach host \"host\" (https://127.0.0.1:2): {REFUSED}\n{network}");
    assert_says(&bed(), &["audit", "abc"], 1, &said);

    let bed = bed();
    let mut login = bed.command(&["login", "--token-file=-"]);
    let login = login.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut login = login.spawn().unwrap();
    login.stdin.take().unwrap().write_all(b"token").unwrap();
    let said =
        format!("error: cannot try the credential at the host: cannot reach {at}: {REFUSED}\n{network}");
    assert_eq!(Ran::from(login.wait_with_output().unwrap()), Ran::new(1, "", &said));

    let issuer = "https://127.0.0.1:2/.well-known/openid-configuration";
    let said = format!(
        "error: cannot reach the issuer at {issuer}: {REFUSED}\nhint: check the network, and the URL of the issuer\n"
    );
    let words = ["login", "--oidc-issuer-url=https://127.0.0.1:2", "--oidc-client-id=x"];
    assert_says(&bed, &words, 1, &said);
}

#[test]
fn error_of_a_parser_is_one_line() {
    let bed = bed();
    let ran = bed.run(&["-C", "/[/", "get", "pods"]);
    let said = "error: --cluster: invalid regular expression \"/[/\": unclosed character class\n";
    assert!(ran.failed().1.starts_with(said), "{ran:?}");
    fs::write(bed.path("bad"), "current-context: host\nclusters: [}\n").unwrap();
    let ran = bed.run(&["--kubeconfig=bad", "-C", "m1", "get", "pods"]);
    let (code, text) = ran.failed();
    assert!(code == 2 && text.starts_with("error: cannot parse kubeconfig bad: line 2 column "), "{text}");
    assert!(text.lines().count() == 1 && !text.contains("\\n"), "{text}");
}

#[test]
fn wrong_flag_value_error_names_the_valid_values() {
    let bed = bed();
    for (words, said) in [
        (&["-C", "m1", "--cluster-concurrency=0", "get"][..], ": expected a number of at least 1\n"),
        (&["install", "--image=i", "--replicas=0"], ": expected a number of at least 1\n"),
        (&["install", "--image=i", "--secure-port=70000"], ": a port is 1 to 65535\n"),
        (&["install", "--image=i", "--sidecar-flag=a=5"], ": a flag begins with --, as in --sidecar-flag="),
        (
            &["install", "--image=i", "--external-name=x", "-o", "yaml"],
            "'--external-name <NAME>' cannot be used with '--output <FORMAT>'\n",
        ),
        (
            &["completion", "install", "--shell=bash"],
            "hint: name the shell as an argument, for example: kubectl mc completion install bash\n",
        ),
    ] {
        let ran = bed.run(words);
        assert!(ran.failed().0 == 2 && ran.err.contains(said), "{words:?}: {ran:?}");
    }
    let ran = bed.run_with("KUBECTL_MC_LOG", "abc", &["clusters"]);
    assert_eq!(ran.err, "error: invalid log level \"abc\" of KUBECTL_MC_LOG: expected a number\n");
}
