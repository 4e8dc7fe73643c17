//! Hostile clients cost good callers no noticeable time. Each test uses all of a small machine, so they run
//! alone.

mod agents;
mod cancels;
mod connections;
mod ends;
mod heads;
mod places;
mod reviews;
mod site;
mod watches;

pub(crate) use site::{LARGE, ONE_MEBIBYTE, SILENT, script};
