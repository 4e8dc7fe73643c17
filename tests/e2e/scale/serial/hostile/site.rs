//! The target of the attacks: a member whose answer depends on the request's target, and the test's
//! own sidecar.

use std::time::Duration;

use anyhow::Result;
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Request, Step, ok};
use harness::good_caller;
use harness::hostile::Protocol;
use harness::http1::{Endpoint, member_path};
use harness::own_sidecar::{Difference, OwnSidecar};

/// The member, and the sidecar.
pub(super) struct Site {
    pub(super) fake: FakeMember,
    pub(super) own: OwnSidecar,
}

impl Site {
    /// Starts both. The sidecar gets these flags.
    pub(super) fn start(name: &str, flags: &[&str]) -> Result<Self> {
        let fake = FakeMember::start(&format!("e2e-hostile-{name}"), script)?;
        let own = OwnSidecar::with(&Difference { flags, ..Difference::default() })?;
        Ok(Self { fake, own })
    }

    pub(super) fn path(&self, rest: &str) -> String {
        member_path(&self.fake.name, rest)
    }

    /// The sidecar's port, as an administrator of this name.
    pub(super) fn admin(&self, name: &str) -> Result<Endpoint> {
        let admin = Caller::certificate(&format!("{}-{name}", self.fake.name), &["system:masters"])?;
        self.own.endpoint(admin.certificate.as_deref())
    }
}

/// A good caller over HTTP/1.1 who sends these header lines.
pub(super) fn good(name: &str, endpoint: Endpoint, lines: &[(&str, &str)]) -> good_caller::Caller {
    let lines = lines.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    good_caller::Caller { name: name.to_owned(), endpoint, protocol: Protocol::Http1, lines }
}

/// The request's target selects how the member fails.
pub(crate) fn script(request: &Request) -> Vec<Step> {
    let target = request.target();
    let piece = || [b"10000\r\n", vec![b'x'; 64 * 1024].as_slice(), b"\r\n"].concat();
    let chunked =
        || Step::Send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nfirst\n\r\n".to_vec());
    if target.contains(SILENT) {
        vec![Step::ReceiveAll]
    } else if target.contains(HALF) {
        vec![chunked(), Step::ReceiveAll]
    } else if target.contains(TRICKLE) {
        vec![chunked(), Step::Trickle(b"1\r\nx\r\n".to_vec(), Duration::from_millis(50))]
    } else if target.contains(LARGE) {
        vec![chunked(), Step::Repeat(piece(), 4096)]
    } else if target.contains(ONE_MEBIBYTE) {
        vec![chunked(), Step::Repeat(piece(), 16), Step::ReceiveAll]
    } else if target.contains("watch=") {
        vec![chunked(), Step::Send(b"0\r\n\r\n".to_vec())]
    } else {
        ok()
    }
}

/// The member withholds the head of its answer.
pub(crate) const SILENT: &str = "/silent";
/// The member withholds the rest of the answer's body.
pub(super) const HALF: &str = "/half";
/// The body arrives byte by byte and does not end.
pub(super) const TRICKLE: &str = "/trickle";
/// 1 MiB, and then nothing.
pub(crate) const ONE_MEBIBYTE: &str = "/one-mebibyte";
/// 256 MiB.
pub(crate) const LARGE: &str = "/large";
