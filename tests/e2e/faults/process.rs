//! The sidecar survives a shortage of file descriptors.

use anyhow::Result;
use harness::caller::Caller;
use harness::fake_member::{FakeMember, ok};
use harness::http1::member_path;
use harness::own_sidecar::{Difference, OwnSidecar};
use harness::wait::{SOON, eventually};

#[test]
fn fault_80_file_descriptor_shortage_is_survived() -> Result<()> {
    let fake = FakeMember::start("e2e-process-files", |_| ok())?;
    let own = OwnSidecar::with(&Difference { open_files: Some(100), ..Difference::default() })?;
    let endpoint = own.endpoint(admin("files")?.certificate.as_deref())?;
    let mut known = endpoint.connect()?;
    known.send(get(&fake, "/known").as_bytes())?;
    assert_eq!(known.response()?.status(), 200);
    // More connections than it has file descriptors, none of which sends a byte.
    let silent = (0..200).map(|_| endpoint.dial()).collect::<Result<Vec<_>>>()?;
    eventually("it has run out of files", SOON, || {
        Ok(own.log()?.contains("cannot accept a connection").then_some(()))
    })?;
    // Connected callers are still served.
    known.send(get(&fake, "/known").as_bytes())?;
    assert_eq!(known.response()?.status(), 200);
    drop(silent);
    eventually("it serves who comes", SOON, || {
        let answer = endpoint.exchange(get(&fake, "/after").as_bytes())?;
        Ok((answer.status() == 200 && own.probe("/readyz")? == 200).then_some(()))
    })
}

fn get(fake: &FakeMember, rest: &str) -> String {
    format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", member_path(&fake.name, rest))
}

fn admin(name: &str) -> Result<Caller> {
    Caller::certificate(&format!("e2e-process-{name}"), &["system:masters"])
}
