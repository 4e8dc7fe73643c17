//! Defines the flags of Karmada's own server behind the sidecar.

use std::path::PathBuf;

use clap::Args;
use kubectl_mc_api::direct::Server;

#[derive(Clone, Debug, Args)]
pub struct KarmadaServer {
    /// URL of karmada-aggregated-apiserver. The sidecar then serves API group cluster.karmada.io: it answers requests
    /// for clusters/proxy itself and forwards the others to this server as the caller.
    #[arg(long, value_name = "URL", requires_all = ["karmada_server_ca_file", "karmada_server_client_certificate", "karmada_server_client_key"])]
    pub karmada_server: Option<Server>,
    /// CA of the serving certificate of karmada-aggregated-apiserver.
    #[arg(long, value_name = "FILE", requires = "karmada_server")]
    pub karmada_server_ca_file: Option<PathBuf>,
    /// Client certificate of the sidecar as the front proxy of karmada-aggregated-apiserver, whose
    /// --requestheader-client-ca-file has the CA of it. That CA must not be the host's front-proxy CA.
    #[arg(long, value_name = "FILE", requires = "karmada_server")]
    pub karmada_server_client_certificate: Option<PathBuf>,
    /// Private key of that certificate.
    #[arg(long, value_name = "FILE", requires = "karmada_server")]
    pub karmada_server_client_key: Option<PathBuf>,
}
