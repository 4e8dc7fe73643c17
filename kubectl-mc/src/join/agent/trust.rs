//! Determines how an agent verifies the host: with a certificate authority or, only if a flag says
//! so, with the root certificates of its image. Each of these authorities can certify another
//! server under the host's name, to which the agent would send its token.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubectl_mc_api::names::{AGENT, AGENT_NAMESPACE};
use kubectl_mc_api::path;
use serde_json::{Value, json};

use super::pods;
use crate::cli::AgentArgs;
use crate::cluster::connection::{Connection, ConnectionError};
use crate::error::Failure;
use crate::join::endpoint;
use crate::join::pem;

/// How the agent verifies the host, according to a flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Certificate authorities (PEM).
    Pinned(String),
    SystemRoots,
}

impl Trust {
    /// Reads `--agent-server-ca` and `--agent-trust-system-roots`.
    pub(crate) fn read(flags: &AgentArgs) -> Result<Option<Self>, Failure> {
        let Some(file) = &flags.agent_server_ca else {
            return Ok(flags.agent_trust_system_roots.then_some(Self::SystemRoots));
        };
        let file = file.to_string_lossy();
        let authorities = pem::authorities(&endpoint::read(&file).map_err(unusable_ca)?);
        let authorities = authorities.ok_or_else(|| {
            unusable_ca(Failure::usage(format!("{file} is not a PEM bundle of certificate authorities")))
        })?;
        Ok(Some(Self::Pinned(authorities)))
    }

    /// The certificate authorities (PEM).
    pub(crate) fn ca(&self) -> Option<&str> {
        match self {
            Self::Pinned(authorities) => Some(authorities),
            Self::SystemRoots => None,
        }
    }

    /// Changes a running agent. Returns whether its pods are replaced: the tunnels of running pods stay, so
    /// only new pods show whether the agent reaches the host.
    pub(crate) async fn write(&self, member: &Connection) -> Result<bool, ConnectionError> {
        let secret = store(member, self.ca()).await?;
        pods::replace_pods(member, &secret).await
    }

    /// The result, for the user.
    pub(crate) fn outcome(&self) -> &'static str {
        match self {
            Self::Pinned(_) => "its agent verifies the host by the CA of --agent-server-ca",
            Self::SystemRoots => "its agent verifies the host by every root certificate of its image",
        }
    }
}

/// Writes the CA into the agent's Secret, or removes it.
pub(crate) async fn store(member: &Connection, ca: Option<&str>) -> Result<Value, ConnectionError> {
    let data = json!({"data": {"ca.crt": ca.map(|ca| STANDARD.encode(ca))}});
    member.merge(&path::secret(AGENT_NAMESPACE, AGENT), &data).await
}

/// The failure of the host's certificate authority.
pub(super) fn unusable_ca(failure: Failure) -> Failure {
    failure.within("the host's certificate authority cannot be used").with_hint(SET_CA)
}

pub(super) const SET_CA: &str = "set it by --agent-server-ca=FILE";

#[cfg(test)]
mod tests {
    use http::Method;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

    use super::*;
    use crate::cluster::connection::fake;

    fn authority() -> String {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem().replace("\r\n", "\n")
    }

    fn read(text: &str) -> Result<Option<Trust>, Failure> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Trust::read(&AgentArgs { agent_server_ca: Some(file.path().into()), ..AgentArgs::default() })
    }

    #[test]
    fn file_may_have_the_old_and_the_new_ca() {
        let both = format!("{}{}", authority(), authority());
        assert_eq!(read(&format!("# $(comment)\n{both}")).unwrap(), Some(Trust::Pinned(both)));
    }

    #[test]
    fn file_without_a_usable_ca_is_refused() {
        let key = KeyPair::generate().unwrap().serialize_pem();
        let broken = "-----BEGIN CERTIFICATE-----\nc2VjcmV0\n-----END CERTIFICATE-----\n";
        for text in ["", "nonsense", &key, broken, &format!("{}{broken}", authority())] {
            let error = read(text).unwrap_err();
            assert!(error.to_string().ends_with("is not a PEM bundle of certificate authorities"), "{error}");
            assert_eq!(error.hint, Some("set it by --agent-server-ca=FILE".into()));
        }
    }

    /// The requests for a change of an agent whose Deployment has this owner, and whether pods are replaced.
    async fn written(trust: &Trust, owner: &'static str) -> (bool, Vec<(String, Value)>) {
        let (member, requests) = fake::connection("member", move |method, path| match path {
            path if path.ends_with("/deployments/mc-agent") => {
                (200, json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": owner}}}))
            }
            _ if method == Method::PATCH => {
                (200, json!({"data": {"server": "aHR0cHM6Ly9o", "ca.crt": "eA=="}}))
            }
            _ => (200, json!({})),
        });
        let is_replaced = trust.write(&member).await.unwrap();
        let patches = requests.try_iter().filter(|(method, ..)| method == Method::PATCH);
        (is_replaced, patches.map(|(_, path, body)| (path, body)).collect())
    }

    #[tokio::test]
    async fn changed_ca_replaces_the_pods() {
        let (is_replaced, patches) = written(&Trust::Pinned("PEM".to_owned()), "kubectl-mc").await;
        assert!(is_replaced && patches.len() == 2, "{patches:?}");
        assert_eq!(patches[0].0, "/api/v1/namespaces/kubectl-mc-agent/secrets/mc-agent");
        assert_eq!(patches[0].1, json!({"data": {"ca.crt": "UEVN"}}));
        let template = &patches[1].1["spec"]["template"]["metadata"]["annotations"];
        assert!(template["fleet.kubectl-mc.dev/agent-connection"].is_string(), "{patches:?}");
        let (_, patches) = written(&Trust::SystemRoots, "kubectl-mc").await;
        assert_eq!(patches[0].1, json!({"data": {"ca.crt": null}}));
    }

    #[tokio::test]
    async fn pods_of_another_tool_are_not_replaced() {
        let (is_replaced, patches) = written(&Trust::Pinned("PEM".to_owned()), "Helm").await;
        assert!(!is_replaced && patches.len() == 1, "{patches:?}");
    }

    #[test]
    fn system_roots_are_trusted_by_the_flag_only() {
        let flags = |agent_trust_system_roots| AgentArgs { agent_trust_system_roots, ..Default::default() };
        assert_eq!(Trust::read(&flags(false)).unwrap(), None);
        assert_eq!(Trust::read(&flags(true)).unwrap(), Some(Trust::SystemRoots));
    }
}
