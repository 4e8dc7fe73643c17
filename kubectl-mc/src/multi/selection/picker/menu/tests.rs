use serde_json::json;

use super::*;

fn clusters() -> Vec<SelectedCluster> {
    SelectedCluster::of_list(&json!({"items": [
        {"metadata": {"name": "eu-1", "labels": {"env": "prod"}},
         "status": {"version": "v1.34.4", "conditions": [{"type": "Ready", "status": "True"}]}},
        {"metadata": {"name": "eu-2"}, "status": {"conditions": [{"type": "Ready", "status": "False"}]}},
        {"metadata": {"name": "us-1"}}]}))
}

fn press(menu: &mut Menu<'_>, keys: &[Key]) -> Step {
    keys.iter().map(|&key| menu.press(key)).last().unwrap()
}

fn names(names: &[&str]) -> Step {
    Step::Accept(Choice::names(names.iter().map(|name| name.parse().unwrap())))
}

#[test]
fn enter_accepts_marks_or_the_cluster_at_the_cursor() {
    use Key::{Backspace, Char, ClearText, Down, Enter, MarkAll, Tab, Up};
    let all = clusters();
    for (keys, expected) in [
        (&[Enter][..], &["eu-1"][..]),
        (&[Down, Down, Down, Enter], &["us-1"]),
        (&[Down, Up, Up, Enter], &["eu-1"]),
        (&[Char('u'), Char('s'), Enter], &["us-1"]),
        (&[Char('u'), Char('s'), Backspace, Backspace, Enter], &["eu-1"]),
        // Marks stay when the text changes, and the result follows the order of the list.
        (&[Char('u'), Char('s'), Char(' '), ClearText, Char(' '), Down, Enter], &["eu-1", "us-1"]),
        (&[Tab, Tab, Enter], &["eu-1", "eu-2"]),
        (&[Tab, Up, Char(' '), Down, Enter], &["eu-2"]),
        (&[Char('e'), MarkAll, Enter], &["eu-1", "eu-2"]),
        (&[MarkAll, Char('e'), MarkAll, Enter], &["us-1"]),
    ] {
        assert_eq!(press(&mut Menu::new(&all), keys), names(expected), "{keys:?}");
    }
}

#[test]
fn enter_without_a_cluster_accepts_nothing() {
    let all = clusters();
    let mut menu = Menu::new(&all);
    assert_eq!(press(&mut menu, &[Key::Char('x'), Key::Char(' '), Key::Tab, Key::Enter]), Step::Continue);
    assert_eq!(menu.lines(24, 80)[1], "    no cluster matches");
    assert_eq!(menu.press(Key::Cancel), Step::Cancel);
}

#[test]
fn rows_show_readiness_and_version() {
    let all = clusters();
    let mut menu = Menu::new(&all);
    press(&mut menu, &[Key::Tab]);
    insta::assert_snapshot!(menu.lines(24, 100).join("\n"), @r"
        NAME   READY     VERSION   LABELS
      * eu-1   True      v1.34.4   env=prod
    >   eu-2   False
        us-1   Unknown
    3/3, 1 marked; space marks, enter accepts, esc cancels
    Clusters: 
    ");
}

#[test]
fn lines_fit_a_narrow_and_a_low_screen() {
    let all = clusters();
    let mut menu = Menu::new(&all);
    press(&mut menu, &[Key::Char('e'), Key::Char('u'), Key::Char('-'), Key::Down]);
    for (height, width) in [(24, 20), (5, 20), (3, 12), (1, 5), (0, 1)] {
        let lines = menu.lines(height, width);
        assert!(lines.iter().all(|line| line.len() < width.max(1)), "{width}: {lines:?}");
        assert!(width == 1 || lines.iter().any(|line| line.starts_with('>')), "{lines:?}");
    }
    let lines = menu.lines(5, 20);
    assert_eq!(lines, ["    NAME   READY", ">   eu-2   False", "2/3, 0 marked; spac", "Clusters: eu-"]);
    assert_eq!(Menu::new(&all).lines(24, 80).last().map(String::as_str), Some("Clusters: "));
    // Shows the end of a text that is longer than the line.
    for _ in 0..20 {
        menu.press(Key::Char('z'));
    }
    menu.press(Key::Char('q'));
    assert_eq!(menu.lines(5, 20).last().map(String::as_str), Some("Clusters: zzzzzzzzq"));
}

#[test]
fn list_scrolls_with_the_cursor() {
    let items: Vec<_> = (10..40).map(|at| json!({"metadata": {"name": format!("m{at}")}})).collect();
    let all = SelectedCluster::of_list(&json!({"items": items}));
    let mut menu = Menu::new(&all);
    let rows = |menu: &mut Menu<'_>| {
        let lines = menu.lines(10, 80);
        let rows = lines[1..lines.len() - 2].iter().map(|line| line[..7].trim_end().to_owned());
        rows.collect::<Vec<_>>()
    };
    assert_eq!(rows(&mut menu), [">   m10", "    m11", "    m12", "    m13", "    m14", "    m15"]);
    press(&mut menu, &[Key::PageDown, Key::Down]);
    assert_eq!(rows(&mut menu)[5], ">   m17");
    press(&mut menu, &[Key::Last]);
    assert_eq!(rows(&mut menu)[5], ">   m39");
    press(&mut menu, &[Key::PageUp, Key::Up]);
    assert_eq!(rows(&mut menu)[0], ">   m32");
    press(&mut menu, &[Key::First]);
    assert_eq!(rows(&mut menu)[0], ">   m10");
}

#[test]
fn server_text_cannot_control_the_terminal() {
    let all = SelectedCluster::of_list(&json!({"items": [{
        "metadata": {"name": "m1", "labels": {"a\u{1b}[2J": "b\u{9b}31m\r\n日本\u{202e}"}},
        "status": {"version": "v1\u{1b}]0;title\u{7}\n\u{200b}"}}]}));
    let lines = Menu::new(&all).lines(24, 200);
    assert!(lines.iter().flat_map(|line| line.chars()).all(|c| (' '..='~').contains(&c)), "{lines:?}");
    assert!(lines[1].contains("a^[[2J=b\\u009b31m\\r\\n??"), "{lines:?}");
}
