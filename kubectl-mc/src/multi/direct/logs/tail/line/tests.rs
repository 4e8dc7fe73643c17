use super::*;
use crate::argv;
use crate::multi::direct::logs::tail::plan::TailPlan;

/// The output for these lines.
fn shown(words: &str, look: Look, lines: &[&str]) -> String {
    let words = ["tail", "."].into_iter().chain(words.split('|').filter(|word| !word.is_empty()));
    let plan = TailPlan::parse(&argv::scan(words.map(Into::into).collect())).unwrap();
    let origin = Origin {
        cluster: "m1".parse().unwrap(),
        place: 0,
        namespace: "shop".to_owned(),
        pod: "web-1".to_owned(),
        container: "main".to_owned(),
        node: "n\x1b1".to_owned(),
    };
    let tail = Arc::new(Tail { plan, look });
    let format = TailLines::new(tail, origin);
    let mut text = Vec::new();
    lines.iter().for_each(|line| format.show(line.as_bytes(), &mut text));
    String::from_utf8(text).unwrap()
}

const LINE: &str = "2026-01-01T00:00:00.5Z it \"runs\"\n";

#[test]
fn default_format_shows_the_origin_of_a_line() {
    let many = Look { cluster: true, width: 4, ..Look::default() };
    assert_eq!(shown("", many, &[LINE]), "m1   web-1 main | it \"runs\"\n");
    let one = Look { namespace: true, ..Look::default() };
    assert_eq!(shown("-t", one, &[LINE]), "shop web-1 main | 2026-01-01T00:00:00.5Z it \"runs\"\n");
    let painted = shown("", Look { colors: true, ..many }, &[LINE]);
    assert!(painted.starts_with("\x1b[36mm1  \x1b[0m \x1b["), "{painted:?}");
}

#[test]
fn template_formats_a_line() {
    let words = "--template={time} {cluster}/{namespace}/{pod}/{container}@{node}: {message}";
    assert_eq!(
        shown(words, Look::default(), &[LINE]),
        "2026-01-01T00:00:00.5Z m1/shop/web-1/main@n^[1: it \"runs\"\n"
    );
}

#[test]
fn json_is_one_object_a_line() {
    assert_eq!(
        shown("-o|json", Look::default(), &[LINE, "no time\x1b\r"]),
        "{\"cluster\":\"m1\",\"namespace\":\"shop\",\"pod\":\"web-1\",\"container\":\"main\",\"node\":\"n\\u001b1\",\
         \"time\":\"2026-01-01T00:00:00.5Z\",\"message\":\"it \\\"runs\\\"\"}\n\
         {\"cluster\":\"m1\",\"namespace\":\"shop\",\"pod\":\"web-1\",\"container\":\"main\",\"node\":\"n\\u001b1\",\
         \"message\":\"no time\\u001b\\r\"}\n"
    );
}

#[test]
fn only_wanted_lines_are_shown_whole() {
    let lines = ["2026-01-01T00:00:00Z an error\r\n", "2026-01-01T00:00:01Z 2026-01-01 fine\n", "an error"];
    assert_eq!(
        shown("-i|error$", Look::default(), &lines),
        "web-1 main | an error\r\nweb-1 main | an error\n"
    );
    // The timestamp is not part of a line.
    assert_eq!(shown("-i|^2026", Look::default(), &lines), "web-1 main | 2026-01-01 fine\n");
}

#[test]
fn carriage_return_does_not_hide_the_origin() {
    assert_eq!(shown("", Look::default(), &["10%\r20%\n"]), "web-1 main | 10%\rweb-1 main | 20%\n");
}
