//! Handles one request in steps ([`handler`]): parses it ([`request_info`]), admits it ([`limits`]), bounds
//! its duration ([`deadline`], [`cutoff`], [`revalidation`]), forwards it to the member ([`proxy`],
//! [`upgrade`]), and records and reports the outcome ([`record`], [`status`]).

pub mod agent_handshake;
pub mod attach;
pub mod audit_id;
pub mod body;
pub mod cutoff;
pub mod deadline;
pub mod debug;
pub mod error;
pub mod field_selector;
pub mod flow;
pub mod guarded;
pub mod handler;
pub mod headers;
pub mod hold;
pub mod limits;
pub mod metrics;
pub mod offer;
pub mod protocol;
pub mod proxy;
pub mod query;
pub mod record;
pub mod redirect;
pub mod request_info;
pub mod revalidation;
pub mod services;
pub mod status;
pub mod unescape;
pub mod upgrade;
pub mod upload;
