//! Hostile clients do not noticeably slow down good callers. Each test needs all of a small
//! machine, so the tests run alone.

mod agents;
mod cancels;
mod connections;
mod heads;
mod reviews;
mod site;
mod watches;

/// Tests that only wait for a deadline run together.
mod together {
    mod ends;
    mod places;
}

pub(crate) use site::{LARGE, ONE_MEBIBYTE, SILENT, script};
