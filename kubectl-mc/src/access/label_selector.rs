//! Parses a label selector in the notation of kubectl's flags into the `LabelSelector` of an object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use crate::error::Failure;

/// Parses `env=prod,tier!=dev,region in (a, b),gpu,!old`.
pub(super) fn parse(text: &str) -> Result<LabelSelector, Failure> {
    let invalid = |reason: &str| {
        Failure::usage(format!("invalid --cluster-selector {text:?}: {reason}"))
            .with_hint("for example: --cluster-selector='env=prod,tier!=dev,region in (eu,us)'")
    };
    let mut selector = LabelSelector::default();
    let mut requirements = Vec::new();
    for part in split(text).ok_or_else(|| invalid("a parenthesis is not closed"))? {
        let requirement = requirement(part.trim()).map_err(|reason| invalid(reason.as_str()))?;
        let LabelSelectorRequirement { key, operator, values } = requirement;
        let labels = selector.match_labels.get_or_insert_default();
        match values.as_deref() {
            Some([value]) if operator == "In" && !labels.contains_key(&key) => {
                labels.insert(key, value.clone());
            }
            _ => requirements.push(LabelSelectorRequirement { key, operator, values }),
        }
    }
    // All requirements must be met, so their order is irrelevant.
    requirements.sort_by(|a, b| (&a.key, &a.operator, &a.values).cmp(&(&b.key, &b.operator, &b.values)));
    selector.match_labels = selector.match_labels.filter(|labels| !labels.is_empty());
    selector.match_expressions = Some(requirements).filter(|requirements| !requirements.is_empty());
    Ok(selector)
}

/// The selector as words for an object's name.
pub(super) fn words(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}-{value}"));
    let requirements = selector.match_expressions.iter().flatten().map(|requirement| {
        let LabelSelectorRequirement { key, operator, values } = requirement;
        format!("{key}-{operator}-{}", values.as_deref().unwrap_or_default().join("-"))
    });
    labels.chain(requirements).collect::<Vec<_>>().join("-")
}

/// Splits at the commas outside parentheses.
fn split(text: &str) -> Option<Vec<&str>> {
    let (mut parts, mut begin, mut is_open) = (Vec::new(), 0, false);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => is_open = true,
            ')' => is_open = false,
            ',' if !is_open => {
                parts.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[begin..]);
    (!is_open).then_some(parts)
}

fn requirement(text: &str) -> Result<LabelSelectorRequirement, String> {
    let made = |key: &str, operator: &str, values: Option<Vec<&str>>| {
        let values = values.map(|values| values.into_iter().map(value).collect::<Result<_, _>>());
        Ok(LabelSelectorRequirement {
            key: self::key(key)?,
            operator: operator.to_owned(),
            values: values.transpose()?,
        })
    };
    if text.contains(['<', '>']) {
        return Err("a maintained grant does not support < and >".to_owned());
    }
    if let Some((key, one)) = text.split_once("!=") {
        return made(key, "NotIn", Some(vec![one]));
    }
    if let Some((key, one)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return made(key, "In", Some(vec![one]));
    }
    if let Some((head, list)) = text.split_once('(') {
        let list = list.strip_suffix(')').ok_or("a list ends with )")?;
        let mut words = head.split_whitespace();
        return match (words.next(), words.next(), words.next()) {
            (Some(key), Some("in"), None) => made(key, "In", Some(list.split(',').collect())),
            (Some(key), Some("notin"), None) => made(key, "NotIn", Some(list.split(',').collect())),
            _ => Err("a list follows `in` or `notin`".to_owned()),
        };
    }
    match text.strip_prefix('!') {
        Some(key) => made(key, "DoesNotExist", None),
        None => made(text, "Exists", None),
    }
}

fn key(text: &str) -> Result<String, String> {
    let key = text.trim();
    match !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c)) {
        true => Ok(key.to_owned()),
        false => Err(format!("invalid label key {key:?}")),
    }
}

fn value(text: &str) -> Result<String, String> {
    let value = text.trim();
    match value.len() <= 63 && value.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
        true => Ok(value.to_owned()),
        false => Err(format!("invalid label value {value:?}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn flag_selector_becomes_an_object_selector() {
        let expression = |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
        for (text, expected) in [
            ("env=prod", json!({"matchLabels": {"env": "prod"}})),
            ("env==prod, a.b/c=", json!({"matchLabels": {"env": "prod", "a.b/c": ""}})),
            ("env!=dev", json!({"matchExpressions": [expression("env", "NotIn", &["dev"])]})),
            (
                "region in (eu, us),tier notin (a)",
                json!({"matchExpressions": [
                    expression("region", "In", &["eu", "us"]), expression("tier", "NotIn", &["a"]),
                ]}),
            ),
            (
                "gpu,!old",
                json!({"matchExpressions": [
                    {"key": "gpu", "operator": "Exists"}, {"key": "old", "operator": "DoesNotExist"},
                ]}),
            ),
            // Both requirements apply, so nothing matches; the object means the same.
            (
                "a=1,a=2",
                json!({"matchLabels": {"a": "1"}, "matchExpressions": [expression("a", "In", &["2"])]}),
            ),
        ] {
            assert_eq!(serde_json::to_value(parse(text).unwrap()).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn malformed_selector_is_refused() {
        for text in
            ["", "env=prod,", "=prod", "env=a b", "env in (a", "env of (a)", "env in a)", "cores>4", "a/ö=b"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
