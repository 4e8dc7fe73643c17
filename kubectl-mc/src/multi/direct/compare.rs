//! `kubectl mc compare`: the differences between objects of several clusters, field by field. Fields that a cluster
//! writes itself (uid, resourceVersion, status) are ignored, and a Secret's values are only compared, never shown.

mod fields;

use std::collections::BTreeMap;

use serde_json::Value;

use super::get;
use super::{MemberFailure, Task};
use crate::argv::Scanned;
use crate::cluster::client::ClientError;
use crate::server_text::escaped;
use crate::tabwriter::TabWriter;

/// What is compared: the objects of a `kubectl get`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ComparePlan(get::GetPlan);

impl ComparePlan {
    /// The plan for these words, if there is one: `compare [get] TYPE/NAME …`.
    pub(crate) fn of(scanned: &Scanned) -> Option<Self> {
        get::GetPlan::of_objects(scanned, crate::argv::COMPARE).map(Self)
    }
}

/// Each object at each cluster that has it.
type Objects = BTreeMap<String, BTreeMap<usize, BTreeMap<String, String>>>;

/// Compares. A cluster whose objects differ from those of the first that answered says no.
pub(super) async fn run(
    plan: &ComparePlan,
    task: &Task<'_>,
) -> Result<Vec<Result<(), MemberFailure>>, ClientError> {
    let (found, mut results) = get::objects(&plan.0, task).await?;
    let answered: Vec<usize> = (0..results.len()).filter(|place| results[*place].is_ok()).collect();
    let mut objects = Objects::new();
    for (place, object) in found {
        if answered.contains(&place) {
            objects.entry(name(&object)).or_default().insert(place, fields::of(&object));
        }
    }
    if objects.is_empty() && results.iter().all(Result::is_ok) {
        task.printer.note("No resources found\n");
    }
    let mut separate = false;
    for (name, at) in &objects {
        let differing = differences(at, &answered);
        for (place, result) in results.iter_mut().enumerate() {
            let same = answered.first().is_some_and(|first| at.get(first) == at.get(&place));
            if result.is_ok() && !same {
                *result = Err(MemberFailure::Differs);
            }
        }
        let mut text = render(name, &differing, &answered, task);
        if text.is_empty() {
            continue;
        }
        if std::mem::replace(&mut separate, true) {
            text.insert(0, '\n');
        }
        if task.printer.stream(text.as_bytes()).is_break() {
            break;
        }
    }
    Ok(results)
}

/// A field, and its value at each cluster: in the order of the clusters.
type Difference = (String, Vec<String>);

fn differences(at: &BTreeMap<usize, BTreeMap<String, String>>, answered: &[usize]) -> Vec<Difference> {
    let mut differences = Vec::new();
    if answered.iter().any(|place| !at.contains_key(place)) {
        let there = |place: &usize| if at.contains_key(place) { "there" } else { "missing" }.to_owned();
        differences.push(("(object)".to_owned(), answered.iter().map(there).collect()));
    }
    // What is missing altogether does not differ in each of its fields.
    let have: Vec<_> = answered.iter().filter(|place| at.contains_key(place)).collect();
    let mut names: Vec<&String> = at.values().flat_map(BTreeMap::keys).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let value = |place: &usize| at.get(place).and_then(|fields| fields.get(name));
        let first = have.first().and_then(|place| value(place));
        if have.iter().any(|place| value(place) != first) {
            let text = |place: &usize| match (at.contains_key(place), value(place)) {
                (false, _) => String::new(),
                (true, None) => NONE.to_owned(),
                (true, Some(value)) => value.clone(),
            };
            differences.push((name.clone(), answered.iter().map(text).collect()));
        }
    }
    differences
}

fn render(name: &str, differences: &[Difference], answered: &[usize], task: &Task<'_>) -> String {
    if differences.is_empty() {
        return String::new();
    }
    let mut writer = TabWriter::default();
    let clusters = answered.iter().filter_map(|place| task.clusters.get(*place));
    let clusters: Vec<_> = clusters.map(ToString::to_string).collect();
    writer.line(&format!("{}\t{}", escaped(name), clusters.join("\t")));
    let secret = name.starts_with("Secret ");
    for (field, values) in differences {
        let values = if secret && fields::is_secret(field) { veiled(values) } else { values.clone() };
        let values: Vec<_> = values.iter().map(|value| escaped(value)).collect();
        writer.line(&format!("{}\t{}", escaped(field), values.join("\t")));
    }
    writer.flush()
}

/// Which values are the same, and not what they are.
fn veiled(values: &[String]) -> Vec<String> {
    let is_nothing = |value: &String| value == NONE || value.is_empty();
    let mut seen: Vec<&String> = Vec::new();
    for value in values {
        if !is_nothing(value) && !seen.contains(&value) {
            seen.push(value);
        }
    }
    let veil = |value: &String| {
        if is_nothing(value) {
            return value.clone();
        }
        let number = seen.iter().position(|other| *other == value).map_or(0, |at| at + 1);
        format!("(value {number})")
    };
    values.iter().map(veil).collect()
}

/// `Deployment.apps x/web`
fn name(object: &Value) -> String {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let group = text("/apiVersion").split_once('/').map_or(String::new(), |(group, _)| format!(".{group}"));
    let namespace = text("/metadata/namespace");
    let slash = if namespace.is_empty() { "" } else { "/" };
    format!("{}{group} {namespace}{slash}{}", text("/kind"), text("/metadata/name"))
}

const NONE: &str = "<none>";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::argv;

    #[test]
    fn the_words_are_those_of_get() {
        let plan = |words: &str| ComparePlan::of(&argv::scan(words.split(' ').map(Into::into).collect()));
        assert!(plan("compare get deploy/web -n x").is_some());
        assert_eq!(plan("compare deploy web -n x"), plan("compare get deploy web -n x"));
        assert_eq!(plan("-n compare compare pods"), plan("compare get pods -n compare"));
        for words in ["compare", "compare get pods -w", "compare get pods -o json", "compare get -f x"] {
            assert_eq!(plan(words), None, "{words}");
        }
    }

    #[test]
    fn only_differences_are_printed() {
        let at = |value: Value| fields::of(&value);
        let a = at(serde_json::json!({"spec": {"replicas": 1, "same": true}}));
        let b = at(serde_json::json!({"spec": {"replicas": 2, "same": true, "more": "x"}}));
        let at = BTreeMap::from([(0, a), (1, b)]);
        let expected = [
            (".spec.more".to_owned(), vec![NONE.to_owned(), "x".to_owned()]),
            (".spec.replicas".to_owned(), vec!["1".to_owned(), "2".to_owned()]),
        ];
        assert_eq!(differences(&at, &[0, 1]), expected);
        let missing = differences(&at, &[0, 1, 2]);
        assert_eq!(missing[0].1, ["there", "there", "missing"]);
        assert_eq!(missing.len(), 3);
    }

    #[test]
    fn secret_values_are_never_shown() {
        let values = ["YQ==", "Yg==", "YQ==", NONE].map(str::to_owned);
        assert_eq!(veiled(&values), ["(value 1)", "(value 2)", "(value 1)", NONE]);
        assert!(
            fields::is_secret(".data.key")
                && fields::is_secret(".stringData.key")
                && !fields::is_secret(".type")
        );
    }
}
