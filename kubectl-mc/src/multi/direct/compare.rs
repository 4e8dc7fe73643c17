//! Implements `kubectl mc compare`: prints the differences between objects of several clusters as a unified
//! diff of each field, and marks the odd one out. It omits fields that a cluster sets itself. It compares the
//! values of Secrets but never prints them.

mod fields;
mod render;

use std::collections::BTreeMap;

use serde_json::Value;

use super::failure::MemberFailure;
use super::get;
use super::task::{Ended, Task};
use crate::argv::Scanned;
use crate::cluster::client::ClientError;

/// The objects to compare, in the syntax of `kubectl get`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ComparePlan {
    objects: get::GetPlan,
    /// `--all-fields`: no field is omitted.
    all_fields: bool,
}

impl ComparePlan {
    /// The plan for these arguments, if they are supported: `compare [get] TYPE/NAME …`.
    pub(crate) fn of(scanned: &Scanned) -> Option<Self> {
        let objects = get::GetPlan::of_objects(scanned, crate::argv::COMPARE, ALL_FIELDS)?;
        Some(Self { objects, all_fields: scanned.has(ALL_FIELDS) })
    }
}

/// The fields of an object, by their paths.
type Fields = BTreeMap<String, String>;

/// Each object on each cluster that has it.
type Objects = BTreeMap<String, BTreeMap<usize, Fields>>;

/// Compares the objects. A cluster that differs from the first responding cluster has a negative answer.
pub(super) async fn run(plan: &ComparePlan, task: &Task<'_>) -> Result<Vec<Ended>, ClientError> {
    let (found, mut results) = get::objects(&plan.objects, task).await?;
    let answered: Vec<usize> = (0..results.len()).filter(|place| results[*place].is_ok()).collect();
    let mut objects = Objects::new();
    let mut left_out = std::collections::BTreeSet::new();
    for (place, object) in found.into_iter().filter(|(place, _)| answered.contains(place)) {
        if !plan.all_fields && fields::is_of_the_cluster(&object) {
            left_out.insert(name(&object));
            continue;
        }
        let fields = if plan.all_fields { fields::all(&object) } else { fields::of(&object) };
        objects.entry(name(&object)).or_default().insert(place, fields);
    }
    if !left_out.is_empty() {
        let names: Vec<_> = left_out.into_iter().collect();
        let names = names.join(", ");
        task.printer.note_line(&format!(
            "not compared, because each cluster makes its own: {names}; see --{ALL_FIELDS}"
        ));
    } else if objects.is_empty() && results.iter().all(Result::is_ok) {
        task.printer.note("No resources found\n");
    }
    let mut separate = false;
    for (name, at) in &objects {
        for (place, result) in results.iter_mut().enumerate() {
            let same = answered.first().is_some_and(|first| at.get(first) == at.get(&place));
            if result.is_ok() && !same {
                *result = Err(MemberFailure::NegativeAnswer);
            }
        }
        let mut text = render::object(name, &differences(at, &answered), &task.clusters);
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
    Ok(task.named(results))
}

/// A field with different values.
#[derive(Debug, PartialEq)]
struct Difference {
    field: String,
    /// Each value with its clusters, the most frequent value first. `None` means that the field is missing.
    values: Vec<(Option<String>, Vec<usize>)>,
}

impl Difference {
    /// Groups the clusters by value; `None` if all values are equal.
    fn between(field: &str, values: impl Iterator<Item = (usize, Option<String>)>) -> Option<Self> {
        let mut groups: Vec<(Option<String>, Vec<usize>)> = Vec::new();
        for (place, value) in values {
            match groups.iter_mut().find(|(other, _)| *other == value) {
                Some((_, places)) => places.push(place),
                None => groups.push((value, vec![place])),
            }
        }
        // The sort is stable: among equally frequent values, that of the first cluster comes first.
        groups.sort_by_key(|(_, places)| std::cmp::Reverse(places.len()));
        (groups.len() > 1).then(|| Self { field: field.to_owned(), values: groups })
    }

    /// The only cluster whose value differs from all others.
    fn odd_one_out(&self) -> Option<usize> {
        match self.values.as_slice() {
            [(_, most), (_, odd)] if most.len() > 1 && odd.len() == 1 => odd.first().copied(),
            _ => None,
        }
    }
}

fn differences(at: &BTreeMap<usize, Fields>, answered: &[usize]) -> Vec<Difference> {
    let there = |place: &usize| (*place, at.contains_key(place).then(|| THERE.to_owned()));
    let object = Difference::between(OBJECT, answered.iter().map(there));
    let mut names: Vec<&String> = at.values().flat_map(BTreeMap::keys).collect();
    names.sort_unstable();
    names.dedup();
    // A missing object counts as one difference, not as a difference in each field.
    let fields = names.into_iter().filter_map(|name| {
        Difference::between(name, at.iter().map(|(place, fields)| (*place, fields.get(name).cloned())))
    });
    object.into_iter().chain(fields).collect()
}

/// `Deployment.apps x/web`
fn name(object: &Value) -> String {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let group = text("/apiVersion").split_once('/').map_or(String::new(), |(group, _)| format!(".{group}"));
    let namespace = text("/metadata/namespace");
    let slash = if namespace.is_empty() { "" } else { "/" };
    format!("{}{group} {namespace}{slash}{}", text("/kind"), text("/metadata/name"))
}

const ALL_FIELDS: &str = "all-fields";
/// Takes the place of a field for the object itself.
const OBJECT: &str = "(object)";
const THERE: &str = "there";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::argv;

    #[test]
    fn compare_takes_the_words_of_get() {
        let plan = |words: &str| ComparePlan::of(&argv::scan(words.split(' ').map(Into::into).collect()));
        assert!(plan("compare get deploy/web -n x").is_some());
        assert_eq!(plan("compare deploy web -n x"), plan("compare get deploy web -n x"));
        assert_eq!(plan("-n compare compare pods"), plan("compare get pods -n compare"));
        assert!(plan("compare pods --all-fields").unwrap().all_fields);
        for words in ["compare", "compare get pods -w", "compare get pods -o json", "compare get -f x"] {
            assert_eq!(plan(words), None, "{words}");
        }
    }

    #[test]
    fn value_of_most_clusters_comes_first() {
        let of = |replicas: u32| fields::of(&json!({"spec": {"replicas": replicas, "same": true}}));
        let at = BTreeMap::from([(0, of(2)), (1, of(1)), (2, of(1))]);
        let differing = differences(&at, &[0, 1, 2]);
        let values = vec![(Some("1".to_owned()), vec![1, 2]), (Some("2".to_owned()), vec![0])];
        assert_eq!(differing, [Difference { field: ".spec.replicas".to_owned(), values }]);
        assert_eq!(differing[0].odd_one_out(), Some(0));
        // With two clusters, neither is the odd one out.
        let at = BTreeMap::from([(0, of(2)), (1, of(1))]);
        assert_eq!(differences(&at, &[0, 1])[0].odd_one_out(), None);
    }

    #[test]
    fn missing_object_is_one_difference() {
        let at = BTreeMap::from([
            (0, fields::of(&json!({"spec": {"a": 1}}))),
            (2, fields::of(&json!({"spec": {"a": 1}}))),
        ]);
        let missing = differences(&at, &[0, 1, 2]);
        assert_eq!(
            (missing.len(), missing[0].field.as_str(), missing[0].odd_one_out()),
            (1, OBJECT, Some(1))
        );
    }
}
