//! Prints a unified diff in YAML of what an apply would change. The values of Secrets are masked.

use std::fmt::Write;

use serde_json::Value;
use similar::TextDiff;

use super::Applied;
use crate::server_text::escaped;
use crate::yaml;

/// The diff of each applied object; empty if nothing changes.
pub(crate) fn unified(applied: &[Applied]) -> String {
    let mut text = String::new();
    for one in applied {
        let (mut before, mut after) =
            (one.before.as_ref().map(significant).unwrap_or_default(), significant(&one.after));
        if one.object.kind() == "Secret" {
            mask(&mut before, &mut after);
        }
        let (before, after) = (document(&before), document(&after));
        if before != after {
            let place =
                one.object.namespace().map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
            let (from, to) = (format!("live/{}{place}", one.object), format!("merged/{}{place}", one.object));
            let (before, after) = (escaped_lines(&before), escaped_lines(&after));
            let diff = TextDiff::from_lines(&before, &after);
            let _ = write!(text, "{}", diff.unified_diff().header(&from, &to));
        }
    }
    text
}

/// Escapes the lines of a document, which may contain text from the host.
fn escaped_lines(document: &str) -> String {
    document.lines().map(|line| format!("{}\n", escaped(line))).collect()
}

/// The object without the fields that the server sets.
pub(super) fn significant(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"] {
            metadata.remove(field);
        }
    }
    object
}

/// Masks values: an unchanged value becomes `***`, and a changed one is only marked as changed. Annotations of
/// other programs may hold a copy of the values (`kubectl.kubernetes.io/last-applied-configuration`).
fn mask(before: &mut Value, after: &mut Value) {
    for field in ["/data", "/stringData", ANNOTATIONS] {
        let old = before.pointer(field).cloned().unwrap_or_default();
        let new = after.pointer(field).cloned().unwrap_or_default();
        let shown = |values: &Value, others: &Value, changed: &str| {
            let values = values.as_object().into_iter().flatten();
            let masked = values.map(|(key, value)| {
                if field == ANNOTATIONS && is_own(key) {
                    return (key.clone(), value.clone());
                }
                let changed = others.get(key).is_some_and(|other| other != value).then_some(changed);
                (key.clone(), Value::from(changed.unwrap_or("***")))
            });
            masked.collect::<Value>()
        };
        for (object, values, others, changed) in
            [(&mut *before, &old, &new, "*** (before)"), (&mut *after, &new, &old, "*** (after)")]
        {
            if values.is_object()
                && let Some(field) = object.pointer_mut(field)
            {
                *field = shown(values, others, changed);
            }
        }
    }
}

/// Whether the annotation is one of this project, which holds no secret.
fn is_own(annotation: &str) -> bool {
    annotation.split_once('/').is_some_and(|(domain, _)| {
        domain == OWN_DOMAIN || domain.strip_suffix(OWN_DOMAIN).is_some_and(|rest| rest.ends_with('.'))
    })
}

const ANNOTATIONS: &str = "/metadata/annotations";
const OWN_DOMAIN: &str = "kubectl-mc.dev";

/// Objects as a stream of YAML documents.
pub(crate) fn documents<'a>(objects: impl IntoIterator<Item = &'a Value>) -> String {
    let documents = objects.into_iter().map(document).collect::<Vec<_>>();
    documents.join("---\n")
}

fn document(value: &Value) -> String {
    if value.is_null() {
        return String::new();
    }
    yaml::text(value, 0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::object::Object;
    use super::*;

    fn applied(before: Option<Value>, after: Value) -> Applied {
        Applied { object: Object::new(after.clone()).unwrap(), before, after }
    }

    fn secret(token: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "m1.member", "namespace": "n", "resourceVersion": token},
            "data": {"server": "same", "token": token},
        })
    }

    #[test]
    fn fault_81_secret_values_are_never_shown() {
        let text = unified(&[applied(Some(secret("old")), secret("new"))]);
        assert!(text.contains("-  token: \"*** (before)\"\n+  token: \"*** (after)\""), "{text}");
        for value in ["old", "new", "same"] {
            assert!(!text.contains(value), "{text}");
        }
        let text = unified(&[applied(None, secret("new"))]);
        assert!(text.contains("+  token: \"***\"") && !text.contains("new"), "{text}");
    }

    #[test]
    fn fault_81_copy_of_a_secret_in_an_annotation_is_masked() {
        let annotated = |token: &str| {
            let mut object = secret(token);
            object["metadata"]["annotations"] = json!({
                "kubectl.kubernetes.io/last-applied-configuration": format!("{{data: {token}}}"),
                "fleet.kubectl-mc.dev/expires": "tomorrow",
            });
            object
        };
        let text = unified(&[applied(Some(annotated("old")), annotated("new"))]);
        assert!(text.contains("*** (after)") && text.contains("tomorrow"), "{text}");
        assert!(!text.contains("old") && !text.contains("new"), "{text}");
    }

    #[test]
    fn equal_fields_print_no_line() {
        assert_eq!(unified(&[applied(Some(secret("same")), secret("same"))]), "");
    }

    #[test]
    fn new_object_is_shown_as_additions() {
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k": "v"}});
        let text = unified(&[applied(None, map)]);
        assert!(text.starts_with("--- live/configmap/c\n+++ merged/configmap/c\n"), "{text}");
        assert!(text.contains("\n+data:\n+  k: v\n"), "{text}");
    }
}
