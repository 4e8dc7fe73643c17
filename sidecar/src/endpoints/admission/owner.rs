//! Sets the owner on objects that an agent creates, from its user name alone. This is for hosts without
//! MutatingAdmissionPolicies (Kubernetes before 1.36); the webhook's registration selects only objects
//! without an owner.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubectl_mc_api::ownership::OWNER;
use kubectl_mc_api::ownership::subject::Subject;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use super::review::Request;

/// The fields of an object that are read. The rest is not kept, because any caller may send
/// megabytes.
#[derive(Deserialize)]
pub(super) struct Object {
    metadata: Option<Metadata>,
}

#[derive(Deserialize)]
struct Metadata {
    annotations: Option<BTreeMap<String, IgnoredAny>>,
}

/// The JSON patch (RFC 6902) that adds the owner, in base64. `None` if the caller is not an agent, or the
/// object has an owner.
pub(super) fn patch(request: &Request<Object>) -> Result<Option<String>, &'static str> {
    let cluster = match Subject::parse(&request.user_info.username, request.groups()) {
        Subject::Agent(cluster) => cluster,
        // A cluster's registration has no owner: a policy checks its names.
        Subject::NoAgent | Subject::Generator => return Ok(None),
        Subject::Unknown => return Err("the user and its groups are not those of one cluster's agent"),
    };
    if request.operation != "CREATE" || !request.sub_resource.is_empty() {
        return Ok(None);
    }
    let metadata = request.object.as_ref().and_then(|object| object.metadata.as_ref());
    let changes = match &metadata.ok_or("the object has no metadata")?.annotations {
        None => json!([{"op": "add", "path": "/metadata/annotations", "value": {OWNER: cluster}}]),
        Some(annotations) if annotations.contains_key(OWNER) => return Ok(None),
        // RFC 6901, section 3: a slash in a key becomes ~1.
        _ => {
            let path = format!("/metadata/annotations/{}", OWNER.replace('~', "~0").replace('/', "~1"));
            json!([{"op": "add", "path": path, "value": cluster}])
        }
    };
    Ok(Some(STANDARD.encode(changes.to_string())))
}
