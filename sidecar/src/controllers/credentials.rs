//! Reports condition `CredentialValid` and renews the members' tokens. If a member has a Secret
//! `<name>.manager`, the manager's token is used to request new tokens for both Secrets from the
//! member (TokenRequest), after a third of their lifetime. The rest of the lifetime is the longest
//! outage of the host that the member survives. A new token is tested on the member before it is
//! written to the host, and it replaces only the version of the Secret that it renews. All replicas
//! receive it through their watch.
//!
//! A token's lifetime is in the member's time, and clocks can be changed or wrong. A clock that is
//! set back does not delay a renewal (`Held::latest`), a clock that is ahead does not cause a
//! renewal storm (`APART`), and the member, not the clock, decides whether a token may be used for
//! a renewal.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kubectl_mc_api::ClusterName;
use kubectl_mc_api::enrollment::Enrollment;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use super::conditions::{Aspect, Finding};
use super::context::Context;
use super::work_queue::WorkQueue;
use crate::base::retry;
use crate::members::inventory::fleet::{Fleet, Registered};

mod assess;
mod held;
mod renew;

use crate::host::token::{Credential, Token};
use assess::{Known, Trouble};
use held::{Held, Now, overdue};
use renew::{Renewal, Written};

/// The two Secrets of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Which {
    Member,
    Manager,
}

impl Which {
    const BOTH: [Self; 2] = [Self::Member, Self::Manager];

    fn as_str(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Manager => "manager",
        }
    }

    fn secret(self, cluster: &ClusterName) -> String {
        match self {
            Self::Member => cluster.member_secret(),
            Self::Manager => cluster.manager_secret(),
        }
    }
}

/// Processes changes of the members' Secrets and of the probes' verdicts, and renews tokens when they are
/// due.
pub(super) async fn run(context: Context) {
    let (mut fleet, mut verdicts) = (context.fleet.clone(), context.verdicts.subscribe());
    let mut enrollments = context.enrollments.subscribe();
    fleet.mark_changed();
    let turns = Arc::new(Semaphore::new(MAX_UNDER_WAY));
    let queue = context.metrics.queue("credentials");
    let mut keeper = Keeper {
        queue,
        turns,
        context,
        kept: HashMap::new(),
        renewing: HashSet::new(),
        under_way: JoinSet::new(),
    };
    let mut wait = Duration::ZERO;
    loop {
        tokio::select! {
            changed = fleet.changed() => match changed {
                Ok(()) => keeper.follow(&fleet.borrow_and_update().clone(), Now::read()),
                Err(_) => return,
            },
            changed = verdicts.changed() => match changed {
                Ok(()) => verdicts.mark_unchanged(),
                Err(_) => return,
            },
            changed = enrollments.changed() => match changed {
                Ok(()) => enrollments.mark_unchanged(),
                Err(_) => return,
            },
            Some(ended) = keeper.under_way.join_next() => match ended {
                Ok(ended) => keeper.ended(ended),
                // The controller ends and is restarted with a new state.
                Err(error) => return warn!(error = %error, "token renewal failed"),
            },
            () = sleep(wait) => {}
        }
        wait = keeper.look(Now::read());
    }
}

struct Keeper {
    context: Context,
    queue: WorkQueue,
    turns: Arc<Semaphore>,
    kept: HashMap<ClusterName, Tracked>,
    /// The tokens whose renewal is running or queued.
    renewing: HashSet<(ClusterName, Which)>,
    under_way: JoinSet<Ended>,
}

/// A finished renewal.
struct Ended {
    cluster: ClusterName,
    which: Which,
    /// The Secret with the token that was to be renewed.
    secret: Arc<Secret>,
    result: Result<Written, Trouble>,
}

/// A member's credentials.
struct Tracked {
    registered: Registered,
    member: Held,
    manager: Held,
    told: Option<Finding>,
}

impl Keeper {
    fn follow(&mut self, fleet: &Fleet, now: Now) {
        let metrics = self.context.metrics.clone();
        self.kept.retain(|cluster, _| {
            fleet.contains_key(cluster) || {
                for which in Which::BOTH {
                    metrics.expires(cluster, which.as_str(), None);
                }
                false
            }
        });
        for (cluster, registered) in fleet {
            let kept = self.kept.entry(cluster.clone()).or_insert_with(|| Tracked {
                registered: registered.clone(),
                member: Held::of(None, now),
                manager: Held::of(None, now),
                told: None,
            });
            kept.registered = registered.clone();
            for (which, held, secret) in [
                (Which::Member, &mut kept.member, &registered.connection),
                (Which::Manager, &mut kept.manager, &registered.manager),
            ] {
                if held.has(secret.as_deref()) {
                    held.secret.clone_from(secret);
                } else {
                    *held = held.followed_by(secret.clone(), now);
                    let ends = held.credential.ends();
                    self.context.metrics.expires(cluster, which.as_str(), ends);
                }
            }
        }
    }

    /// Reports the state of the credentials and starts the due renewals. Returns the time until the next
    /// check.
    fn look(&mut self, now: Now) -> Duration {
        let part = self.context.settings.token_renewal_fraction;
        let mut next = LONGEST;
        let mut due = Vec::new();
        let (verdicts, enrollments) = (self.context.verdicts.borrow(), self.context.enrollments.borrow());
        for (cluster, kept) in &mut self.kept {
            let known = Known {
                cluster,
                registered: &kept.registered,
                member: &kept.member,
                manager: &kept.manager,
                verdict: verdicts.get(cluster),
                not_enrolled: enrollments.get(cluster).map(String::as_str),
                overdue: overdue(part),
                now: now.clock,
            };
            if let Some(finding) = known.finding()
                && kept.told.as_ref() != Some(&finding)
            {
                self.context.conditions.set(cluster, Aspect::CredentialValid, finding.clone());
                kept.told = Some(finding);
            }
            if let Some(Enrollment::Open(until)) = kept.registered.enrollment(now.clock) {
                next = next.min(until.duration_since(now.clock).unsigned_abs());
            }
            for which in Which::BOTH {
                let held = kept.held(which);
                next = held.waits(part, now).fold(next, Duration::min);
                if let Some(token) = held.due(part, now)
                    && kept.manager.credential != Credential::None
                {
                    due.push((cluster.clone(), which, token));
                }
            }
        }
        drop((verdicts, enrollments));
        for (cluster, which, token) in due {
            self.renew(cluster, which, token, now);
        }
        // A short margin, so that the awaited time has passed.
        next + SOON
    }

    fn renew(&mut self, cluster: ClusterName, which: Which, token: Token, now: Now) {
        let Some(kept) = self.kept.get_mut(&cluster) else { return };
        let (Some(secret), Some(manager)) = (kept.held(which).secret.clone(), kept.manager.secret.clone())
        else {
            return;
        };
        if !self.renewing.insert((cluster.clone(), which)) {
            return;
        }
        kept.held_mut(which).not_before = Some(now.steady + UNDER_WAY);
        let tunnels = self.context.tunnels.clone();
        let renewal = Renewal { cluster: cluster.clone(), secret: secret.clone(), token, manager, tunnels };
        let (context, turns, queued) = (self.context.clone(), self.turns.clone(), self.queue.add(now.steady));
        self.under_way.spawn(async move {
            let _turn = turns.acquire().await;
            let work = queued.begin();
            let result = renewal.run(&context.host, &context.namespace).await;
            match &result {
                Ok(Written::Token) => context.metrics.renewed(true),
                Ok(Written::Superseded) => {}
                Err(_) => context.metrics.renewed(false),
            }
            work.done(result.is_err());
            Ended { cluster, which, secret, result }
        });
    }

    fn ended(&mut self, Ended { cluster, which, secret, result }: Ended) {
        self.renewing.remove(&(cluster.clone(), which));
        let Some(kept) = self.kept.get_mut(&cluster) else { return };
        let held = kept.held_mut(which);
        if !held.has(Some(&secret)) {
            return;
        }
        match result {
            // The watch delivers the new token. If it does not, another renewal starts after `not_before`.
            Ok(written) => {
                if written == Written::Token {
                    info!(%cluster, secret = which.secret(&cluster), "renewed a token");
                }
                held.failed = 0;
                held.trouble = None;
            }
            Err(trouble) => {
                let pause = FIRST_PAUSE * 2_u32.pow(held.failed.min(MAX_DOUBLINGS));
                warn!(%cluster, secret = which.secret(&cluster), reason = trouble.reason, error = trouble.message,
                    "cannot renew a token");
                held.failed += 1;
                held.not_before = Some(Instant::now() + retry::jittered(pause.min(LAST_PAUSE)));
                held.trouble = Some(trouble);
            }
        }
    }
}

impl Tracked {
    fn held(&self, which: Which) -> &Held {
        match which {
            Which::Member => &self.member,
            Which::Manager => &self.manager,
        }
    }

    fn held_mut(&mut self, which: Which) -> &mut Held {
        match which {
            Which::Member => &mut self.member,
            Which::Manager => &mut self.manager,
        }
    }
}

/// A later renewal would leave no time to repair the cause of a failure.
pub const MAX_RENEWAL_FRACTION: f64 = 0.9;
/// The maximum number of concurrent renewals.
const MAX_UNDER_WAY: usize = 8;
/// The time after which a renewal has ended and the watch has delivered the result.
const UNDER_WAY: Duration = Duration::from_secs(60);
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LAST_PAUSE: Duration = Duration::from_secs(300);
const MAX_DOUBLINGS: u32 = 6;
/// The longest time between checks, because the clock may be changed.
const LONGEST: Duration = Duration::from_secs(600);
const SOON: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
