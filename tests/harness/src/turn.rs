//! A lock that one test has at a time, across all test processes that share the bed.

use std::fs::{self, File};

use anyhow::{Context, Result};

use crate::bed::bed;

/// The lock of this name, until this is dropped.
pub struct Turn(#[expect(dead_code, reason = "its lock ends with it")] File);

impl Turn {
    /// Waits for the lock.
    pub fn take(name: &str) -> Result<Self> {
        let folder = bed()?.dir.join("turns");
        fs::create_dir_all(&folder)?;
        let file = File::create(folder.join(name))?;
        file.lock().with_context(|| format!("no turn at {name}"))?;
        Ok(Self(file))
    }
}
