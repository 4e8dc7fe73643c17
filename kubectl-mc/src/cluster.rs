//! Represents the cluster of a kubeconfig, and sends requests to it with the caller's own credential.
//!
//! - [`cluster_id`]: a member or a context
//! - [`context`]: the cluster and the user of a kubeconfig context, or of the pod's service account
//! - [`client`], [`credential`]: the HTTP client and the caller's credential
//! - [`connection`]: an open connection to a cluster, for the plugin's own verbs
//! - [`fields`]: fields that objects of all kinds have
//! - [`hop`]: which hop refused a request
//! - [`host`]: the host, its hub and the caller's credential, found once; [`hub`]: the kind of its hub
//! - [`inventory`]: the list of clusters behind the host
//! - [`route`]: through the host, or through the sidecar's direct endpoint
//! - [`named_file`]: a file that a kubeconfig names
//! - [`reach`]: the routes to all clusters of a command
//! - [`transport`]: the settings that client-go's transport would use for a context
//! - [`pods`]: why pods are not ready

pub(crate) mod client;
pub(crate) mod cluster_id;
pub(crate) mod connection;
pub(crate) mod context;
pub(crate) mod credential;
pub(crate) mod fields;
pub(crate) mod hop;
pub(crate) mod host;
pub(crate) mod hub;
pub(crate) mod inventory;
pub(crate) mod kubernetes_version;
pub(crate) mod named_file;
pub(crate) mod own_server;
pub(crate) mod pods;
pub(crate) mod reach;
pub(crate) mod route;
pub(crate) mod shared_credentials;
pub(crate) mod sidecar_version;
pub(crate) mod transport;
