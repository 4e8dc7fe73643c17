use super::*;
use crate::argv;
use crate::exit::ExitStatus;

fn parse(words: &str) -> Result<TailPlan, Failure> {
    TailPlan::parse(&argv::scan(words.split(' ').map(Into::into).collect()))
}

#[test]
fn words_of_tail_are_read() {
    let plan =
        parse("tail ^web- -f -n b,a -n a -l app=web -c main -E istio -s 1h -t --max-log-requests=7").unwrap();
    assert_eq!(plan.namespaces(""), [Some("a".to_owned()), Some("b".to_owned())]);
    assert_eq!(plan.selector.as_deref(), Some("app=web"));
    assert!(plan.pods.want(b"web-1") && !plan.pods.want(b"my-web-1"));
    assert!(plan.containers.want(b"main") && !plan.containers.want(b"istio-main"));
    assert_eq!((&plan.options.since, plan.options.tail, plan.most), (&Since::Seconds(3600), None, 7));
    assert!(plan.follows());
    assert_eq!(plan.format, Format::Default { timestamps: true });

    let short = parse("tail web").unwrap();
    assert_eq!(short.namespaces("mine"), [Some("mine".to_owned())]);
    assert_eq!((short.options.tail, short.most, short.follows()), (Some(10), READ, false));
    assert_eq!(parse("tail web -f").unwrap().most, FOLLOWED);
    assert_eq!(parse("tail -l a=b --tail=-1 -A").unwrap().namespaces(""), [None]);
    assert_eq!(parse("tail web -o json").unwrap().format, Format::Json);
}

#[test]
fn lines_are_included_and_excluded() {
    let lines = parse("tail . -i ERROR -i WARN -e health -e ^#").unwrap().lines;
    for (line, expected) in [
        ("an ERROR", true),
        ("a WARN", true),
        ("an INFO", false),
        ("ERROR of health", false),
        ("#ERROR", false),
    ] {
        assert_eq!(lines.want(line.as_bytes()), expected, "{line}");
    }
    assert!(lines.want(b"\xff ERROR"), "bytes that are no text match too");
}

#[test]
fn invalid_words_are_named_in_the_error() {
    for (words, expected) in [
        ("tail", "no pods chosen: give a regular expression that matches their names, or a label selector"),
        ("tail deploy/web", "\"deploy/web\" is an object, not a regular expression for names of pods"),
        ("tail web api", "more than one regular expression: \"api\" is the second"),
        ("tail web( -f", "invalid regular expression \"web(\": unclosed group"),
        (
            "tail web -i *",
            "invalid regular expression \"*\" of --include-line: repetition operator missing expression",
        ),
        ("tail web --previous", "`kubectl mc tail` has no flag --previous, or the flag lacks its value"),
        ("tail web -x", "`kubectl mc tail` has no flag -x, or the flag lacks its value"),
        ("tail web -c", "`kubectl mc tail` has no flag -c, or the flag lacks its value"),
        ("--tail 5 tail web", "`kubectl mc tail` has no flag --tail, or the flag lacks its value"),
        ("tail web --tail=-2", "invalid value \"-2\" of --tail"),
        ("tail web --since=soon", "invalid value \"soon\" of --since"),
        ("tail web -o yaml", "invalid value \"yaml\" of --output"),
        ("tail web -n ../x", "invalid value \"../x\" of --namespace"),
        ("tail web --max-log-requests=0", "invalid value \"0\" of --max-log-requests"),
        ("tail web -o json --template={pod}", "--template and --output contradict each other"),
        ("tail web --template={pod} -t", "--template and --timestamps contradict each other"),
        (
            "tail web -s 1h --since-time=2026-01-01T00:00:00Z",
            "--since and --since-time contradict each other",
        ),
    ] {
        let error = parse(words).unwrap_err();
        assert_eq!((error.to_string().as_str(), error.status), (expected, ExitStatus::Usage), "{words}");
    }
    let error = parse("tail web --template={x}").unwrap_err();
    assert_eq!(error.to_string(), "invalid --template: no field {x}");
}

#[test]
fn names_that_would_change_the_path_are_invalid() {
    for (name, expected) in [
        ("web-1", true),
        ("a.b", true),
        ("..", false),
        ("a/b", false),
        ("", false),
        ("A", false),
        ("a?b", false),
    ] {
        assert_eq!(is_name(name), expected, "{name}");
    }
}
