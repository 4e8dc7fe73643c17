//! Deletes objects in reverse order and waits until they are gone, so that their names are free again. A
//! missing object is not an error.

use std::time::Duration;

use kube::api::{DeleteParams, PropagationPolicy};
use kube::core::response::Status;
use kubectl_mc_api::names::DELETION_POLICY;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::error::ApplyError;
use super::object::{Object, with_retries};
use crate::cluster::connection::Connection;
use crate::printer::Printer;

/// Options of a deletion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delete {
    /// A server-side dry run, which changes nothing.
    pub(crate) dry_run: bool,
    /// Timeout for the removal of each object; 0 disables it.
    pub(crate) timeout: Duration,
}

impl Delete {
    /// Deletes the objects in reverse order and returns those that existed.
    pub(crate) async fn all(
        self,
        from: &Connection,
        objects: impl DoubleEndedIterator<Item = Value>,
    ) -> Result<Vec<Object>, ApplyError> {
        self.each(from, objects, |_| ()).await
    }

    /// The same, and prints each object once it is deleted. Returns whether any existed.
    pub(crate) async fn print_each(
        self,
        side: &str,
        from: &Connection,
        objects: impl DoubleEndedIterator<Item = Value>,
        printer: &Printer,
    ) -> Result<bool, ApplyError> {
        let deleted = self.each(from, objects, |object| self.print(side, object, printer)).await?;
        Ok(!deleted.is_empty())
    }

    /// Prints that an object is deleted.
    pub(crate) fn print(self, side: &str, object: &Object, printer: &Printer) {
        let remark = if self.dry_run { " (server dry run)" } else { "" };
        printer.out_line(&format!("{side}{object} deleted{remark}"));
    }

    /// The same, and reports each object once its deletion is accepted: a later error loses the result.
    pub(crate) async fn each(
        self,
        from: &Connection,
        objects: impl DoubleEndedIterator<Item = Value>,
        mut report: impl FnMut(&Object),
    ) -> Result<Vec<Object>, ApplyError> {
        let mut deleted = Vec::new();
        for value in objects.rev() {
            let object = Object::new(value)?;
            if self.one(from, &object).await? {
                report(&object);
                deleted.push(object);
            }
        }
        if !self.dry_run {
            for object in &deleted {
                self.gone(from, object).await?;
            }
        }
        Ok(deleted)
    }

    /// Deletes one object; returns whether it existed.
    async fn one(self, from: &Connection, object: &Object) -> Result<bool, ApplyError> {
        let params = DeleteParams {
            dry_run: self.dry_run,
            // Foreground deletion removes dependents first, so nothing is left to be deleted later.
            propagation_policy: Some(PropagationPolicy::Foreground),
            ..DeleteParams::default()
        };
        let api = object.api(from);
        match with_retries(async || api.delete(object.name(), &params).await).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            // The deletion itself follows after the protection is lifted.
            Err(kube::Error::Api(status)) if self.dry_run && is_of_policy(&status) => Ok(true),
            Err(source) => Err(object.refused("delete", from, source)),
        }
    }

    async fn gone(self, from: &Connection, object: &Object) -> Result<(), ApplyError> {
        let begin = Instant::now();
        while let Some(left) = object.get(from).await? {
            if self.is_over(begin.elapsed()) {
                return Err(ApplyError::Stays { reason: why_it_stays(&left), object: object.clone() });
            }
            sleep(POLL).await;
        }
        Ok(())
    }

    /// Whether the timeout has passed; 0 disables it.
    fn is_over(self, elapsed: Duration) -> bool {
        !self.timeout.is_zero() && elapsed > self.timeout
    }
}

/// Why the server has not removed the object yet: its message, or the finalizers.
fn why_it_stays(object: &Value) -> String {
    let finalizers = [&object["metadata"]["finalizers"], &object["spec"]["finalizers"]];
    let finalizers = finalizers.iter().filter_map(|list| list.as_array()).flatten();
    let finalizers = finalizers.filter_map(Value::as_str).collect::<Vec<_>>().join(", ");
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let messages = conditions.filter(|condition| condition["status"] == "True");
    let messages =
        messages.filter_map(|condition| condition["message"].as_str()).collect::<Vec<_>>().join("; ");
    match (finalizers.is_empty(), messages.is_empty()) {
        (_, false) => messages,
        (false, true) => format!("its finalizers: {finalizers}"),
        (true, true) => "the server gives no reason".to_owned(),
    }
}

/// Whether a refusal comes from the policy that protects the registry. An uninstall lifts it, but
/// its dry run does not.
fn is_of_policy(status: &Status) -> bool {
    status.is_forbidden()
        && status.message.contains(&format!("ValidatingAdmissionPolicy '{DELETION_POLICY}' "))
}

const POLL: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn deletion_without_a_timeout_is_never_over() {
        let is_over = |timeout| Delete { dry_run: false, timeout }.is_over(Duration::from_secs(2));
        assert!(is_over(Duration::from_secs(1)));
        assert!(!is_over(Duration::from_secs(3)) && !is_over(Duration::ZERO));
    }

    #[test]
    fn undeleted_object_gives_the_reason() {
        let namespace = json!({
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"conditions": [{"status": "True", "message": "some content remains"}]},
        });
        assert_eq!(why_it_stays(&namespace), "some content remains");
        assert_eq!(why_it_stays(&json!({"metadata": {"finalizers": ["a", "b"]}})), "its finalizers: a, b");
    }

    #[test]
    fn only_a_refusal_of_the_policy_is_recognized() {
        let refused = |code: u16, message: &str| {
            let reason = if code == 403 { "Forbidden" } else { "Invalid" };
            let status = json!({"status": "Failure", "code": code, "reason": reason, "message": message});
            is_of_policy(&serde_json::from_value(status).unwrap())
        };
        let message = "customresourcedefinitions.apiextensions.k8s.io \"x\" is forbidden: ValidatingAdmissionPolicy \
             'kubectl-mc-deletion' with binding 'kubectl-mc-deletion' denied request: no";
        assert!(refused(403, message));
        assert!(!refused(422, message));
        assert!(!refused(403, "ValidatingAdmissionPolicy 'kubectl-mc-deletion-of-others' denied request"));
        assert!(!refused(403, "User \"jane\" cannot delete resource \"namespaces\""));
    }
}
