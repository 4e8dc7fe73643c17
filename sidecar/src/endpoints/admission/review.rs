//! Reads an AdmissionReview of admission.k8s.io/v1.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "O: DeserializeOwned")]
pub(super) struct Review<O> {
    api_version: String,
    kind: String,
    request: Request<O>,
}

impl<O: DeserializeOwned> Review<O> {
    pub(super) fn parse(body: &[u8]) -> Option<Request<O>> {
        let review = serde_json::from_slice::<Self>(body).ok()?;
        (review.api_version == API_VERSION && review.kind == KIND).then_some(review.request)
    }
}

/// The request that the host's caller sent. `O` has the fields that are read from the object.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "O: DeserializeOwned")]
pub struct Request<O = Value> {
    pub(super) uid: String,
    pub(super) resource: Resource,
    #[serde(default)]
    pub(super) sub_resource: String,
    pub(super) operation: String,
    pub(super) user_info: UserInfo,
    #[serde(default = "Option::default")]
    pub(super) object: Option<O>,
}

#[derive(Deserialize)]
pub(super) struct Resource {
    #[serde(default)]
    pub(super) group: String,
    pub(super) resource: String,
}

#[derive(Deserialize)]
pub(super) struct UserInfo {
    #[serde(default)]
    pub(super) username: String,
    #[serde(default)]
    pub(super) groups: Option<Vec<String>>,
}

impl<O> Request<O> {
    pub(super) fn groups(&self) -> &[String] {
        self.user_info.groups.as_deref().unwrap_or_default()
    }

    pub(super) fn creates(&self, group: &str, resource: &str) -> bool {
        self.operation == "CREATE"
            && self.sub_resource.is_empty()
            && self.resource.group == group
            && self.resource.resource == resource
    }
}

pub(super) const API_VERSION: &str = "admission.k8s.io/v1";
pub(super) const KIND: &str = "AdmissionReview";
