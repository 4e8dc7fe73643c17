//! Reads an agent's write, and builds the document that is sent instead of it.
//!
//! The caller's own text is never sent. It may contain a key twice: a server would merge both
//! values, but a parser here would see only the last one. A server may also accept patches in a
//! form that would be read differently here: for example, the library of kube-apiservers takes JSON
//! pointers without the leading slash. So an agent's patch is a merge patch, which is applied here.

use http::{HeaderMap, HeaderValue, Method, header};
use serde_json::{Map, Value, json};

use super::rules::{Own, fields};
use super::{MAX_VALUES, Part, Refused, merge_patch};
use crate::base::json_values;

/// The content of a write.
#[derive(Debug)]
pub(in crate::endpoints::hub_server) struct Write {
    part: Part,
    is_patch: bool,
    document: Value,
}

/// The decision about an allowed write.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::endpoints::hub_server) enum Judged {
    /// This is sent instead of the caller's document.
    Sent(Vec<u8>),
    /// The caller expects a version of the Cluster other than the stored one.
    Conflict,
}

impl Write {
    /// # Errors
    ///
    /// The body is not a JSON object, or its media type is not that of an update or of a merge patch.
    pub(in crate::endpoints::hub_server) fn read(
        part: Part,
        method: &Method,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<Self, Refused> {
        let is_patch = *method == Method::PATCH;
        let media_type = match headers.get(header::CONTENT_TYPE) {
            Some(value) => value.to_str().map_err(|_| Refused::NotJson)?,
            // kube-apiservers do the same.
            None => JSON,
        };
        let media_type = media_type.split(';').next().unwrap_or_default().trim();
        if !media_type.eq_ignore_ascii_case(if is_patch { MERGE_PATCH } else { JSON }) {
            return Err(Refused::NotJson);
        }
        if !json_values::are_at_most(MAX_VALUES, body) {
            return Err(Refused::TooLarge);
        }
        let document: Value = serde_json::from_slice(body).map_err(|_| Refused::NotJson)?;
        if !document.is_object() {
            return Err(Refused::NotJson);
        }
        Ok(Self { part, is_patch, document })
    }

    /// The media type of the document that is sent.
    pub(in crate::endpoints::hub_server) fn media_type(&self) -> HeaderValue {
        HeaderValue::from_static(if self.is_patch { MERGE_PATCH } else { JSON })
    }

    pub(in crate::endpoints::hub_server) fn part(&self) -> Part {
        self.part
    }

    /// Whether the write is for one version of the Cluster, which its document names.
    pub(in crate::endpoints::hub_server) fn expects_version(&self) -> Result<bool, Refused> {
        Ok(self.expected("resourceVersion")?.is_some())
    }

    /// The registration of a Cluster.
    pub(in crate::endpoints::hub_server) fn judge_new(
        &self,
        cluster: &str,
        namespace: &str,
    ) -> Result<Vec<u8>, Refused> {
        let document = fields(Some(&self.document))?;
        if self.document.pointer("/metadata/name").and_then(Value::as_str) != Some(cluster) {
            return Err(Refused::Another { cluster: cluster.to_owned() });
        }
        let spec = Own { cluster, namespace }.registered(document)?;
        let mut sent = json!({"metadata": {"name": cluster}, "spec": spec});
        for key in ["apiVersion", "kind"] {
            if let Some(value) = document.get(key) {
                sent[key] = value.clone();
            }
        }
        Ok(sent.to_string().into_bytes())
    }

    /// The write of a Cluster that is stored as `current`.
    pub(in crate::endpoints::hub_server) fn judge(
        &self,
        cluster: &str,
        namespace: &str,
        current: &Value,
    ) -> Result<Judged, Refused> {
        let mut metadata = fields(current.get("metadata"))?.clone();
        // Without the version, the write would apply to an object that was not compared.
        let version = metadata.get("resourceVersion").and_then(Value::as_str).unwrap_or_default();
        if metadata.get("name").and_then(Value::as_str) != Some(cluster) || version.is_empty() {
            return Ok(Judged::Conflict);
        }
        for (key, of_stored) in
            [("resourceVersion", Some(version)), ("uid", metadata.get("uid").and_then(Value::as_str))]
        {
            if self.expected(key)?.is_some_and(|expected| Some(expected) != of_stored) {
                return Ok(Judged::Conflict);
            }
        }
        let changes = match self.part {
            Part::Status => Map::new(),
            Part::New | Part::Object => {
                let own = Own { cluster, namespace };
                own.changes(current, &self.result(current))?
            }
        };
        let mut sent = Map::new();
        if self.is_patch {
            metadata.retain(|key, _| key == "resourceVersion");
            if !changes.is_empty() {
                sent.insert("spec".to_owned(), Value::Object(changes));
            }
        } else {
            for key in ["apiVersion", "kind"] {
                sent.insert(key.to_owned(), current[key].clone());
            }
            let mut spec = fields(current.get("spec"))?.clone();
            spec.extend(changes);
            sent.insert("spec".to_owned(), Value::Object(spec));
        }
        sent.insert("metadata".to_owned(), Value::Object(metadata));
        if self.part == Part::Status
            && let Some(status) = self.document.get("status")
        {
            sent.insert("status".to_owned(), status.clone());
        }
        Ok(Judged::Sent(Value::Object(sent).to_string().into_bytes()))
    }

    /// The Cluster after the write.
    fn result(&self, current: &Value) -> Value {
        if !self.is_patch {
            return self.document.clone();
        }
        let mut result = current.clone();
        merge_patch::apply(&mut result, &self.document);
        result
    }

    /// A precondition in the metadata (apimachinery: `GetResourceVersion`, where 0 means none).
    fn expected(&self, key: &str) -> Result<Option<&str>, Refused> {
        match fields(self.document.get("metadata"))?.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.is_empty() || text == "0" => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(Refused::NotJson),
        }
    }
}

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";

#[cfg(test)]
mod tests;
