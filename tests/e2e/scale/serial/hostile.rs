//! Hostile clients cost good callers no noticeable time. Each test uses all of a small machine, so they run
//! alone.

mod agents;
mod cancels;
mod connections;
mod heads;
mod reviews;
mod site;
mod watches;

/// What does no more than wait for a deadline runs together.
mod together {
    mod ends;
    mod places;
}

pub(crate) use site::{LARGE, ONE_MEBIBYTE, SILENT, script};
