//! The admission webhooks, by their paths.

use kubectl_mc_api::ownership::admission_path;

/// A webhook, identified by its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Webhook {
    Enrollment,
    Owner,
}

impl Webhook {
    pub fn at(path: &str) -> Option<Self> {
        match path {
            admission_path::ENROLLMENT => Some(Self::Enrollment),
            admission_path::OWNER => Some(Self::Owner),
            _ => None,
        }
    }
}
