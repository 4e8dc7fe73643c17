//! Implements `kubectl mc listen`: serves clusters on a loopback port, for tools that cannot use a server with a
//! path. `https://m1.localhost:PORT` is the server of cluster m1, and `https://127.0.0.1:PORT/m1` is too.
//!
//! A request passes these steps, in the order of [`relay`]:
//!
//! - [`connection`]: TLS or plain HTTP on one port, with limits on connections and heads
//! - [`admission`]: the names in `Host` and `Origin`, then the token
//! - [`target`], [`path`]: the cluster, and its path
//! - [`headers`]: the headers that are forwarded to the cluster and back
//! - [`session`]: the caller's own credential for the cluster
//! - [`redirect`]: redirects stay on the listener
//! - [`refusal`]: the response to a request that is not forwarded
//!
//! [`verb`] starts the listener, on the [`sockets`] with the [`certificate`] and the [`files`] for tools.

mod admission;
mod certificate;
mod clusters;
mod connection;
mod files;
mod headers;
mod path;
mod redirect;
mod refusal;
mod relay;
mod session;
mod sockets;
mod target;
mod verb;

pub(crate) use verb::run;
