//! The host of a command. It is loaded once, on first use, because contexts need no host and a
//! command without a request needs no login.

use std::cell::OnceCell;

use crate::argv::Scanned;
use crate::cluster::context::{ClusterContext, HostError, HostOptions};
use crate::cluster::credential::Login;
use crate::env::Env;

/// The host.
pub(super) struct LazyHost<'a> {
    scanned: &'a Scanned,
    options: &'a HostOptions,
    env: &'a Env,
    host: OnceCell<ClusterContext>,
}

impl<'a> LazyHost<'a> {
    pub(super) fn new(scanned: &'a Scanned, options: &'a HostOptions, env: &'a Env) -> Self {
        Self { scanned, options, env, host: OnceCell::new() }
    }

    pub(super) fn get(&self) -> Result<&ClusterContext, HostError> {
        if let Some(host) = self.host.get() {
            return Ok(host);
        }
        let host = ClusterContext::load_for(self.scanned, self.options, self.env)?;
        Ok(self.host.get_or_init(|| host))
    }
}

/// The login at the host.
pub(super) struct LazyLogin<'a> {
    host: &'a LazyHost<'a>,
    login: OnceCell<Login<'a>>,
}

impl<'a> LazyLogin<'a> {
    pub(super) fn new(host: &'a LazyHost<'a>) -> Self {
        Self { host, login: OnceCell::new() }
    }

    pub(super) fn get(&self) -> Result<&Login<'a>, HostError> {
        let host = self.host.get()?;
        Ok(self.login.get_or_init(|| Login::new(host, self.host.scanned, self.host.env)))
    }
}
