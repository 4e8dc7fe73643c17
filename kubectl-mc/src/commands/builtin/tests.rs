use std::collections::HashMap;

use super::*;
use crate::argv;

fn scanned(line: &str) -> Scanned {
    argv::scan(line.split_whitespace().map(Into::into).collect())
}

#[test]
fn parser_is_consistent() {
    parser().debug_assert();
}

/// An argument with the id of a global flag would hide the flag, and reading the flag would panic.
#[test]
fn verb_arguments_do_not_clash_with_global_flags() {
    fn check(command: &clap::Command, global: &HashMap<&clap::Id, &clap::Arg>) {
        for argument in command.get_arguments() {
            let [own, flag] = [Some(argument), global.get(argument.get_id()).copied()]
                .map(|one| one.map(|one| one.get_value_parser().type_id()));
            assert!(flag.is_none() || own == flag, "{}: {}", command.get_name(), argument.get_id());
        }
        command.get_subcommands().for_each(|below| check(below, global));
    }
    let parser = parser();
    let global = parser.get_arguments().filter(|one| one.is_global_set());
    let global: HashMap<_, _> = global.map(|one| (one.get_id(), one)).collect();
    assert!(global.len() > 10, "{global:?}");
    parser.get_subcommands().for_each(|verb| check(verb, &global));
}

#[test]
fn effects_of_builtin_verbs() {
    for (line, expected) in [
        ("clusters", Effect::Reads),
        ("compare get deploy/web -C m1,m2", Effect::Reads),
        ("tail web -f -C m1,m2", Effect::Reads),
        ("install --image=i", Effect::Writes),
        ("install --image=i -o yaml", Effect::Reads),
        ("install --image=i --diff", Effect::Reads),
        ("uninstall", Effect::Writes),
        ("uninstall --dry-run", Effect::Reads),
        ("join m1", Effect::Writes),
        ("join m1 --print", Effect::Reads),
        ("unjoin m1", Effect::Writes),
        ("access grant view --user=x", Effect::Writes),
        ("access revoke view --user=x --dry-run", Effect::Reads),
        ("access explain get pods", Effect::Reads),
        ("access list", Effect::Reads),
        ("access diff m1", Effect::Reads),
        ("kubeconfig --merge --prune", Effect::Reads),
        ("env -C m1", Effect::Reads),
        ("shell -C m1 -- helm list", Effect::Opens),
        ("listen m1", Effect::Opens),
        ("version", Effect::Reads),
        ("get pods", Effect::Reads),
        ("doctor", Effect::Reads),
    ] {
        assert_eq!(effect(&scanned(line)), expected, "{line}");
    }
}

#[test]
fn help_fits_eighty_columns() {
    for page in pages() {
        let help = help_of(&page);
        for line in cli::wrap(&help).lines() {
            assert!(line.chars().count() <= 80, "{page:?}: {line}");
        }
        // Truncated commands are skipped.
        for line in help.lines().filter(|line| line.trim_start().starts_with("kubectl ")) {
            assert!(line.chars().count() <= 80, "{page:?}: {line}");
        }
    }
}

/// The words of every help page: none, each verb, and each verb below one.
fn pages() -> Vec<Vec<String>> {
    let parser = parser();
    let mut pages = vec![vec![]];
    for verb in parser.get_subcommands() {
        pages.push(vec![verb.get_name().to_owned()]);
        let below = verb.get_subcommands().filter(|below| below.get_name() != "help");
        pages.extend(below.map(|below| [verb, below].map(|verb| verb.get_name().to_owned()).to_vec()));
    }
    assert!(pages.contains(&["authz", "verify"].map(str::to_owned).to_vec()), "{pages:?}");
    pages
}

/// The help page of a verb; `words` follow `kubectl mc`.
fn help_of<S: AsRef<str>>(words: &[S]) -> String {
    let words = std::iter::once("kubectl mc").chain(words.iter().map(AsRef::as_ref)).chain(["--help"]);
    parser().try_get_matches_from(words).unwrap_err().render().to_string()
}

#[test]
fn help_shows_only_flags_that_the_verb_takes() {
    for verb in ["clusters", "install", "uninstall"] {
        let help = help_of(&verb.split(' ').collect::<Vec<_>>());
        assert!(help.contains("--context"), "{help}");
        assert!(!help.contains("--cluster"), "{help}");
        assert!(!help.contains("--all-clusters"), "{help}");
        assert_eq!(help.contains("--contexts"), verb == "clusters", "{help}");
    }
    for verb in
        ["join", "unjoin", "access grant", "access revoke", "access explain", "access diff", "compare"]
    {
        let help = help_of(&verb.split(' ').collect::<Vec<_>>());
        assert!(help.contains("--cluster <CLUSTERS>"), "{help}");
    }
    for (verb, takes_labels) in [("access grant", true), ("access list", true), ("access diff", false)] {
        let help = help_of(&verb.split(' ').collect::<Vec<_>>());
        assert_eq!(help.contains("--cluster-selector <"), takes_labels, "{help}");
    }
}

#[test]
fn every_example_of_the_help_is_a_command_that_parses() {
    let mut tried = 0;
    for page in pages().into_iter().skip(1) {
        for line in help_of(&page).lines().filter_map(|line| line.trim().strip_prefix("kubectl mc ")) {
            if !line.starts_with(&page[0]) || line.contains('[') {
                continue;
            }
            tried += 1;
            let words = std::iter::once("kubectl mc").chain(line.split_whitespace());
            let parsed = parser().try_get_matches_from(words);
            assert!(page[0] == COMPARE || page[0] == TAIL || parsed.is_ok(), "{line}: {parsed:?}");
            if page[0] == "unjoin" || line.starts_with("unjoin") {
                assert!(line.contains("--member-context") || line.contains("--force"), "{line}");
            }
        }
    }
    assert!(tried > 12, "{tried}");
}

/// The help is wrapped at 80 columns, so the rest of a wrapped comment would look like a command.
#[test]
fn text_around_the_help_fits_78_columns() {
    fn visit(command: &clap::Command, long: &mut Vec<String>) {
        let texts = [command.get_before_help(), command.get_after_help()];
        for line in texts
            .into_iter()
            .flatten()
            .map(ToString::to_string)
            .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        {
            if line.chars().count() > 78 {
                long.push(format!("{}: {line}", command.get_name()));
            }
        }
        command.get_subcommands().for_each(|below| visit(below, long));
    }
    let mut long = Vec::new();
    visit(&parser(), &mut long);
    assert!(long.is_empty(), "{long:#?}");
}
