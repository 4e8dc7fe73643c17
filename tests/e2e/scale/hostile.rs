//! Hostile clients beside good callers: nothing that the attackers do costs the others anything they notice. Each
//! test takes all that a small machine has, so they run alone.

mod cancels;
mod connections;
mod ends;
mod heads;
mod places;
mod reviews;
mod site;
mod watches;

pub(crate) use site::{LARGE, SILENT, script};
