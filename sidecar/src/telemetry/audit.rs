//! Records each request as events of `audit.k8s.io/v1`, like a kube-apiserver (apiserver: `pkg/audit`,
//! `endpoints/filters/audit.go`): caller, member, object, decision and outcome. It supports the levels None
//! and Metadata; bodies are never recorded.
//!
//! - [`attributes`]: the verb and the object of a request
//! - [`policy`]: which requests are recorded
//! - [`trail`]: the state of one request, and its events
//! - [`event`]: the format of an event; [`redact`]: redacted texts of a request
//! - [`auditor`]: passes the events to the backends
//! - [`backend`]: a [`queue`] with upstream's modes; [`log_file`] and [`webhook`] store the events

mod attributes;
mod auditor;
mod backend;
mod event;
mod log_file;
mod metrics;
mod policy;
mod queue;
mod redact;
mod trail;
mod webhook;

pub use auditor::{Auditor, Config, NotStored};
pub use backend::Mode;
pub use event::Format;
pub use log_file::{LogConfig, Rotation};
pub use policy::Policy;
pub use trail::{BYTES_FROM_CALLER, BYTES_TO_CALLER, BYTES_TO_MEMBER, Trail, TunnelEnd};
pub use webhook::{Batch, WebhookConfig};
