//! Renames an object between a member and the fleet view: its namespace or its own name, its resource version, and
//! the fields of a closed table that refer to other objects. Both directions use the same table.
//!
//! On the way to the view each name gets a suffix, whatever it looks like, so an object cannot claim another member.
//! On the way to a member a name has that member's suffix or none; any other `_` is refused.

use serde_json::{Map, Value};

use super::names::{self, CLUSTER_ANNOTATION};
use crate::ClusterName;

mod direction;
mod table;

use direction::{Direction, ToFleet, ToMember};

pub use direction::Refused;

/// The annotation in which `kubectl apply` keeps the object that it applied, as JSON.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The type of the objects of a request, as its path names it.
#[derive(Clone, Copy, Debug)]
pub struct Type {
    is_merged: bool,
    /// Whether objects of the request have a namespace.
    scope: Scope,
    rules: &'static [table::Rule],
}

/// The fields of every object that are renamed, beside its own name.
const METADATA: [&str; 3] = ["metadata.resourceVersion", "metadata.annotations", "metadata.ownerReferences"];

/// Whether an object has a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Namespaced,
    Cluster,
}

/// What a field of the table names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reference {
    /// A namespace or a cluster-scoped object.
    Name,
    /// An object: the field `namespace`, or the field `name` if there is no namespace.
    Object,
    /// An object without a field for its namespace: the field `name`, if its kind is known to be cluster-scoped.
    Kinded,
    /// A resource version.
    Version,
    /// The attributes of an access review: as [`Self::Object`], and the resource can tell that it is cluster-scoped.
    Attributes,
}

impl Type {
    /// The type of a resource and its subresource. `scope` is that of the request's path.
    pub fn new(group: &str, resource: &str, subresource: &str, scope: Scope) -> Self {
        let is_merged = names::is_merged_resource(group, resource);
        Self { is_merged, scope, rules: table::rules(group, resource, subresource) }
    }

    /// The options in the body of a deletion.
    pub fn delete_options() -> Self {
        Self { is_merged: true, scope: Scope::Cluster, rules: table::DELETE_OPTIONS }
    }

    /// Whether the names of the objects themselves have a suffix.
    pub fn has_suffixed_name(self) -> bool {
        self.own_name() == Some("metadata.name")
    }

    /// Whether the table has fields of this type.
    pub fn has_references(self) -> bool {
        !self.rules.is_empty()
    }

    /// The field by which an object itself belongs to a member.
    fn own_name(self) -> Option<&'static str> {
        match self.scope {
            Scope::Namespaced => Some("metadata.namespace"),
            Scope::Cluster => (!self.is_merged).then_some("metadata.name"),
        }
    }
}

/// Renames an object of a member, as the view shows it. A list of all namespaces has objects with a namespace, so the
/// object itself tells its scope.
pub fn to_fleet(object: &mut Value, of: Type, member: &ClusterName) {
    let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str);
    let has_namespace = namespace.is_some_and(|namespace| !namespace.is_empty());
    let of = Type { scope: if has_namespace { Scope::Namespaced } else { of.scope }, ..of };
    let Ok(()) = rename(object, &[], of, &ToFleet(member));
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
        if !annotations.is_object() {
            *annotations = Value::Object(Map::new());
        }
        annotations[CLUSTER_ANNOTATION] = member.as_str().into();
    }
}

/// Renames an object of the view, or a part of one as in a merge patch, as the member knows it.
pub fn to_member(object: &mut Value, of: Type, member: &ClusterName) -> Result<(), Refused> {
    part_to_member(object, &[], of, member)
}

/// Renames the part of an object of the view at a place, such as the value of an operation of a JSON patch.
pub fn part_to_member(
    part: &mut Value,
    place: &[&str],
    of: Type,
    member: &ClusterName,
) -> Result<(), Refused> {
    rename(part, place, of, &ToMember(member))
}

/// Whether a value at a place can hold a name that is renamed.
pub fn holds_names(place: &[&str], of: Type) -> bool {
    let fields = of.rules.iter().map(|(field, _)| *field);
    let fields = fields.chain(of.own_name()).chain(METADATA);
    fields
        .into_iter()
        .any(|field| field.split('.').zip(place).all(|(key, token)| key == "[]" || key == *token))
}

/// The member that the body of a request names, if the request's path names none: by the name of a cluster-scoped
/// object, or by what an access review asks about.
pub fn named_member(object: &Value, of: Type) -> Option<ClusterName> {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
    let member = |name: Option<&str>| names::split(name?).map(|(_, member)| member);
    let own = of.has_suffixed_name().then(|| member(text("/metadata/name"))).flatten();
    own.or_else(|| {
        of.rules.iter().find_map(|(field, reference)| match (*field, reference) {
            ("spec.resourceAttributes", Reference::Attributes) => {
                member(text("/spec/resourceAttributes/namespace"))
                    .or_else(|| member(text("/spec/resourceAttributes/name")))
            }
            ("spec.namespace", Reference::Name) => member(text("/spec/namespace")),
            _ => None,
        })
    })
}

/// Renames the part of an object at a place.
fn rename<D: Direction>(part: &mut Value, place: &[&str], of: Type, direction: &D) -> Result<(), D::Error> {
    visit(part, place, "metadata.resourceVersion", &mut |value, deeper| {
        refer(value, deeper, Reference::Version, "metadata.resourceVersion", direction)
    })?;
    visit(part, place, "metadata.annotations", &mut |value, deeper| {
        let applied = match (deeper, value) {
            ([], Value::Object(annotations)) => {
                direction.annotation(annotations)?;
                annotations.get_mut(LAST_APPLIED)
            }
            ([LAST_APPLIED], value) => Some(value),
            _ => None,
        };
        if let Some(Value::String(text)) = applied {
            rename_applied(text, of, direction);
        }
        Ok(())
    })?;
    names(part, place, of, direction)
}

/// Renames what an object is called and what it refers to.
fn names<D: Direction>(part: &mut Value, place: &[&str], of: Type, direction: &D) -> Result<(), D::Error> {
    if let Some(field) = of.own_name() {
        visit(part, place, field, &mut |value, _| name(value, true, &|| field.to_owned(), direction))?;
    }
    visit(part, place, "metadata.ownerReferences.[]", &mut |value, deeper| {
        // The owner of a cluster-scoped object is cluster-scoped.
        let owner = if of.scope == Scope::Cluster { Reference::Object } else { Reference::Kinded };
        refer(value, deeper, owner, "metadata.ownerReferences[]", direction)
    })?;
    for (field, reference) in of.rules {
        visit(part, place, field, &mut |value, deeper| refer(value, deeper, *reference, field, direction))?;
    }
    Ok(())
}

/// Renames what a field of the table refers to. `deeper` is the place of `value` in it, if only a part is sent.
fn refer<D: Direction>(
    value: &mut Value,
    deeper: &[&str],
    reference: Reference,
    field: &str,
    direction: &D,
) -> Result<(), D::Error> {
    let shown = || field.replace(".[]", "[]");
    let below = |key: &str| format!("{}.{key}", shown());
    match (reference, deeper) {
        (Reference::Name, []) => return name(value, false, &shown, direction),
        (Reference::Version, []) => {
            if let Value::String(version) = value
                && let Some(renamed) = direction.version(version, field)?
            {
                *version = renamed;
            }
            return Ok(());
        }
        (Reference::Name | Reference::Version, _) => return Ok(()),
        (_, ["namespace"]) => return name(value, false, &|| below("namespace"), direction),
        (_, ["name"]) => return direction.unknown(value, &|| below("name")),
        _ => {}
    }
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    let group = match value.get("apiVersion").and_then(Value::as_str) {
        Some(version) => version.split_once('/').map_or("", |(group, _)| group),
        None if reference == Reference::Attributes => text("group"),
        None => text("apiGroup"),
    };
    let kind = text(if reference == Reference::Attributes { "resource" } else { "kind" });
    let is_cluster_scoped = table::is_cluster_scoped(group, kind);
    let is_unnamed = text("namespace").is_empty();
    let has_suffix = match reference {
        Reference::Kinded => is_cluster_scoped,
        Reference::Attributes => is_unnamed || is_cluster_scoped,
        _ => is_unnamed && !names::is_merged_kind(group, kind),
    };
    if let Some(namespace) = value.get_mut("namespace") {
        name(namespace, false, &|| below("namespace"), direction)?;
    }
    match value.get_mut("name") {
        Some(value) if has_suffix => name(value, false, &|| below("name"), direction),
        _ => Ok(()),
    }
}

fn name<D: Direction>(
    value: &mut Value,
    own: bool,
    field: &dyn Fn() -> String,
    direction: &D,
) -> Result<(), D::Error> {
    if let Value::String(name) = value
        && !name.is_empty()
        && let Some(renamed) = direction.name(name, own, field)?
    {
        *name = renamed;
    }
    Ok(())
}

/// Renames the object in the annotation of `kubectl apply`. A text that is not an object of this member stays as it
/// is: the member does not read it.
fn rename_applied<D: Direction>(text: &mut String, of: Type, direction: &D) {
    let Ok(mut object) = serde_json::from_str::<Value>(text) else { return };
    let before = object.clone();
    if names(&mut object, &[], of, direction).is_ok() && object != before {
        let end = if text.ends_with('\n') { "\n" } else { "" };
        *text = format!("{}{end}", go_json(&object));
    }
}

/// JSON as Go writes it. kubectl compares the text.
fn go_json(value: &Value) -> String {
    let mut escaped = String::new();
    for character in value.to_string().chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                escaped.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            character => escaped.push(character),
        }
    }
    escaped
}

/// Calls `found` with each value at a field's path. If `place` is longer than the path, the rest of it is passed on.
fn visit<E>(
    part: &mut Value,
    place: &[&str],
    path: &str,
    found: &mut impl FnMut(&mut Value, &[&str]) -> Result<(), E>,
) -> Result<(), E> {
    let mut path = path.split('.');
    let mut place = place.iter();
    loop {
        let rest = place.as_slice();
        let Some(token) = place.next() else { return descend(part, path, found) };
        match path.next() {
            None => return found(part, rest),
            Some("[]") => {}
            Some(key) if key == *token => {}
            Some(_) => return Ok(()),
        }
    }
}

fn descend<'a, E>(
    value: &mut Value,
    mut path: impl Iterator<Item = &'a str> + Clone,
    found: &mut impl FnMut(&mut Value, &[&str]) -> Result<(), E>,
) -> Result<(), E> {
    match (path.next(), value) {
        (None, value) => found(value, &[]),
        (Some("[]"), Value::Array(elements)) => {
            elements.iter_mut().try_for_each(|element| descend(element, path.clone(), found))
        }
        (Some(key), Value::Object(fields)) => match fields.get_mut(key) {
            Some(value) => descend(value, path, found),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
