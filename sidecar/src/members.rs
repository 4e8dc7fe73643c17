//! The members: what the host registers, and how a user gets into one that does not know them yet.

pub mod cluster;
pub mod inventory;
pub mod on_demand_access;
pub mod waiter_limit;
