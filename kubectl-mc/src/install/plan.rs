//! The installation that the flags describe.

use kubectl_mc_api::manifests::{self, Parameters, Reach};
use serde_json::Value;

use super::InstallError;
use crate::cli::{Certificates, InstallArgs, PullPolicy};

/// What is to be installed, and where.
pub(crate) struct InstallPlan {
    pub(crate) parameters: Parameters,
    /// The context of the cluster that runs the sidecars, where that is not the host.
    pub(crate) run_on: Option<String>,
    reach: Option<Reach>,
}

impl InstallPlan {
    pub(crate) fn of(arguments: &InstallArgs) -> Result<Self, InstallError> {
        let InstallArgs { namespace, image, image_pull_policy, replicas, secure_port, host_network, .. } =
            arguments;
        let addresses = || arguments.endpoint.iter().map(std::net::SocketAddr::ip).collect();
        let reach = match (&arguments.external_name, arguments.endpoint.first()) {
            (Some(name), _) => Some(Reach::Name(name.clone())),
            (None, Some(first)) => Some(Reach::Addresses(addresses(), first.port())),
            (None, None) => None,
        };
        let parameters = Parameters {
            namespace: namespace.clone(),
            image: image.clone().unwrap_or_default(),
            image_pull_policy: image_pull_policy.map(|policy| {
                match policy {
                    PullPolicy::Always => "Always",
                    PullPolicy::IfNotPresent => "IfNotPresent",
                    PullPolicy::Never => "Never",
                }
                .to_owned()
            }),
            replicas: *replicas,
            secure_port: *secure_port,
            host_network: *host_network,
            certificates: match arguments.certificates {
                Certificates::SelfManaged => manifests::Certificates::SelfManaged,
                Certificates::CertManager => manifests::Certificates::CertManager,
            },
            extra_args: arguments.sidecar_flag.clone(),
        };
        if arguments.run_on.is_some() && parameters.certificates == manifests::Certificates::CertManager {
            return Err(InstallError::IssuedElsewhere);
        }
        Ok(Self { parameters, run_on: arguments.run_on.clone(), reach })
    }

    /// The host's objects, the registration last.
    pub(crate) fn host(&self) -> Result<Vec<Value>, InstallError> {
        match &self.reach {
            Some(reach) => self.parameters.host_of_remote(reach),
            None => self.parameters.host(),
        }
        .map_err(InstallError::Manifest)
    }
}
