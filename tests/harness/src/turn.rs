//! One test at a time, among all processes of tests that share the bed.

use std::fs::{self, File};

use anyhow::{Context, Result};

use crate::bed::bed;

/// The turn at what has this name, until it is let go.
pub struct Turn(#[expect(dead_code, reason = "its lock ends with it")] File);

impl Turn {
    /// Waits for it.
    pub fn take(name: &str) -> Result<Self> {
        let folder = bed()?.dir.join("turns");
        fs::create_dir_all(&folder)?;
        let file = File::create(folder.join(name))?;
        file.lock().with_context(|| format!("no turn at {name}"))?;
        Ok(Self(file))
    }
}
