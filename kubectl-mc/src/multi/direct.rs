//! Runs read commands (`get`, `logs`, `compare` and `auth can-i`) on many clusters by direct requests, with
//! one login and one connection pool. Only a command with exactly the same result as in kubectl has a
//! [`Plan`]; kubectl runs all others.
//!
//! - [`kubectl_flags`]: strict parsing of kubectl's flags
//! - [`login`], [`pool`]: connections to the members, with a credential that may expire
//! - [`member`], [`member_deadline`], [`fault`]: one member, its timeout, and its fault
//! - [`answer`]: answers that name their type
//! - [`arrivals`]: clusters that become Ready while a command runs
//! - [`discovery`], [`member_types`]: resolve a word to a type
//! - [`lasting`]: work that runs until it is interrupted
//! - [`task`], [`text`]: the input of a plan, and its output of lines
//! - [`run_job`]: runs a plan for a job and returns its outcomes
//! - [`logs`]: the logs of pods; [`compare`]: differences between clusters
//! - [`can_i`]: `auth can-i`
//! - [`get`]: lists and watches; [`server_table`]: the rows of a server's table
//! - [`printing`]: kubectl sorts and prints one list of all clusters

mod answer;
mod arrivals;
mod can_i;
mod compare;
mod discovery;
mod event_lines;
mod fault;
mod get;
mod kubectl_flags;
mod lasting;
mod login;
mod logs;
mod member;
mod member_deadline;
mod member_types;
mod pages;
mod path_name;
mod pool;
mod printing;
mod run_job;
mod server_table;
mod task;
mod text;
mod warnings;
mod watch_request;
mod whole_body;

use get::GetError;

pub(crate) use get::NDJSON;
pub(crate) use logs::TailPlan;
pub(crate) use server_table::render as render_table;
pub(crate) use task::{Ended, Merge, Task};
pub(crate) use text::{PlainText, Text};

use crate::argv::{COMPARE, Scanned, TAIL};
use crate::env::{self, Env};
use crate::error::{Context, Failure};

/// A command that runs by direct requests.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Plan {
    Get(get::GetPlan),
    Logs(logs::LogsPlan),
    Tail(Box<TailPlan>),
    Compare(compare::ComparePlan),
    CanI(can_i::CanIPlan),
}

/// The point until which kubectl may take over a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakeOver {
    Never,
    /// Until the first output.
    BeforeOutput,
}

impl Plan {
    /// The plan for a command on many clusters.
    pub(crate) fn for_many(scanned: &Scanned, env: &Env) -> Option<Self> {
        if scanned.verb().is_some_and(|verb| verb == COMPARE) {
            return compare::ComparePlan::of(scanned).map(Self::Compare);
        }
        if let Some(tail) = Self::tail(scanned) {
            return Some(tail);
        }
        Self::of(scanned, env)
    }

    /// The plan for a command on one cluster, and the point until which kubectl can take over.
    pub(crate) fn for_one(scanned: &Scanned, env: &Env) -> Option<(Self, TakeOver)> {
        if let Some(tail) = Self::tail(scanned) {
            return Some((tail, TakeOver::Never));
        }
        // kubectl itself sorts and formats the objects of one cluster.
        let needs_kubectl = |plan: &Self| matches!(plan, Self::Get(get) if get.is_yaml() || get.needs_kubectl() && !get.is_own_format());
        let plan = Self::of(scanned, env).filter(|plan| !needs_kubectl(plan))?;
        let is_own_format = matches!(&plan, Self::Get(get) if get.is_own_format());
        if is_own_format || env.var(env::DIRECT).is_some_and(|direct| direct == "only") {
            return Some((plan, TakeOver::Never));
        }
        // From level 6, kubectl logs its requests.
        let level = scanned.value("v").map(|level| level.to_str().and_then(|level| level.parse::<u8>().ok()));
        let logs = level.is_some_and(|level| level.is_none_or(|level| level > 5));
        (!plan.lasts() && !logs).then_some((plan, TakeOver::BeforeOutput))
    }

    fn tail(scanned: &Scanned) -> Option<Self> {
        scanned.verb().filter(|verb| *verb == TAIL)?;
        TailPlan::parse(scanned).ok().map(|plan| Self::Tail(Box::new(plan)))
    }

    /// The plan for a command line, if it runs by direct requests.
    fn of(scanned: &Scanned, env: &Env) -> Option<Self> {
        // kubectl has no such format.
        if let Some(own) = get::GetPlan::of(scanned).filter(get::GetPlan::is_own_format) {
            return Some(Self::Get(own));
        }
        if env.var(env::DIRECT).is_some_and(|direct| direct == "0") {
            return None;
        }
        // A kubectl preferences file may change the meaning of any command.
        if has_preferences(env) {
            return None;
        }
        get::GetPlan::of(scanned)
            .map(Self::Get)
            .or_else(|| logs::LogsPlan::of(scanned).map(Self::Logs))
            .or_else(|| can_i::CanIPlan::parse(scanned).map(Self::CanI))
    }

    /// Whether the plan streams, so that clusters can be added later.
    fn lasts(&self) -> bool {
        match self {
            Self::Get(plan) => plan.is_watch(),
            Self::Tail(plan) => plan.follows(),
            Self::Logs(plan) => plan.follows(),
            Self::Compare(_) | Self::CanI(_) => false,
        }
    }

    /// Runs the plan. Returns the result of each cluster in order, then those of clusters that
    /// joined later. Lines of text go to `text`.
    pub(crate) async fn run(&self, task: &Task<'_>, text: &mut dyn Text) -> Result<Vec<Ended>, Failure> {
        let result = match self {
            Self::Get(plan) => match get::run(plan, task, text).await {
                Ok(ended) => Ok(ended),
                Err(GetError::Client(error)) => Err(error),
                Err(GetError::Print(error)) => return Err(error.into()),
            },
            Self::Logs(plan) => logs::run(plan, task, text).await,
            Self::Tail(plan) => logs::run_tail(plan, task, text).await,
            Self::Compare(plan) => compare::run(plan, task).await,
            Self::CanI(plan) => can_i::run(plan, task, text).await,
        };
        result.context(|| format!("cannot use {}", task.reach.describe()))
    }
}

/// Whether a kubectl preferences file (kuberc) exists: in a variable, or at kubectl's default path.
fn has_preferences(env: &Env) -> bool {
    if env.var(env::KUBECTL_KUBERC).is_some_and(|on| on == "false") {
        return false;
    }
    env.var(env::KUBERC).is_some_and(|file| file != "off")
        || env.home().is_some_and(|home| home.join(".kube").join("kuberc").exists())
}
