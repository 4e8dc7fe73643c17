use super::*;

fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(Into::into).collect()
}

#[test]
fn program_name_selects_completion() {
    for (line, expected) in [
        ("/bin/kubectl-mc get pods", "get pods"),
        ("/bin/kubectl_complete-mc get po", "__complete get po"),
        ("kubectl_complete-mc", "__complete"),
        ("kubectl_complete-mc.exe -C", "__complete -C"),
        ("", ""),
    ] {
        assert_eq!(arguments(words(line)), words(expected), "{line}");
    }
}

#[test]
fn cursor_finds_the_kind_of_the_last_word() {
    let place = |line: &str, typed: &str| match Cursor::find(words(line), typed) {
        Cursor { place: Place::OwnValue(flag), before } => {
            format!("{flag} after {} words", before.kubectl.len())
        }
        Cursor { place: Place::KubectlValue, .. } => "kubectl's value".to_owned(),
        Cursor { place: Place::AfterDashes, .. } => "after dashes".to_owned(),
        Cursor { place: Place::Word, .. } => "word".to_owned(),
    };
    for (line, typed, expected) in [
        ("", "", "word"),
        ("get", "-", "word"),
        ("-C", "", "-C after 0 words"),
        ("get pods -C", "-", "-C after 2 words"),
        ("get pods --cluster", "m1,", "--cluster after 2 words"),
        ("get -l", "--cluster", "kubectl's value"),
        ("get -n", "", "kubectl's value"),
        ("-n", "", "kubectl's value"),
        ("get -n x", "", "word"),
        ("exec web --", "-C", "after dashes"),
        ("exec web -- sh -C", "", "after dashes"),
        // A flag of another plugin, with a name that belongs to this plugin after verbs of kubectl.
        ("neat --exclude", "", "word"),
        ("get --exclude", "", "--exclude after 1 words"),
    ] {
        assert_eq!(place(line, typed), expected, "{line} {typed:?}");
    }
}
