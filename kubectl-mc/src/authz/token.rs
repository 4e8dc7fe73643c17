//! Implements `kubectl mc authz token`: creates a bootstrap token (Kubernetes: "Authenticating with Bootstrap
//! Tokens") for one cluster. Its groups are that of Karmada's tokens, to which Karmada grants the requests of
//! a registration, and one that names the cluster: the sidecar's admission webhook reads the second group.

use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use jiff::Timestamp;
use kubectl_mc_api::names::{KARMADA_AGENT, KUBECTL_MC, MANAGED_BY};
use kubectl_mc_api::ownership::subject;
use serde_json::{Value, json};

use super::arguments::checked;
use super::register_command::Endpoint;
use super::requests::registered;
use crate::cli::{AuthzTokenArgs, Hub};
use crate::cluster::connection::Connection;
use crate::error::Failure;
use crate::exit::ExitStatus;
use crate::printer::Printer;

pub(super) async fn run(
    arguments: &AuthzTokenArgs,
    host: &Connection,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let Hub::Karmada = arguments.agents_of;
    checked(std::slice::from_ref(&arguments.name))?;
    let endpoint = Endpoint::find(host, arguments.server.as_deref()).await?;
    let (token, until) = (Token::new()?, Timestamp::now() + arguments.ttl);
    let query = if arguments.dry_run { "?dryRun=All" } else { "" };
    let path = format!("/api/v1/namespaces/{SYSTEM}/secrets{query}");
    host.create(&path, &token.secret(&arguments.name, until)).await?;
    if arguments.dry_run {
        printer.out_line(&format!("secret/{} created (server dry run)", token.name()));
        return Ok(ExitStatus::Success);
    }
    printer.out_line(&endpoint.command(&arguments.name, &token.text()));
    printer.note_line(&format!(
        "the token is for cluster {} until {until:.0}, and is not shown again",
        arguments.name
    ));
    if registered(host, "validatingwebhookconfigurations", super::admission::ENROLLMENT).await?.is_none() {
        printer.note_line(
            "no admission webhook: Karmada approves its requests for the agents of other clusters too",
        );
    }
    if endpoint.pin.is_none() {
        printer.note_line(&format!(
            "the host's CA is not known here: replace {} by the hash of its public key",
            super::register_command::NO_PIN
        ));
    }
    Ok(ExitStatus::Success)
}

/// The id and the secret of a token.
struct Token {
    id: String,
    secret: String,
}

impl Token {
    fn new() -> Result<Self, Failure> {
        Ok(Self { id: letters(6)?, secret: letters(16)? })
    }

    fn text(&self) -> String {
        format!("{}.{}", self.id, self.secret)
    }

    fn name(&self) -> String {
        format!("bootstrap-token-{}", self.id)
    }

    fn secret(&self, cluster: &str, until: Timestamp) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": TOKEN_TYPE,
            "metadata": {
                "name": self.name(), "namespace": SYSTEM,
                "labels": {MANAGED_BY: KUBECTL_MC, KARMADA_AGENT: cluster},
            },
            "stringData": {
                "description": format!("Enrolls cluster {cluster} in Karmada"),
                "token-id": self.id, "token-secret": self.secret, "expiration": format!("{until:.0}"),
                "usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true",
                "auth-extra-groups": format!("{},{}{cluster}", subject::BOOTSTRAP_GROUP, subject::BOOTSTRAP_OF_CLUSTER),
            },
        })
    }
}

/// Random letters and digits. Rejects bytes that would make some letters more likely than others.
fn letters(count: usize) -> Result<String, Failure> {
    const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let mut text = String::with_capacity(count);
    while text.len() < count {
        let mut byte = [0];
        SystemRandom::new()
            .fill(&mut byte)
            .map_err(|_| Failure::new("cannot read random numbers from the system"))?;
        let [byte] = byte;
        if usize::from(byte) < 256 - 256 % LETTERS.len() {
            text.push(char::from(LETTERS[usize::from(byte) % LETTERS.len()]));
        }
    }
    Ok(text)
}

pub(super) const SYSTEM: &str = "kube-system";
pub(super) const TOKEN_TYPE: &str = "bootstrap.kubernetes.io/token";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bootstrap_token_is_well_formed_and_for_one_cluster() {
        let token = Token::new().unwrap();
        let form = regex::Regex::new("^[a-z0-9]{6}\\.[a-z0-9]{16}$").unwrap();
        assert!(form.is_match(&token.text()), "{}", token.text());
        assert_ne!(token.text(), Token::new().unwrap().text());
        let until = "2026-11-25T15:00:00.5Z".parse().unwrap();
        let secret = token.secret("m1", until);
        assert_eq!(secret["metadata"]["name"], format!("bootstrap-token-{}", token.id));
        assert_eq!(secret["stringData"]["expiration"], "2026-11-25T15:00:00Z");
        assert_eq!(
            secret["stringData"]["auth-extra-groups"],
            "system:bootstrappers:karmada:default-cluster-token,system:bootstrappers:karmada:cluster:m1"
        );
    }
}
