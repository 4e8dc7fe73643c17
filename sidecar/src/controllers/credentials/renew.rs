//! Renews one token: requests it from the member, tests it there, and writes it to the Secret on
//! the host.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec, TokenRequestStatus};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use kubectl_mc_api::ClusterName;
use kubectl_mc_api::names::SIDECAR;
use serde_json::json;
use tokio::time::timeout;

use super::assess::Trouble;
use crate::controllers::kube_error;
use crate::host::token::{Life, Token};
use crate::outbound::tunnel::registry::AgentTunnels;
use crate::outbound::upstream::connection;
use crate::outbound::upstream::sidecar_client::{self, TryError};

/// The outcome for a new token.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// It is in the Secret.
    Token,
    /// The Secret has another credential, or is gone. The watch delivers its new state.
    Superseded,
}

/// A token that is due for renewal.
pub(super) struct Renewal {
    pub(super) cluster: ClusterName,
    /// The Secret with the token, as it was read.
    pub(super) secret: Arc<Secret>,
    pub(super) token: Token,
    /// The Secret of the manager, whose credential requests the new token.
    pub(super) manager: Arc<Secret>,
    pub(super) tunnels: Arc<AgentTunnels>,
}

impl Renewal {
    pub(super) async fn run(&self, host: &kube::Client, namespace: &str) -> Result<Written, Trouble> {
        let renewed = async {
            let token = self.request().await?;
            self.try_out(&token).await?;
            write(&Api::namespaced(host.clone(), namespace), &self.secret, &token).await
        };
        timeout(TIMEOUT, renewed).await.unwrap_or_else(|_| Err(failed("it took too long")))
    }

    /// Requests a token of the same account and lifetime from the member.
    async fn request(&self) -> Result<String, Trouble> {
        let (Some(account), Some(life)) = (&self.token.account, self.token.life) else {
            return Err(failed("the token does not say whose it is, or for how long"));
        };
        let member = sidecar_client::client(&self.cluster, &self.manager, &self.tunnels)
            .map_err(|e| unusable(&self.manager, &e))?;
        let accounts = Api::<ServiceAccount>::namespaced(member, &account.namespace);
        let spec = TokenRequestSpec {
            // Empty means the member's own default audiences, which may have changed.
            audiences: Vec::new(),
            expiration_seconds: Some(
                i64::try_from(life.length().max(SHORTEST).as_secs()).unwrap_or(i64::MAX),
            ),
            bound_object_ref: None,
        };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let answer = accounts.create_token_request(&account.name, &PostParams::default(), &request).await;
        let answer = answer.map_err(|error| self.refused(error))?;
        let TokenRequestStatus { token, expiration_timestamp } =
            answer.status.ok_or_else(|| failed("the member answered without a token"))?;
        // The member may grant a shorter lifetime than requested, but the new token must not expire before
        // the current one. Both times are in the member's time. Testing the token shows whether it
        // has already expired.
        let ends = Token::of(&token).life.map_or(expiration_timestamp.0, |Life { ends, .. }| ends);
        if ends < life.ends {
            return Err(failed("the member's new token does not last longer than the present one"));
        }
        Ok(token)
    }

    /// Tests the new token on the member, over the connection of its Secret.
    async fn try_out(&self, token: &str) -> Result<(), Trouble> {
        let mut data = self.secret.data.clone().unwrap_or_default();
        data.insert("token".to_owned(), ByteString(token.as_bytes().to_vec()));
        match sidecar_client::accepts(&self.cluster, &data, &self.tunnels).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Trouble {
                reason: "NewTokenRefused",
                message: "the member refuses its own new token".to_owned(),
            }),
            Err(TryError::Connection(error)) => Err(unusable(&self.secret, &error)),
            Err(TryError::Failure(failure)) => {
                Err(failed(&format!("the new token could not be tried: {failure}")))
            }
        }
    }

    fn refused(&self, error: kube::Error) -> Trouble {
        let manager = self.cluster.manager_secret();
        let said = kube_error::message(&error);
        let kube::Error::Api(status) = error else {
            return failed(&format!("cannot request a token from the member: {said}"));
        };
        let (reason, message) = match status.code {
            401 => ("ManagerRefused", format!("the member refuses the credential in Secret {manager}")),
            403 => ("ManagerForbidden", format!("the account of Secret {manager} may not: {said}")),
            404 => ("AccountNotFound", format!("the token's account is not on the member: {said}")),
            code => ("RenewalFailed", format!("the member answered {code}: {said}")),
        };
        Trouble { reason, message }
    }
}

/// Writes the token to its Secret, unless the credential there has changed since it was read. Other changes of the
/// Secret, such as a new annotation, do not matter.
async fn write(secrets: &Api<Secret>, read: &Secret, token: &str) -> Result<Written, Trouble> {
    let refused = |error: kube::Error| {
        failed(&format!("the host did not take the new token: {}", kube_error::message(&error)))
    };
    let mut version = read.resource_version();
    for _ in 0..WRITES {
        let patch = json!({
            "metadata": {"uid": read.uid(), "resourceVersion": version},
            "data": {"token": STANDARD.encode(token)},
        });
        match secrets.patch(&read.name_any(), &PatchParams::apply(SIDECAR), &Patch::Merge(patch)).await {
            Ok(_) => return Ok(Written::Token),
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Written::Superseded),
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(refused(error)),
        }
        match secrets.get_opt(&read.name_any()).await.map_err(refused)? {
            Some(now) if now.uid() == read.uid() && now.data == read.data => version = now.resource_version(),
            _ => return Ok(Written::Superseded),
        }
    }
    Err(failed("the Secret changed during each attempt to write the new token"))
}

fn unusable(secret: &Secret, error: &connection::Error) -> Trouble {
    failed(&format!("Secret {} cannot be used: {error}", secret.name_any()))
}

fn failed(message: &str) -> Trouble {
    Trouble { reason: "RenewalFailed", message: message.to_owned() }
}

/// The shortest lifetime that Kubernetes allows for a token.
const SHORTEST: Duration = Duration::from_secs(600);
const TIMEOUT: Duration = Duration::from_secs(40);
/// Attempts to write a token while other fields of its Secret change.
const WRITES: usize = 3;

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use serde_json::Value;

    use super::*;
    use crate::host::fake;

    fn secret(version: &str, token: &str) -> Value {
        json!({
            "metadata": {"name": "m1.member", "uid": "u", "resourceVersion": version},
            "data": {"token": STANDARD.encode(token)},
        })
    }

    /// The result for a Secret that is `now` and was read as version 1, and the written versions. A patch of any
    /// other version is a conflict.
    async fn written(now: Option<Value>) -> (Result<Written, Trouble>, Vec<Value>) {
        let (sender, versions) = mpsc::channel();
        let (host, _) = fake::host(move |patch| {
            let failure = |code: u16| (code, json!({"kind": "Status", "status": "Failure", "code": code}));
            let Some(now) = &now else { return failure(404) };
            if patch.is_null() {
                return (200, now.clone());
            }
            let version = patch["metadata"]["resourceVersion"].clone();
            sender.send(version.clone()).unwrap();
            if version == now["metadata"]["resourceVersion"] { (200, now.clone()) } else { failure(409) }
        });
        let read = serde_json::from_value(secret("1", "old")).unwrap();
        let result = write(&Api::namespaced(host, "ns"), &read, "new").await;
        (result, versions.try_iter().collect())
    }

    #[tokio::test]
    async fn changed_annotation_does_not_lose_a_new_token() {
        let (result, versions) = written(Some(secret("2", "old"))).await;
        assert_eq!((result.ok(), versions), (Some(Written::Token), vec![json!("1"), json!("2")]));
    }

    #[tokio::test]
    async fn changed_credential_is_not_overwritten() {
        let (result, versions) = written(Some(secret("2", "of another"))).await;
        assert_eq!((result.ok(), versions), (Some(Written::Superseded), vec![json!("1")]));
        assert_eq!(written(None).await.0.ok(), Some(Written::Superseded));
    }
}
