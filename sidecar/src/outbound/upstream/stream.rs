//! Limits how many bytes may arrive on a member's connection before the head of an answer is
//! complete. hyper limits the size of a head, but not the number of interim answers (1xx) before
//! it, so a member could send them for as long as a watch is open.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

use crate::base::io_hook::{Hooked, IoHook};
use crate::outbound::tunnel::stream::TunnelStream;

/// The transport under the member's TLS.
pub(crate) type Transport = Either<TcpStream, Either<Box<TlsStream<TcpStream>>, Box<TunnelStream>>>;

/// A connection to a member, as hyper uses it.
pub(crate) type MemberStream = Hooked<TlsStream<Transport>, BeforeHead>;

/// How many bytes may still arrive before the head; [`usize::MAX`] if no head is expected.
#[derive(Clone, Debug)]
pub(crate) struct BeforeHead(Arc<AtomicUsize>);

/// The member sent too many bytes without an answer.
#[derive(Debug, thiserror::Error)]
#[error("more than {MAX_BEFORE_HEAD} bytes arrived before the response head")]
pub(super) struct TooMuch;

impl Default for BeforeHead {
    fn default() -> Self {
        Self(Arc::new(AtomicUsize::new(usize::MAX)))
    }
}

impl BeforeHead {
    /// Starts the count: a request was sent, and a head is expected.
    pub(super) fn begin(&self) {
        self.0.store(MAX_BEFORE_HEAD, Ordering::Relaxed);
    }

    /// Stops the count: the head arrived, and the rest may have any length.
    pub(super) fn end(&self) {
        self.0.store(usize::MAX, Ordering::Relaxed);
    }

    fn read(&self, length: usize) -> io::Result<()> {
        let left = self.0.load(Ordering::Relaxed);
        if left == usize::MAX {
            return Ok(());
        }
        let left = left.checked_sub(length).ok_or_else(|| io::Error::other(TooMuch))?;
        self.0.store(left, Ordering::Relaxed);
        Ok(())
    }
}

impl IoHook for BeforeHead {
    fn arrived(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.read(bytes.len())
    }
}

/// More than twice hyper's limit for one head, because bytes after the head may arrive with it.
const MAX_BEFORE_HEAD: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_only_before_the_head() {
        let before_head = BeforeHead::default();
        before_head.read(MAX_BEFORE_HEAD * 2).unwrap();
        before_head.begin();
        before_head.read(MAX_BEFORE_HEAD).unwrap();
        let error = before_head.read(1).unwrap_err();
        assert!(error.get_ref().is_some_and(|error| error.is::<TooMuch>()));
        before_head.end();
        before_head.read(MAX_BEFORE_HEAD * 2).unwrap();
    }
}
