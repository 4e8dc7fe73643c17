//! Checks contexts of the kubeconfig (`doctor --contexts`): the files, entries that another file hides, and for each
//! context a request, the login, the clock and streams.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::report::{Finding, Kind, Section};
use super::{Doctor, capitalized, host, machine, member, streams, within};
use crate::argv::Scanned;
use crate::cluster::client;
use crate::cluster::cluster_id::ClusterId;
use crate::cluster::context::{self, ClusterContext, Contexts};
use crate::cluster::shared_credentials::SharedCredentials;
use crate::config_file;
use crate::env::Env;
use crate::error::{Failure, mc};
use crate::kubectl::exec;
use crate::multi::selection::{Choice, ListOf, SelectedCluster};
use crate::next_command::GivenFlags;
use crate::progress::Progress;
use crate::settings::Settings;

impl Doctor<'_> {
    /// Checks this machine, the kubeconfig, and the chosen contexts.
    pub(super) fn examine_contexts(&mut self, settings: &Settings) -> Result<(), Failure> {
        let env = self.env;
        self.add(Section::new(Kind::Machine, "This machine", machine::check(self.kubectl.as_ref(), env)));
        let mut findings = Vec::new();
        let chosen = chosen(settings, env, &mut findings);
        self.add(Section::new(Kind::Kubeconfig, "Kubeconfig", findings));
        let limit = settings.fleet.timeout(true);
        let context = CheckContext {
            credentials: SharedCredentials::default(),
            kubectl_minor: self.kubectl.as_ref().ok().and_then(machine::KubectlFound::minor),
            with_streams: !self.arguments.no_streams,
            limit,
            env: env.clone(),
        };
        let concurrency = settings.fleet.concurrency.map_or(super::CONCURRENCY, std::num::NonZeroUsize::get);
        let sections = {
            let _step = Progress::new(self.printer).step(&format!("Checking {} contexts", chosen.len()));
            client::runtime()?.block_on(check_all(&context, &chosen, concurrency))
        };
        for section in sections {
            self.add(section);
        }
        Ok(())
    }
}

/// The chosen contexts, and the findings about their files.
fn chosen(settings: &Settings, env: &Env, findings: &mut Vec<Finding>) -> Vec<ClusterId> {
    let problem = |check, failure: Failure| {
        let fix = failure.hint.clone().unwrap_or_else(super::read_kubeconfig);
        Finding::problem(check, failure.to_string(), Some(fix))
    };
    let Contexts { all, skipped, unusable } = match context::contexts(&settings.host, env) {
        Ok(contexts) => contexts,
        Err(error) => {
            findings.push(problem("files", error.into()));
            return Vec::new();
        }
    };
    let count = all.iter().filter(|context| context.cluster.check_usable().is_ok()).count();
    findings
        .push(Finding::ok("files", format!("{count} {}", if count == 1 { "context" } else { "contexts" })));
    findings.extend(skipped.into_iter().map(|skipped| Finding::skipped("files", skipped)));
    findings.extend(unusable.into_iter().map(|error| problem("entries", error.into())));
    let collisions = context::collisions(&settings.host, env).unwrap_or_default();
    let apart = GivenFlags::new(None, None).with_dirs(&context::kept_apart(&collisions));
    findings.extend(collisions.iter().map(|collision| {
        let fix = format!("read each file alone: {} clusters --contexts", apart.kubectl_mc());
        Finding::warning("names", collision.to_string(), fix)
    }));
    let all = SelectedCluster::of_contexts(all);
    let every = || Choice::parse_contexts::<&str>(&[], &[], None, true).ok().flatten().unwrap_or_default();
    let choice = settings.choice.clone().unwrap_or_else(every);
    let chosen = choice.resolve(&settings.sets, &mut |from: &ListOf| match from {
        ListOf::Contexts => Ok(all.clone()),
        // The members of a set are not contexts.
        ListOf::Members(_) => Ok(Vec::new()),
    });
    match chosen {
        Ok(chosen) => chosen.names().filter(|name| name.context().is_some()).cloned().collect(),
        Err(error) => {
            findings.push(problem("contexts", error.in_file(config_file::path(env)).into()));
            Vec::new()
        }
    }
}

/// The input of the checks of every context.
#[derive(Clone)]
struct CheckContext {
    credentials: SharedCredentials,
    kubectl_minor: Option<u32>,
    with_streams: bool,
    limit: Option<Duration>,
    env: Env,
}

/// Checks all contexts in parallel; the results are in the chosen order.
async fn check_all(context: &CheckContext, chosen: &[ClusterId], concurrency: usize) -> Vec<Section> {
    let free = Arc::new(Semaphore::new(concurrency));
    let mut checks = JoinSet::new();
    for (place, id) in chosen.iter().cloned().enumerate() {
        let (context, free) = (context.clone(), Arc::clone(&free));
        checks.spawn(async move {
            let _permit = free.acquire_owned().await;
            let mut findings = Vec::new();
            if within(context.limit, check(&context, &id, &mut findings)).await.is_err() {
                let fix =
                    mc(format!("doctor --contexts -C {id} --cluster-timeout=DURATION")).after("wait longer");
                let limit = context.limit.unwrap_or_default().as_secs();
                findings.push(Finding::problem("request", format!("no answer within {limit} s"), Some(fix)));
            }
            (place, Section::new(Kind::Cluster, id.as_str(), findings))
        });
    }
    let mut sections = checks.join_all().await;
    sections.sort_by_key(|(place, _)| *place);
    sections.into_iter().map(|(_, section)| section).collect()
}

/// Stops at the first check without which the others cannot work.
async fn check(context: &CheckContext, id: &ClusterId, findings: &mut Vec<Finding>) {
    let Some(cluster) = id.context().map(|context| &context.cluster) else { return };
    let CheckContext { credentials, kubectl_minor, with_streams, limit, env } = context;
    if let Err(failure) = cluster.check_usable() {
        findings.push(Finding::problem("kubeconfig", failure.to_string(), failure.hint));
        return;
    }
    let scanned = Scanned::default();
    let connected = async {
        let cluster = credentials.obtain(cluster, &scanned, env, *limit).await?;
        client::connection(&cluster, &scanned, env).await
    };
    let client = match connected.await {
        Ok(client) => client,
        Err(error) => {
            findings.push(unreached(cluster, &error));
            return;
        }
    };
    let begin = Instant::now();
    let reply = match client::get_by(&client, "/version", "application/json").await {
        Ok(reply) => reply,
        Err(error) => {
            findings.push(unreached(cluster, &error));
            return;
        }
    };
    let took = begin.elapsed().as_millis();
    if reply.status == http::StatusCode::UNAUTHORIZED || reply.status.is_server_error() {
        let message = format!("GET /version: {}: {}", reply.status.as_u16(), reply.message());
        let fix = format!("compare with: {} get --raw /version", cluster.kubectl());
        findings.push(Finding::problem("request", message, Some(fix)));
        return;
    }
    let answer = reply.json();
    let version = answer["gitVersion"].as_str().map(crate::server_text::ServerText::from);
    findings.push(match &version {
        Some(version) => Finding::ok("request", format!("Kubernetes {version} in {took} ms")),
        // Some clusters show their version only to administrators.
        None => Finding::ok("request", format!("answers in {took} ms")),
    });
    findings.push(host::login(cluster, &client, "cluster").await);
    findings.extend(reply.date.map(|there| host::clock(Timestamp::now(), there, "cluster")));
    let minor = version.as_ref().and_then(|version| exec::minor(version.raw()));
    findings.extend(version.as_ref().and_then(|version| member::skew(*kubectl_minor, minor, version)));
    if *with_streams {
        let target = streams::Target {
            root: String::new(),
            namespace: cluster.namespace.clone(),
            explain: format!("try: {} auth can-i create pods/portforward", cluster.kubectl()),
        };
        findings.push(streams::check(&target, &client, minor).await);
    }
}

fn unreached(cluster: &ClusterContext, error: &client::ClientError) -> Finding {
    Finding::problem("request", capitalized(&host::reason(error)), Some(host::reach(cluster, error)))
}
