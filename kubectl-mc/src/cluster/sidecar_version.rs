//! Reads the version of the sidecar behind a host from its OpenAPI document, which the host serves to every
//! user.

use kubectl_mc_api::path;

use crate::cluster::client::Reply;
use crate::server_text::ServerText;

/// The version that the sidecar reports.
#[derive(Debug)]
pub(crate) struct SidecarVersion {
    pub(crate) version: ServerText,
    pub(crate) commit: ServerText,
}

impl SidecarVersion {
    /// The path of the document.
    pub(crate) fn path() -> String {
        format!("/openapi/v3/apis/{}", path::PROXY_GROUP_VERSION)
    }

    /// Parses the response to a GET of [`Self::path`]; the error describes any other response.
    pub(crate) fn of(reply: &Reply) -> Result<Self, String> {
        if let Some(refusal) = reply.refusal() {
            return Err(refusal.to_string());
        }
        let document = reply.json();
        let text = |field: &str| document["info"][field].as_str().unwrap_or_default().into();
        match document["info"]["title"].as_str() {
            Some(TITLE) => Ok(Self { version: text("version"), commit: text("x-git-commit") }),
            _ => Err(reply.message().to_string()),
        }
    }
}

/// The title of the sidecar's OpenAPI document.
const TITLE: &str = "kubectl-mc";
