//! State that many tasks lock and change briefly. Other shared state is a snapshot (`ArcSwap`), or
//! a watch channel with one writer.

use std::sync::PoisonError;

/// A value behind a lock. A closure cannot keep the lock over an await.
#[derive(Debug, Default)]
#[expect(clippy::disallowed_types, reason = "held for a closure, and never over an await")]
pub(crate) struct Locked<T>(std::sync::Mutex<T>);

impl<T> Locked<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(value.into())
    }

    /// Reads or changes the value. It stays usable if another thread panicked while holding the
    /// lock.
    pub(crate) fn with<R>(&self, on: impl FnOnce(&mut T) -> R) -> R {
        on(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The value, without the lock.
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}
