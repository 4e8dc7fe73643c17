//! Reads the input of a completion from the command line: its host, the sets of clusters and the
//! selection.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::{Command, FromArgMatches};
use tokio::time::Instant;

use super::cursor::Cursor;
use crate::cli::{Flags, HubChoice};
use crate::cluster::context::HostOptions;
use crate::config_file::ClusterSet;
use crate::env::Env;
use crate::multi::selection::{Choice, ContextFilter, Kind};
use crate::settings::Settings;

/// The input of a completion, and its deadline.
pub(super) struct Session<'a> {
    pub(super) env: &'a Env,
    pub(super) deadline: Instant,
    /// This program.
    pub(super) program: PathBuf,
    pub(super) host: HostOptions,
    pub(super) sets: BTreeMap<String, ClusterSet>,
    pub(super) choice: Option<Choice>,
    pub(super) from: Kind,
    /// The filter of the offered contexts.
    pub(super) filter: ContextFilter,
    /// The value of kubectl's `--kuberc`.
    pub(super) kuberc: Option<OsString>,
}

impl<'a> Session<'a> {
    /// Returns `None` if the flags or the configuration are invalid; the command itself reports the error.
    pub(super) fn new(cursor: &Cursor, parser: &Command, env: &'a Env, deadline: Instant) -> Option<Self> {
        let words = std::iter::once("kubectl mc".into()).chain(cursor.before.own.iter().cloned());
        let matches = parser.clone().try_get_matches_from(words).ok()?;
        let flags = Flags::from_arg_matches(&matches).ok()?;
        let Settings { host, sets, choice, from, .. } = Settings::resolve(&flags, env).ok()?;
        let filter = flags.context_selector.as_deref().map(ContextFilter::parse).transpose().ok()?;
        let filter = filter.unwrap_or_default();
        let kuberc = cursor.before.values("kuberc").next().map(OsStr::to_owned);
        let program = std::env::current_exe().ok()?;
        Some(Self { env, deadline, program, host, sets, choice, from, filter, kuberc })
    }

    /// The flags that address the host.
    pub(super) fn host_flags(&self) -> impl Iterator<Item = OsString> {
        let flag = |name: &str, value: &OsStr| {
            let mut word = OsString::from(name);
            word.push(value);
            word
        };
        let context = self.host.context.as_deref().map(|context| flag("--context=", context.as_ref()));
        let kubeconfig = self.host.kubeconfig.as_deref().map(|file| flag("--kubeconfig=", file.as_os_str()));
        let hub = match &self.host.hub {
            HubChoice::Auto | HubChoice::Found(_) => None,
            HubChoice::Is(dialect) => Some(flag("--hub=", dialect.to_string().as_ref())),
        };
        context.into_iter().chain(kubeconfig).chain(hub)
    }
}
