//! Decides about a CertificateSigningRequest. An agent may renew its own certificate. A bootstrap token of
//! one cluster may request the certificate of the cluster's agent, and that of the RBAC generator, which
//! `karmadactl register` needs first.
//!
//! Karmada approves every well-formed request of any of its bootstrap tokens (karmada:
//! `pkg/controllers/certificate/approver`), so an invalid request must be refused before Karmada sees it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubectl_mc_api::ownership::subject::{
    self, BOOTSTRAP_OF_CLUSTER, BOOTSTRAP_OF_KARMADA, BOOTSTRAP_USER, GENERATOR, GROUP,
};
use serde_json::Value;

use super::certificate_request::{Subject, Unreadable, could_name};
use super::review::Request;

/// Decides about a request for a certificate.
///
/// # Errors
/// If the requester may not have this certificate.
pub fn judge(request: &Request) -> Result<(), Refusal> {
    if !request.creates("certificates.k8s.io", "certificatesigningrequests") {
        return Err(Refusal::OtherKind);
    }
    let object = request.object.as_ref().unwrap_or(&Value::Null);
    let spec = &object["spec"];
    let pem = spec["request"].as_str().unwrap_or_default();
    let pem = STANDARD.decode(pem).map_err(|_| Unreadable::Pem)?;
    let user = &request.user_info.username;
    let names = match subject::Subject::parse(user, request.groups()) {
        subject::Subject::Agent(_) => vec![user.clone()],
        subject::Subject::Generator => return Err(Refusal::Generator),
        subject::Subject::Unknown => return Err(Refusal::UnknownAgent),
        subject::Subject::NoAgent => match Token::parse(user, request.groups()) {
            Token::OfCluster(cluster) => vec![subject::user(cluster), GENERATOR.to_owned()],
            Token::Unbound => return Err(Refusal::UnboundToken),
            // The requester is not an agent, and may have any certificate except an agent's.
            Token::None if could_name(&pem, AGENT) => return Err(Refusal::OtherRequester),
            Token::None => return Ok(()),
        },
    };
    if spec["signerName"] != SIGNER {
        return Err(Refusal::Signer);
    }
    let usages = spec["usages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let has = |usage: &str| usages.iter().any(|other| other == usage);
    let is_known = |usage: &Value| usage.as_str().is_some_and(|usage| USAGES.contains(&usage));
    if !(has(DIGITAL_SIGNATURE) && has(CLIENT_AUTH) && usages.iter().all(is_known)) {
        return Err(Refusal::Usages);
    }
    let subject = Subject::of_pem(&pem)?;
    if subject.organization != GROUP {
        return Err(Refusal::Organization);
    }
    if !names.contains(&subject.common_name) {
        return Err(Refusal::CommonName { allowed: names[0].clone() });
    }
    Ok(())
}

/// A requester other than an agent.
#[derive(Debug, PartialEq, Eq)]
enum Token<'a> {
    /// A bootstrap token of Karmada for this cluster.
    OfCluster(&'a str),
    /// A bootstrap token of Karmada for no cluster, or for several.
    Unbound,
    None,
}

impl<'a> Token<'a> {
    fn parse(user: &str, groups: &'a [String]) -> Self {
        if !groups.iter().any(|group| group.starts_with(BOOTSTRAP_OF_KARMADA)) {
            return Self::None;
        }
        let mut clusters = groups.iter().filter_map(|group| group.strip_prefix(BOOTSTRAP_OF_CLUSTER));
        match (clusters.next(), clusters.next()) {
            (Some(cluster), None) if subject::is_cluster(cluster) && user.starts_with(BOOTSTRAP_USER) => {
                Self::OfCluster(cluster)
            }
            _ => Self::Unbound,
        }
    }
}

/// Why a certificate must not be issued.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the webhook is registered for other requests than the creation of CertificateSigningRequests")]
    OtherKind,
    #[error("the user and its groups are not those of one cluster's agent")]
    UnknownAgent,
    #[error("the generator of agents' RBAC may not request a certificate")]
    Generator,
    #[error(
        "the bootstrap token is not of one cluster: create one by kubectl mc authz token CLUSTER, which is of group \
         {BOOTSTRAP_OF_CLUSTER}CLUSTER"
    )]
    UnboundToken,
    #[error("only an agent and a bootstrap token of its cluster may request an agent's certificate")]
    OtherRequester,
    #[error("the signer of an agent's certificate is {SIGNER}")]
    Signer,
    #[error(
        "the usages of an agent's certificate are digital signature, client auth, and key encipherment if need be"
    )]
    Usages,
    #[error("the organization of an agent's certificate is {GROUP}")]
    Organization,
    #[error("the requester may only have a certificate for {allowed}")]
    CommonName { allowed: String },
    #[error("{0}")]
    Unreadable(#[from] Unreadable),
}

/// The prefix of agents' user names, and their group.
const AGENT: &str = "system:karmada:agent";
const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const DIGITAL_SIGNATURE: &str = "digital signature";
const CLIENT_AUTH: &str = "client auth";
const USAGES: [&str; 3] = [DIGITAL_SIGNATURE, "key encipherment", CLIENT_AUTH];

#[cfg(test)]
mod tests;
