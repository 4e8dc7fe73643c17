//! Builds the kubectl invocation of each cluster: its arguments and its kubeconfig.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use crate::argv::Scanned;
use crate::cache::Cache;
use crate::cache::RunFolder;
use crate::cluster::cluster_id::ClusterId;
use crate::cluster::context::{ClusterContext, User};
use crate::cluster::credential;
use crate::cluster::shared_credentials::SharedCredentials;
use crate::env::{self, Env};
use crate::error::Failure;
use crate::kubectl::exec::{Invocation, Kubectl};
use crate::kubectl::kuberc::Kuberc;
use crate::kubectl::overlay;
use crate::kubectl::rewrite::{self, RawPath};
use crate::kubectl::self_review::Subresource;
use crate::multi::job::Job;
use crate::multi::local_port;

/// The input of all invocations.
pub(super) struct Invocations {
    pub(super) kubectl: Kubectl,
    /// The arguments for kubectl; they may be adapted for each cluster.
    scanned: Scanned,
    /// The subresource that receives reviews of the caller.
    review: Subresource,
    cache: Cache,
    /// The folder of overlays with a credential, which is deleted when this value is dropped.
    folder: RunFolder,
    /// The number of overlays in the folder, because positions repeat in each batch.
    written: AtomicUsize,
    credentials: SharedCredentials,
    preferences: Preferences,
    env: Env,
}

impl Invocations {
    pub(super) fn new(
        job: &Job<'_>,
        scanned: Scanned,
        review: Subresource,
        cache: Cache,
    ) -> Result<Self, Failure> {
        let kubectl = Kubectl::find(job.env)?;
        let folder = RunFolder::new(cache.folder());
        let preferences = Preferences::of(job, &folder)?;
        let (written, credentials, env) =
            (AtomicUsize::new(0), SharedCredentials::default(), job.env.clone());
        Ok(Self { kubectl, scanned, review, cache, folder, written, credentials, preferences, env })
    }

    /// The command of an invocation.
    pub(super) fn child(&self, invocation: Invocation) -> Command {
        let mut command = self.kubectl.child(invocation);
        match &self.preferences {
            Preferences::OfUser => {}
            Preferences::None => _ = command.env(env::KUBECTL_KUBERC, "false"),
            Preferences::Only(kuberc) => _ = command.env(env::KUBERC, kuberc),
        }
        command
    }

    /// The invocation for a context, with the credential of its plugin. The plugin runs again if its credential
    /// has expired.
    pub(super) async fn of_context(
        &self,
        cluster: &ClusterId,
        context: &ClusterContext,
        at: usize,
        limit: Option<Duration>,
    ) -> Result<Invocation, Failure> {
        self.make(cluster, &self.credentials.obtain(context, &self.scanned, &self.env, limit).await?, at)
    }

    /// The invocation for the cluster at this position, which the context reaches.
    pub(super) fn make(
        &self,
        cluster: &ClusterId,
        through: &ClusterContext,
        at: usize,
    ) -> Result<Invocation, Failure> {
        let overlay = match (self.review, cluster.member()) {
            (Subresource::SelfReviews, Some(member)) => overlay::self_review_overlay_json(through, member)?,
            _ => overlay::overlay_json(through, cluster)?,
        };
        let overlay: PathBuf = match &through.user {
            User::Inline(..) => {
                let number = self.written.fetch_add(1, Ordering::Relaxed);
                self.folder.write(&format!("{number}.json"), &overlay)?
            }
            User::Named(_) | User::ServiceAccount(_) => self.cache.store(&overlay, SystemTime::now())?,
        };
        let mut raw = RawPath::Joined;
        if rewrite::uses_raw(&self.scanned).is_some() {
            let list: OsString = rewrite::kubeconfig_list(through, &overlay)?;
            raw = RawPath::of_minor_version(self.kubectl.minor_version(&list)?);
        }
        let mut scanned = self.scanned.clone();
        if let Preferences::Only(kuberc) = &self.preferences {
            scanned.set_values("kuberc", kuberc.as_os_str());
        }
        local_port::adapt(&mut scanned, cluster, at);
        rewrite::rewrite(scanned, through, cluster, &overlay, raw)
    }
}

/// The preferences file (kuberc) of the children.
enum Preferences {
    /// The user's own.
    OfUser,
    /// None: the user's could change the format of an output that is parsed.
    None,
    /// A file that contains only the user's policy for credential plugins, which also applies to
    /// parsed output.
    Only(PathBuf),
}

impl Preferences {
    fn of(job: &Job<'_>, folder: &RunFolder) -> Result<Self, Failure> {
        if !job.parses_output() {
            return Ok(Self::OfUser);
        }
        let dropped = Kuberc::load(job.scanned, job.env).map(|kuberc| kuberc.dropped(job.scanned));
        let dropped = dropped.unwrap_or_default();
        if !dropped.is_empty() {
            let why = "the plugin reads kubectl's output on several clusters; give the flag itself";
            job.printer.note_line(&format!("note: {}: {why}", dropped.join(", ")));
        }
        Ok(match credential::without_preferences(job.scanned, job.env) {
            Some(kuberc) => Self::Only(folder.write("kuberc", &kuberc)?),
            None => Self::None,
        })
    }
}
