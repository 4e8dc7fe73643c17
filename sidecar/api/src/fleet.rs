//! The fleet view: all members as one cluster below `clusters/*/proxy`.
//!
//! - [`names`]: the names of namespaces, cluster-scoped objects and resource versions in the view

pub mod names;
