//! The fleet view: all members as one cluster below `clusters/*/proxy`.
//!
//! - [`names`]: the names of namespaces, cluster-scoped objects and resource versions in the view
//! - [`references`]: objects, renamed between a member and the view

pub mod names;
pub mod references;
