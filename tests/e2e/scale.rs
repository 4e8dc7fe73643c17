//! The sidecar serves many clients at once, withstands hostile ones, and runs for a long time.

pub(crate) mod bounds;

pub(crate) mod slow {
    pub(crate) mod paused;
}

pub(crate) mod serial {
    pub(crate) mod crowds;
    pub(crate) mod hostile;
    pub(crate) mod soak;
}
