//! Keeps the registered members, and grants users on-demand access to members that do not know them yet.

pub mod cluster;
pub mod inventory;
pub mod on_demand_access;
pub mod waiter_limit;
