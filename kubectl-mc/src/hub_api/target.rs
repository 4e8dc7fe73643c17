//! Describes the server of an APIService (apiregistration.k8s.io/v1: `APIServiceSpec`).

use std::fmt;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::Failure;

/// The Service, and how the host verifies it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Target {
    pub(super) service: Service,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ca_bundle: Option<String>,
    #[serde(default, rename = "insecureSkipTLSVerify")]
    insecure_skip_tls_verify: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Service {
    namespace: String,
    name: String,
    #[serde(default = "https")]
    port: u16,
}

fn https() -> u16 {
    443
}

impl Target {
    /// Returns `None` for an APIService that the kube-apiserver serves itself.
    pub(super) fn of(api_service: &Value) -> Option<Self> {
        serde_json::from_value(api_service["spec"].clone()).ok()
    }

    /// The target from the flags.
    pub(super) fn given(service: &str, authority: Option<&Path>) -> Result<Self, Failure> {
        let invalid = || {
            Failure::usage(format!("{service:?} is not NAMESPACE/NAME or NAMESPACE/NAME:PORT"))
                .with_hint("for example --service=kubectl-mc-system/mc-sidecar")
        };
        let (namespace, rest) = service.split_once('/').ok_or_else(invalid)?;
        let (name, port) = match rest.split_once(':') {
            Some((name, port)) => (name, port.parse().map_err(|_| invalid())?),
            None => (rest, https()),
        };
        if namespace.is_empty() || name.is_empty() || name.contains('/') {
            return Err(invalid());
        }
        let read = |path: &Path| {
            let bundle = std::fs::read(path);
            let bundle = bundle.map_err(|error| {
                Failure::new(format!("cannot read the CA {}: {error}", path.display()))
                    .with_hint("name a PEM file by --certificate-authority")
            })?;
            Ok::<_, Failure>(STANDARD.encode(bundle))
        };
        let ca_bundle = authority.map(read).transpose()?;
        let service = Service { namespace: namespace.to_owned(), name: name.to_owned(), port };
        Ok(Self { service, ca_bundle, insecure_skip_tls_verify: false })
    }

    /// The JSON merge patch that makes an APIService point to this target.
    pub(super) fn patch(&self) -> Value {
        let Self { service, ca_bundle, insecure_skip_tls_verify } = self;
        let insecure = insecure_skip_tls_verify.then_some(true);
        json!({"spec": {"service": service, "caBundle": ca_bundle, "insecureSkipTLSVerify": insecure}})
    }
}

/// The content of the annotation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The hub's own server.
    #[serde(flatten)]
    pub(super) original: Target,
    /// The Service that `apply` wrote instead. Earlier versions did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sidecar: Option<Service>,
}

impl Record {
    pub(super) fn to_text(&self) -> String {
        json!(self).to_string()
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Service { namespace, name, port } = &self.service;
        match port {
            443 => write!(f, "Service {namespace}/{name}"),
            port => write!(f, "Service {namespace}/{name}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::ExitStatus;

    #[test]
    fn annotation_restores_the_original_target() {
        for spec in [
            json!({"service": {"namespace": "karmada-system", "name": "aa", "port": 443}, "caBundle": "Y2E="}),
            json!({"service": {"namespace": "karmada-system", "name": "aa"}, "insecureSkipTLSVerify": true}),
        ] {
            let target = Target::of(&json!({"spec": spec})).unwrap();
            let record = Record { original: target, sidecar: None };
            let back = Record::read(&record.to_text()).unwrap();
            assert_eq!(back, record);
            // A merge patch removes null fields.
            let patch = back.original.patch();
            assert_eq!(patch["spec"]["caBundle"], spec["caBundle"]);
            assert_eq!(patch["spec"]["insecureSkipTLSVerify"], spec["insecureSkipTLSVerify"]);
        }
        assert_eq!(Target::of(&json!({"spec": {"group": "apps"}})), None);
    }

    #[test]
    fn service_of_a_flag_has_a_namespace() {
        let shown = |text: &str| Target::given(text, None).map(|target| target.to_string());
        assert_eq!(shown("a/b").unwrap(), "Service a/b");
        assert_eq!(shown("a/b:6443").unwrap(), "Service a/b:6443");
        for text in ["b", "a/", "/b", "a/b/c", "a/b:x", "a/b:99999"] {
            assert_eq!(shown(text).unwrap_err().status, ExitStatus::Usage, "{text}");
        }
    }
}
