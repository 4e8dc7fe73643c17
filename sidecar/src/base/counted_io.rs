//! Counts the bytes of a byte stream.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::metrics::counter::Counter;

use crate::base::io_hook::IoHook;

/// The byte counts of one stream and of all streams.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    one: AtomicU64,
    all: Counter,
}

impl Tally {
    pub(crate) fn new(all: Counter) -> Arc<Self> {
        Arc::new(Self { one: AtomicU64::default(), all })
    }

    pub(crate) fn count(&self) -> u64 {
        self.one.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, bytes: usize) {
        self.one.fetch_add(bytes as u64, Ordering::Relaxed);
        self.all.inc_by(bytes as u64);
    }
}

/// Counts the bytes that are read from a stream and written to it.
#[derive(Debug)]
pub(crate) struct Tallies {
    pub(crate) read: Arc<Tally>,
    pub(crate) written: Arc<Tally>,
}

impl IoHook for Tallies {
    fn arrived(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.read.add(bytes.len());
        Ok(())
    }

    fn written(&mut self, bytes: usize) {
        self.written.add(bytes);
    }
}
