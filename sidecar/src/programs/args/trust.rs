//! Defines the flags that replace keys of ConfigMap `extension-apiserver-authentication`, with the names of an
//! aggregated API server (apiserver: `server/options/authentication.go`).

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub struct Trust {
    /// CA of client certificates. Default: what the host publishes in ConfigMap
    /// kube-system/extension-apiserver-authentication, as for all flags with this default.
    #[arg(long, value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,
    /// CA of the front proxy's client certificate. Default: what the host publishes.
    #[arg(long, value_name = "FILE")]
    pub requestheader_client_ca_file: Option<PathBuf>,
    /// Common names that the front proxy's client certificate may have. Default: what the host publishes.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub requestheader_allowed_names: Option<Vec<String>>,
    /// Headers with the name of the user. Default: what the host publishes.
    #[arg(long, value_name = "HEADER", value_delimiter = ',')]
    pub requestheader_username_headers: Option<Vec<String>>,
    /// Headers with the UID of the user. Default: what the host publishes.
    #[arg(long, value_name = "HEADER", value_delimiter = ',')]
    pub requestheader_uid_headers: Option<Vec<String>>,
    /// Headers with the groups of the user. Default: what the host publishes.
    #[arg(long, value_name = "HEADER", value_delimiter = ',')]
    pub requestheader_group_headers: Option<Vec<String>>,
    /// Prefixes of the headers with the extra fields of the user. Default: what the host publishes.
    #[arg(long, value_name = "PREFIX", value_delimiter = ',')]
    pub requestheader_extra_headers_prefix: Option<Vec<String>>,
}
