//! Registered clusters: join, connection, credential, health, change and removal.

pub(crate) mod changes;
mod cluster_access;
mod clusters;
mod connection;
mod health;
mod join;
pub(crate) mod joined;
mod old_members;
mod outage;
mod recipes;
mod refusals;
mod tokens;
