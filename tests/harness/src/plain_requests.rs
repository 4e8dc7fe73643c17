//! Sends a caller's reads and watches directly to the test's own sidecar.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::caller::Caller;
use crate::http1::{Connection, Response};
use crate::own_sidecar::OwnSidecar;
use crate::wait::{SOON, eventually};

/// A GET over HTTP/1.1, after which the connection closes.
pub fn request(caller: &Caller, path: &str) -> String {
    let authorization = caller.authorization();
    format!("GET {path} HTTP/1.1\r\nHost: x\r\n{authorization}Connection: close\r\n\r\n")
}

pub fn get(sidecar: &OwnSidecar, caller: &Caller, path: &str) -> Result<Response> {
    sidecar.endpoint(caller.certificate.as_deref())?.exchange(request(caller, path).as_bytes())
}

/// Waits until the path is served.
pub fn serves(sidecar: &OwnSidecar, caller: &Caller, path: &str) -> Result<()> {
    eventually("the member answers", SOON, || {
        let answer = get(sidecar, caller, path)?;
        ensure!(answer.status() == 200, "{}", answer.text());
        Ok(Some(()))
    })
}

/// A watch that has begun.
pub struct Watch(Connection);

impl Watch {
    pub fn begin(sidecar: &OwnSidecar, caller: &Caller, path: &str) -> Result<Self> {
        let mut connection = sidecar.endpoint(caller.certificate.as_deref())?.connect()?;
        connection.send(request(caller, &format!("{path}?watch=1")).as_bytes())?;
        let head = connection.head()?;
        ensure!(head.status == 200, "{head:?}");
        Ok(Self(connection))
    }

    /// Waits for the end of the watch, for less time than a revalidation would take.
    pub fn ended(mut self) -> Result<()> {
        self.0.set_patience(Duration::from_secs(10))?;
        self.0.rest().context("the watch goes on")?;
        Ok(())
    }
}
