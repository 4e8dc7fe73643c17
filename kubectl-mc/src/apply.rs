//! Writes objects by server-side apply with the plugin's field manager, in order. Applying again
//! changes nothing, and fields of other managers are kept unless they are forced.
//!
//! - [`object`]: an object as JSON, its displayed name and its place in the API
//! - [`diff`]: a readable diff of the changes
//! - [`delete`]: deletes objects

pub(crate) mod delete;
pub(crate) mod diff;
mod error;
pub(crate) mod object;
pub(crate) mod recorded_flags;

use std::collections::BTreeSet;
use std::time::Duration;

use kube::api::{Patch, PatchParams, ValidationDirective};
use kube::core::DynamicObject;
use kube::core::response::Status;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use self::error::ESTABLISHED;
pub(crate) use self::error::{ApplyError, reason};
use self::object::{Object, with_retries};
use crate::cluster::connection::{Connection, FIELD_MANAGER};
use crate::cluster::fields::condition;
use crate::printer::Printer;

/// Options of an apply.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Apply {
    /// A server-side dry run, which changes nothing.
    pub(crate) dry_run: bool,
    /// Takes over fields that other managers own.
    pub(crate) force_conflicts: bool,
}

/// The effect on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Created,
    Configured,
    Unchanged,
}

/// An object before and after the apply.
#[derive(Clone, Debug)]
pub(crate) struct Applied {
    pub(crate) object: Object,
    pub(crate) before: Option<Value>,
    pub(crate) after: Value,
}

impl Applied {
    pub(crate) fn outcome(&self) -> Change {
        match &self.before {
            None => Change::Created,
            Some(before) if diff::significant(before) == diff::significant(&self.after) => Change::Unchanged,
            Some(_) => Change::Configured,
        }
    }

    /// A line in kubectl's format: `deployment.apps/web created`.
    pub(crate) fn line(&self, dry_run: bool) -> String {
        let outcome = match self.outcome() {
            Change::Created => "created",
            Change::Configured => "configured",
            Change::Unchanged => "unchanged",
        };
        let remark = if dry_run { " (server dry run)" } else { "" };
        format!("{} {outcome}{remark}", self.object)
    }
}

impl Apply {
    /// Applies the objects in order. It stops at the first refusal; applied objects stay, and
    /// another apply continues from there.
    pub(crate) async fn all(
        self,
        to: &Connection,
        objects: impl IntoIterator<Item = Value>,
    ) -> Result<Vec<Applied>, ApplyError> {
        self.each(to, objects, |_| ()).await
    }

    /// The same, and prints each object once it is applied.
    pub(crate) async fn print_each(
        self,
        side: &str,
        to: &Connection,
        objects: impl IntoIterator<Item = Value>,
        printer: &Printer,
    ) -> Result<Vec<Applied>, ApplyError> {
        let print = |one: &Applied| printer.out_line(&format!("{side}{}", one.line(self.dry_run)));
        self.each(to, objects, print).await
    }

    /// The same, and reports each object once it is applied, because a later refusal loses the result.
    pub(crate) async fn each(
        self,
        to: &Connection,
        objects: impl IntoIterator<Item = Value>,
        mut report: impl FnMut(&Applied),
    ) -> Result<Vec<Applied>, ApplyError> {
        let mut applied = Vec::new();
        let mut made = Made::default();
        for value in objects {
            let one = self.one(to, Object::new(value)?, &made).await?;
            if self.dry_run && one.before.is_none() {
                made.remember(&one.object);
            }
            report(&one);
            applied.push(one);
        }
        Ok(applied)
    }

    async fn one(self, to: &Connection, object: Object, made: &Made) -> Result<Applied, ApplyError> {
        let Self { dry_run, force_conflicts: force } = self;
        let before = object.get(to).await?;
        let field_validation = Some(ValidationDirective::Strict);
        let params =
            PatchParams { dry_run, force, field_manager: Some(FIELD_MANAGER.to_owned()), field_validation };
        let patch = Patch::Apply(object.value());
        let api = object.api(to);
        let answer: Result<DynamicObject, _> =
            with_retries(async || api.patch(object.name(), &params, &patch).await).await;
        let after = match answer {
            Ok(after) => serde_json::to_value(after).map_err(|source| object.unreadable(source))?,
            // The dry run created nothing, so the server cannot validate objects that depend on an earlier
            // one.
            Err(kube::Error::Api(status)) if status.code == 404 && made.has_place_of(&object) => {
                object.value().clone()
            }
            Err(kube::Error::Api(status)) if !conflicts(&status).is_empty() => {
                let (conflicts, cluster) = (conflicts(&status), to.describe());
                return Err(ApplyError::Conflict { conflicts, cluster, object });
            }
            Err(source) => return Err(object.refused("apply", to, source)),
        };
        if object.kind() == "CustomResourceDefinition" && !dry_run {
            established(to, &object).await?;
        }
        Ok(Applied { object, before, after })
    }
}

/// The objects that a dry run would have created and that others depend on: namespaces and the kinds of CRDs.
#[derive(Default)]
struct Made {
    namespaces: BTreeSet<String>,
    kinds: BTreeSet<(String, String)>,
}

impl Made {
    fn remember(&mut self, object: &Object) {
        match object.kind() {
            "Namespace" => {
                self.namespaces.insert(object.name().to_owned());
            }
            "CustomResourceDefinition" => {
                let text = |path: &str| {
                    object.value().pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
                };
                self.kinds.insert((text("/spec/group"), text("/spec/names/kind")));
            }
            _ => {}
        }
    }

    fn has_place_of(&self, object: &Object) -> bool {
        object.namespace().is_some_and(|namespace| self.namespaces.contains(namespace))
            || self.kinds.contains(&(object.group().to_owned(), object.kind().to_owned()))
    }
}

/// The fields of other managers that the apply would change.
fn conflicts(status: &Status) -> Vec<String> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes
        .filter(|cause| cause.reason == "FieldManagerConflict")
        .map(|cause| format!("{} ({})", cause.field, cause.message))
        .collect()
}

/// Waits until a new kind is served, shortly after its definition was created.
async fn established(at: &Connection, object: &Object) -> Result<(), ApplyError> {
    let begin = Instant::now();
    loop {
        let now = object.get(at).await?.unwrap_or_default();
        if condition(&now, "Established").is_some_and(|established| established["status"] == "True") {
            return Ok(());
        }
        if begin.elapsed() > ESTABLISHED {
            return Err(ApplyError::NotEstablished { object: object.clone() });
        }
        sleep(POLL).await;
    }
}

const POLL: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error::Explain;

    #[test]
    fn refusal_names_object_cluster_and_server_message() {
        let object =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "n"}});
        let status = |status: Value| Box::new(serde_json::from_value::<Status>(status).unwrap());
        let refused = |status| ApplyError::Refused {
            verb: "apply",
            object: Object::new(object.clone()).unwrap(),
            cluster: "member, context \"m1\" (https://m1)".to_owned(),
            kubectl: "kubectl --context=m1".to_owned(),
            status,
        };
        let forbidden = refused(status(json!({
            "status": "Failure", "reason": "Forbidden", "code": 403,
            "message": "secrets \"s\" is forbidden: User \"jane\" cannot patch resource \"secrets\"",
        })));
        assert_eq!(
            crate::error::chain(&forbidden),
            "the member, context \"m1\" (https://m1), refused to apply secret/s: \
             secrets \"s\" is forbidden: User \"jane\" cannot patch resource \"secrets\""
        );
        assert!(
            forbidden.hint().unwrap().to_string().contains("`kubectl --context=m1 auth can-i --list -n n`")
        );
        let homeless = refused(status(json!({"reason": "NotFound", "code": 404})));
        let hint = "namespace n is missing there: check its name, or create it";
        assert_eq!(homeless.hint(), Some(hint.into()));
        let ApplyError::Refused { verb, object, kubectl, status: missing, .. } = homeless else {
            panic!("not refused")
        };
        let cluster = "host, context \"h\" (https://h)".to_owned();
        let at_host = ApplyError::Refused { verb, object, cluster, kubectl, status: missing };
        assert!(
            at_host
                .hint()
                .unwrap()
                .to_string()
                .ends_with("install the sidecar first: kubectl mc --context=m1 install")
        );
        let silent = refused(status(json!({"code": 500})));
        assert!(silent.to_string().ends_with("it answers 500") && silent.hint().is_none());
    }

    #[test]
    fn conflict_names_the_field_and_its_owner() {
        let status: Status = serde_json::from_value(json!({
            "status": "Failure", "reason": "Conflict", "code": 409, "message": "Apply failed with 1 conflict",
            "details": {"causes": [{
                "reason": "FieldManagerConflict",
                "message": "conflict with \"kubectl-scale\" using apps/v1",
                "field": ".spec.replicas",
            }]},
        }))
        .unwrap();
        assert_eq!(conflicts(&status), [".spec.replicas (conflict with \"kubectl-scale\" using apps/v1)"]);
    }

    #[test]
    fn dry_run_accepts_objects_in_new_namespaces_and_kinds() {
        let object = |value| Object::new(value).unwrap();
        let mut made = Made::default();
        made.remember(&object(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}})));
        made.remember(&object(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "x"},
            "spec": {"group": "g.io", "names": {"kind": "K"}},
        })));
        let in_n = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "n"}});
        assert!(made.has_place_of(&object(in_n)));
        assert!(
            made.has_place_of(&object(
                json!({"apiVersion": "g.io/v1", "kind": "K", "metadata": {"name": "k"}})
            ))
        );
        assert!(!made.has_place_of(&object(
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "m"}})
        )));
    }

    #[test]
    fn fields_set_by_the_server_do_not_count_as_a_change() {
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}});
        let with = |version: &str, data: &str| {
            let mut object = object.clone();
            object["metadata"]["resourceVersion"] = version.into();
            object["data"] = json!({"k": data});
            object
        };
        let outcome = |before| {
            Applied { object: Object::new(object.clone()).unwrap(), before, after: with("2", "v") }.outcome()
        };
        assert_eq!(outcome(None), Change::Created);
        assert_eq!(outcome(Some(with("1", "v"))), Change::Unchanged);
        assert_eq!(outcome(Some(with("1", "w"))), Change::Configured);
    }
}
