//! Renews one token: requests it from the member, tries it there, and writes it to the Secret on the host.

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
    pub(super) async fn run(&self, host: &kube::Client, namespace: &str) -> Result<(), Trouble> {
        let renewed = async {
            let token = self.request().await?;
            self.try_out(&token).await?;
            self.write(host, namespace, &token).await
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
        // the current one. Both times are in the member's time. Trying the token shows whether it has already
        // expired.
        let ends = Token::of(&token).life.map_or(expiration_timestamp.0, |Life { ends, .. }| ends);
        if ends < life.ends {
            return Err(failed("the member's new token does not last longer than the present one"));
        }
        Ok(token)
    }

    /// Tries the new token on the member, over the connection of the Secret that it is for.
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

    /// Writes the token to its Secret, unless the Secret has changed since it was read.
    async fn write(&self, host: &kube::Client, namespace: &str, token: &str) -> Result<(), Trouble> {
        let secrets = Api::<Secret>::namespaced(host.clone(), namespace);
        let patch = json!({
            "metadata": {"uid": self.secret.uid(), "resourceVersion": self.secret.resource_version()},
            "data": {"token": STANDARD.encode(token)},
        });
        let params = PatchParams::apply(SIDECAR);
        match secrets.patch(&self.secret.name_any(), &params, &Patch::Merge(patch)).await {
            Ok(_) => Ok(()),
            // The Secret was changed or deleted in the meantime. The watch delivers its new state.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            Err(error) => {
                Err(failed(&format!("the host did not take the new token: {}", kube_error::message(&error))))
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

fn unusable(secret: &Secret, error: &connection::Error) -> Trouble {
    failed(&format!("Secret {} cannot be used: {error}", secret.name_any()))
}

fn failed(message: &str) -> Trouble {
    Trouble { reason: "RenewalFailed", message: message.to_owned() }
}

/// The shortest lifetime that Kubernetes allows for a token.
const SHORTEST: Duration = Duration::from_secs(600);
const TIMEOUT: Duration = Duration::from_secs(40);
