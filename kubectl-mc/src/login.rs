//! Implements `login` and `logout`: a credential for the host in the keyring of the operating system, and the
//! credential plugin (`client.authentication.k8s.io`) that returns it to kubectl, helm and this plugin.
//!
//! - [`binding`]: the only server that gets a credential
//! - [`store`]: the keyring, or a file
//! - [`source`]: a token, a [`command`] or [`oidc`]
//! - [`user_entry`]: the user of the kubeconfig
//! - [`verb`], [`mod@logout`], [`mod@credential`]: the commands

mod binding;
mod command;
mod credential;
mod jwt;
mod logout;
mod oidc;
mod record;
mod source;
mod store;
mod user_entry;
mod verb;

pub(crate) use crate::cluster::credential::CREDENTIAL;
pub(crate) use credential::run as credential;
pub(crate) use logout::run as logout;
pub(crate) use verb::run;
