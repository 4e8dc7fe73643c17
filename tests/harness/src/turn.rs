//! One test at a time, among all processes of tests that share the bed.

use std::fs::{self, File, TryLockError};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::bed::bed;

/// The turn at what has this name, until it is let go.
pub struct Turn(#[expect(dead_code, reason = "its lock ends with it")] File);

impl Turn {
    /// Waits for it.
    pub fn take(name: &str) -> Result<Self> {
        let file = file(name)?;
        file.lock().with_context(|| format!("no turn at {name}"))?;
        Ok(Self(file))
    }

    /// Waits for the first of several that is free, and gives its name.
    pub fn take_any<'a>(names: &[&'a str]) -> Result<(&'a str, Self)> {
        loop {
            for name in names {
                let file = file(name)?;
                match file.try_lock() {
                    Ok(()) => return Ok((name, Self(file))),
                    Err(TryLockError::WouldBlock) => {}
                    Err(TryLockError::Error(error)) => {
                        return Err(error).with_context(|| format!("no turn at {name}"));
                    }
                }
            }
            #[expect(
                clippy::disallowed_methods,
                reason = "the kernel tells of one lock, and not of several"
            )]
            sleep(POLL);
        }
    }
}

fn file(name: &str) -> Result<File> {
    let folder = bed()?.dir.join("turns");
    fs::create_dir_all(&folder)?;
    Ok(File::create(folder.join(name))?)
}

const POLL: Duration = Duration::from_millis(100);
