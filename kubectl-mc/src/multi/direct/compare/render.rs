//! Renders the differences of one object as a unified diff of each field.

use crate::cluster::cluster_id::ClusterId;
use similar::{ChangeTag, TextDiff};

use super::{Difference, OBJECT, fields};
use crate::server_text::escaped;

/// Renders one object; empty without differences.
///
/// ```text
/// Deployment.apps shop/web
/// @@ .spec.replicas @@
/// --- m1, m3
/// +++ m2 (odd one out)
/// - 3
/// + 2
/// ```
pub(super) fn object(name: &str, differences: &[Difference], clusters: &[ClusterId]) -> String {
    if differences.is_empty() {
        return String::new();
    }
    let secret = name.starts_with("Secret ");
    let mut text = format!("{}\n", escaped(name));
    for difference in differences {
        text.push_str(&format!("@@ {} @@\n", escaped(&difference.field)));
        let veiled = secret && fields::is_secret(&difference.field);
        let shown = difference.values.iter().enumerate().map(|(at, (value, _))| match value {
            None if difference.field == OBJECT => "missing".to_owned(),
            None => "<none>".to_owned(),
            // Shows which values are equal, without the values.
            Some(_) if veiled => format!("(value {})", at + 1),
            Some(value) => value.clone(),
        });
        let shown: Vec<_> = shown.collect();
        let Some(((_, most), others)) = difference.values.split_first() else { continue };
        for (other, (_, places)) in others.iter().enumerate() {
            let odd = if difference.odd_one_out().is_some() { " (odd one out)" } else { "" };
            text.push_str(&format!("--- {}\n", names(most, clusters)));
            text.push_str(&format!("+++ {}{odd}\n", names(places, clusters)));
            lines(&shown[0], &shown[other + 1], &mut text);
        }
    }
    text
}

fn names(places: &[usize], clusters: &[ClusterId]) -> String {
    let names = places.iter().filter_map(|place| clusters.get(*place)).map(ClusterId::as_str);
    names.collect::<Vec<_>>().join(", ")
}

/// Renders two values line by line. For long values, renders only the lines near a difference.
fn lines(before: &str, after: &str, text: &mut String) {
    let diff = TextDiff::from_lines(before, after);
    let same_last = before.lines().last() == after.lines().last();
    for (at, group) in diff.grouped_ops(CONTEXT).iter().enumerate() {
        if at > 0 {
            text.push_str("…\n");
        }
        for change in group.iter().flat_map(|operation| diff.iter_changes(operation)) {
            // The space distinguishes lines of a value from lines of the diff.
            text.push_str(match change.tag() {
                ChangeTag::Delete => "- ",
                ChangeTag::Insert => "+ ",
                ChangeTag::Equal => "| ",
            });
            text.push_str(&escaped(change.value().trim_end_matches('\n')));
            // Otherwise values that differ only in the last line break would look equal.
            text.push_str(if same_last && change.missing_newline() { " (no line break)\n" } else { "\n" });
        }
    }
}

/// Number of lines around a difference, as in diff.
const CONTEXT: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(name: &str, field: &str, values: &[(Option<&str>, &[usize])]) -> String {
        let values = values.iter().map(|(value, places)| (value.map(str::to_owned), places.to_vec()));
        let difference = Difference { field: field.to_owned(), values: values.collect() };
        let clusters = ["m1", "m2", "m3"].map(|name| name.parse().unwrap());
        object(name, &[difference], &clusters)
    }

    #[test]
    fn odd_one_out_is_marked() {
        assert_eq!(
            rendered(
                "Deployment.apps shop/web",
                ".spec.replicas",
                &[(Some("3"), &[0, 2]), (Some("2"), &[1])]
            ),
            "Deployment.apps shop/web\n@@ .spec.replicas @@\n--- m1, m3\n+++ m2 (odd one out)\n- 3\n+ 2\n"
        );
        assert_eq!(
            rendered("ConfigMap a", OBJECT, &[(Some("there"), &[0]), (None, &[1])]),
            "ConfigMap a\n@@ (object) @@\n--- m1\n+++ m2\n- there\n+ missing\n"
        );
    }

    #[test]
    fn long_values_are_cut_around_a_difference() {
        let text = |changed: &str| {
            let line = |at: i32| if at == 10 { changed.to_owned() } else { at.to_string() };
            (0..20).map(|at| line(at) + "\n").collect::<String>()
        };
        let (one, two) = (text("old"), text("new\u{1b}"));
        assert_eq!(
            rendered("ConfigMap a", ".data.x", &[(Some(&one), &[0]), (Some(&two), &[1]), (None, &[2])]),
            "ConfigMap a\n@@ .data.x @@\n--- m1\n+++ m2\n| 7\n| 8\n| 9\n- old\n+ new^[\n| 11\n| 12\n| 13\n"
                .to_owned()
                + &("--- m1\n+++ m3\n".to_owned()
                    + &one.lines().map(|line| format!("- {line}\n")).collect::<String>()
                    + "+ <none>\n")
        );
    }

    #[test]
    fn fault_81_secret_values_are_never_shown() {
        let text = rendered("Secret a", ".data.key", &[(Some("YQ=="), &[0, 2]), (Some("Yg=="), &[1])]);
        assert!(text.ends_with("- (value 1)\n+ (value 2)\n"), "{text}");
        for field in [".data.key", ".stringData.key", ".metadata.annotations.x"] {
            assert!(fields::is_secret(field));
        }
        assert!(!fields::is_secret(".type"));
    }
}
