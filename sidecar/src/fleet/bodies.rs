//! Renames what the body of a request to the fleet view names, as the member knows it.
//!
//! Kubernetes' formats for a method are a closed list (apiserver: `endpoints/handlers/create.go`, `patch.go`); a body in
//! another one is refused, because it could name another member. A body is bounded as a kube-apiserver bounds it.

use bytes::Bytes;
use http::{HeaderMap, Method, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kubectl_mc_api::ClusterName;
use kubectl_mc_api::fleet::references::{self, Scope, Type};
use serde_json::Value;

use crate::fleet::protobuf;
use crate::head::request_info::RequestedObject;

pub(crate) mod error;
mod json_patch;
pub(crate) mod values;

pub use error::Error;
pub use values::weight;
pub(crate) use values::{MAX_VALUES, values_are_at_most};

/// A request's body, parsed.
#[derive(Debug)]
pub struct Body {
    of: Type,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Empty,
    /// An object or a part of one, as of the types of patch that Kubernetes merges.
    Object(Value),
    JsonPatch(json_patch::Patch),
    Protobuf(protobuf::Envelope),
}

impl Body {
    /// Parses the body of a request for objects of a type.
    pub fn parse(
        method: &Method,
        headers: &HeaderMap,
        requested: &RequestedObject,
        text: Bytes,
    ) -> Result<Self, Error> {
        let is_deletion = *method == Method::DELETE;
        let of = if is_deletion { Type::delete_options() } else { object_type(requested) };
        if text.is_empty() {
            return Ok(Self { of, content: Content::Empty });
        }
        if headers.get_all(header::CONTENT_ENCODING).iter().any(|coding| coding != "identity") {
            return Err(Error::Format("compressed".to_owned()));
        }
        let mut formats = headers.get_all(header::CONTENT_TYPE).iter();
        let format = formats.next().map_or("application/json", |value| value.to_str().unwrap_or_default());
        if formats.next().is_some() {
            return Err(Error::Format("in two formats".to_owned()));
        }
        let media_type = format.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let content = match (method, media_type.as_str()) {
            (&Method::POST | &Method::PUT | &Method::DELETE, "application/json" | "")
            | (&Method::PATCH, "application/merge-patch+json" | "application/strategic-merge-patch+json") => {
                Content::Object(json(&text)?)
            }
            // kubectl sends JSON, which is YAML as well.
            (&Method::PATCH, "application/apply-patch+yaml") => match json(&text) {
                Err(Error::Json(_)) => return Err(Error::Format("YAML".to_owned())),
                object => Content::Object(object?),
            },
            (&Method::PATCH, "application/json-patch+json") => {
                Content::JsonPatch(json_patch::Patch::parse(json(&text)?)?)
            }
            (&Method::POST | &Method::PUT | &Method::DELETE, "application/vnd.kubernetes.protobuf") => {
                Content::Protobuf(protobuf::Envelope::parse(text, of, requested, is_deletion)?)
            }
            _ => return Err(Error::Format(format.to_owned())),
        };
        Ok(Self { of, content })
    }

    /// The member that the body names, for a request whose path names none.
    pub fn named_member(&self) -> Option<ClusterName> {
        match &self.content {
            Content::Object(object) => references::named_member(object, self.of),
            Content::Protobuf(envelope) => references::named_member(envelope.fields(), self.of),
            Content::Empty | Content::JsonPatch(_) => None,
        }
    }

    /// The body as the member gets it.
    pub fn to_member(self, member: &ClusterName) -> Result<Bytes, Error> {
        match self.content {
            Content::Empty => Ok(Bytes::new()),
            Content::Object(mut object) => {
                references::to_member(&mut object, self.of, member)?;
                Ok(object.to_string().into())
            }
            Content::JsonPatch(patch) => Ok(patch.into_members(self.of, member)?.to_string().into()),
            Content::Protobuf(envelope) => Ok(envelope.into_members(self.of, member)?.into()),
        }
    }
}

/// The type of the objects that a request is about.
pub fn object_type(requested: &RequestedObject) -> Type {
    let RequestedObject { group, namespace, resource, subresource, .. } = requested;
    // The path of a namespace names it as if it were in itself.
    let is_namespaced = !namespace.is_empty() && resource != "namespaces";
    let scope = if is_namespaced { Scope::Namespaced } else { Scope::Cluster };
    Type::new(group, resource, subresource, scope)
}

/// Reads the body of a request.
pub async fn read<B>(body: B) -> Result<Bytes, Error>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match Limited::new(body, MAX_BODY).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Error::TooLarge),
        Err(_) => Err(Error::Broken),
    }
}

fn json(text: &[u8]) -> Result<Value, Error> {
    if !values_are_at_most(MAX_VALUES, text) {
        return Err(Error::TooManyValues);
    }
    serde_json::from_slice(text).map_err(Error::Json)
}

/// As a kube-apiserver's (apiserver: `server/config.go`, `MaxRequestBodyBytes`).
const MAX_BODY: usize = 3 * 1024 * 1024;

#[cfg(test)]
pub(crate) mod tests;
