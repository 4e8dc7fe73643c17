//! Implements `kubectl get` on many clusters: resolves the types on each, then requests one type after the
//! other from all clusters in parallel. kubectl sorts and prints templates ([`union`]).

mod ask;
mod list;
mod plan;
mod resolve;
mod table;
mod union;
mod watch;

use std::collections::VecDeque;
use std::future::Future;
use std::ops::ControlFlow;

use serde_json::Value;

pub(crate) use plan::GetPlan;
pub(crate) use plan::NDJSON;
use plan::{Objects, Output};

use self::ask::{Ask, MemberResults};
use self::list::{ItemSink, Items};
use self::resolve::{Round, Search, Wanted};
use self::table::{Rows, TableSink};
pub(super) use self::union::GetError;
use super::lasting::SPARE;
use super::member::Member;
use super::member_deadline::MemberDeadline;
use super::printing::PrintError;
use super::server_table::Shown;
use super::task::{Ended, Merge, Task};
use super::text::Text;
use crate::cluster::client::ClientError;
use crate::multi::fault::Fault;
use crate::multi::ordered_output::{self, Sink};

pub(super) async fn run(
    plan: &GetPlan,
    task: &Task<'_>,
    text: &mut dyn Text,
) -> Result<Vec<Ended>, GetError> {
    if plan.watch {
        // Additional streams follow the clusters themselves and clusters that join.
        let mut members = task.members(task.clusters.len() + SPARE, MemberDeadline::each).await?;
        return Ok(watch::run(plan, task, &mut members, text).await);
    }
    let is_table = matches!(plan.output, Output::Table(_));
    let results = match plan.needs_kubectl() && !is_table {
        true => union::run(plan, task, text).await?,
        false => list_all(plan, task, text).await?,
    };
    Ok(task.named(results))
}

async fn list_all(
    plan: &GetPlan,
    task: &Task<'_>,
    text: &mut dyn Text,
) -> Result<Vec<Result<(), Fault>>, GetError> {
    let mut members = task.members(0, MemberDeadline::whole).await?;
    let mut results = MemberResults::new(members.all.len());
    let all = members.all.clone();
    let mut search = Search::begin(plan, task, &all, false).await;
    let mut rounds = search.rounds(&mut results);
    let mut sink = Sinks::new(plan, task, &rounds);
    let mut namespaced = true;
    loop {
        if rounds.is_empty() {
            rounds = search.rest(&mut results).await;
        }
        let Some(round) = rounds.pop_front() else { break };
        namespaced &= round.wanted.iter().flat_map(Wanted::resource).all(|resource| resource.namespaced);
        sink.begin();
        // No further request goes to an unreachable member.
        let reachable = |place: usize| !results.failure(place).is_some_and(Fault::is_of_the_member);
        let wanted: Vec<_> = round.wanted.into_iter().filter(|wanted| reachable(wanted.place)).collect();
        let places: Vec<_> = wanted.iter().map(|wanted| wanted.place).collect();
        let round = sink.run(plan, task, wanted).await;
        members.warn(task.printer);
        // Standard output was closed.
        let Some(round) = round else { return Ok(results.0) };
        for (place, result) in places.into_iter().zip(round) {
            results.note(place, result);
        }
        if let Err(error) = sink.sort(plan, task).await {
            union::failed(task, text, &results);
            return Err(GetError::Print(error));
        }
        if sink.end_round().is_break() {
            return Ok(results.0);
        }
    }
    sink.end(plan, task, &members.all, namespaced, &results);
    Ok(results.0)
}

/// The objects of a plan, each with the position of its cluster.
pub(super) async fn objects(
    plan: &GetPlan,
    task: &Task<'_>,
) -> Result<(Vec<(usize, Value)>, Vec<Result<(), Fault>>), ClientError> {
    let mut members = task.members(0, MemberDeadline::whole).await?;
    let mut results = MemberResults::new(members.all.len());
    let all = members.all.clone();
    let mut search = Search::begin(plan, task, &all, true).await;
    let mut found = Found::default();
    let mut rounds = search.rounds(&mut results);
    rounds.extend(search.rest(&mut results).await);
    for Round { wanted } in rounds {
        found.places = wanted.iter().map(|wanted| wanted.place).collect();
        let fetch = |wanted, sender| {
            let source = plan.source.clone();
            asked(wanted, |ask| list::values(source, ask, sender))
        };
        let way = task.way(&wanted);
        let round = ordered_output::run(wanted, &way, fetch, &mut found).await;
        // The sink never breaks.
        for (place, result) in found.places.iter().zip(round.into_iter().flatten()) {
            results.note(*place, result);
        }
    }
    members.warn(task.printer);
    Ok((found.objects, results.0))
}

/// Collects objects as they arrive.
#[derive(Default)]
struct Found {
    places: Vec<usize>,
    objects: Vec<(usize, Value)>,
}

impl Sink<Vec<Value>> for Found {
    fn take(&mut self, at: usize, objects: Vec<Value>) -> ControlFlow<()> {
        let place = self.places.get(at).copied().unwrap_or_default();
        self.objects.extend(objects.into_iter().map(|object| (place, object)));
        ControlFlow::Continue(())
    }
}

/// Sends the request as soon as its type on the member is known.
async fn asked<F: Future<Output = Result<(), Fault>>>(
    wanted: Wanted,
    fetch: impl FnOnce(Ask) -> F,
) -> Result<(), Fault> {
    match wanted.ask().await? {
        Some(ask) => fetch(ask).await,
        // The member has no such type; the words are known to have one on some member.
        None => Ok(()),
    }
}

/// The receivers of the responses.
enum Sinks<'a> {
    Table(TableSink<'a>),
    Items(ItemSink<'a>),
}

impl<'a> Sinks<'a> {
    fn new(plan: &GetPlan, task: &'a Task<'_>, rounds: &VecDeque<Round>) -> Self {
        match &plan.output {
            Output::Table(columns) => {
                let mut kinds: Vec<_> = rounds
                    .iter()
                    .flat_map(|round| round.wanted.iter().filter_map(Wanted::resource))
                    .map(|r| (&r.group, &r.version, &r.kind))
                    .collect();
                kinds.sort_unstable();
                kinds.dedup();
                let shown =
                    Shown { columns: columns.clone(), namespace: plan.source.all_namespaces, prefix: None };
                Self::Table(TableSink::new(task, shown, kinds.len() > 1))
            }
            output => {
                let single = matches!(&plan.objects, Objects::Named(names) if names.len() == 1);
                Self::Items(ItemSink::new(task, output, single && task.merge == Merge::Plain))
            }
        }
    }

    fn begin(&mut self) {
        if let Self::Table(sink) = self {
            sink.begin();
        }
    }

    /// Sends the requests and returns the results; `None` when standard output is closed.
    async fn run(
        &mut self,
        plan: &GetPlan,
        task: &Task<'_>,
        wanted: Vec<Wanted>,
    ) -> Option<Vec<Result<(), Fault>>> {
        let source = plan.source.clone();
        let way = task.way(&wanted);
        match self {
            Self::Table(sink) => {
                let rows = Rows { source, shown: sink.shown() };
                sink.hold_back(plan.sort_by.is_some());
                sink.names(&wanted);
                let fetch = |wanted, sender| {
                    let rows = rows.clone();
                    asked(wanted, |ask| rows.fetch(ask, sender))
                };
                ordered_output::run(wanted, &way, fetch, sink).await
            }
            Self::Items(sink) => {
                let items = Items {
                    source,
                    form: sink.form(),
                    merge: task.merge,
                    managed_fields: plan.managed_fields,
                    width: task.width(),
                };
                let fetch = |wanted, sender| {
                    let items = items.clone();
                    asked(wanted, |ask| items.fetch(ask, sender))
                };
                ordered_output::run(wanted, &way, fetch, sink).await
            }
        }
    }

    /// Sorts the rows of a round by `--sort-by`.
    async fn sort(&mut self, plan: &GetPlan, task: &Task<'_>) -> Result<(), PrintError> {
        match (self, &plan.sort_by) {
            (Self::Table(sink), Some(field)) => sink.sort(field, task).await,
            _ => Ok(()),
        }
    }

    fn end_round(&mut self) -> ControlFlow<()> {
        match self {
            Self::Table(sink) => sink.end_round(),
            Self::Items(_) => ControlFlow::Continue(()),
        }
    }

    fn end(
        &mut self,
        plan: &GetPlan,
        task: &Task<'_>,
        members: &[Member],
        namespaced: bool,
        results: &MemberResults,
    ) {
        match self {
            Self::Items(sink) => {
                sink.end(task.faults(&results.0));
            }
            // As in kubectl, if there was no error and no output.
            Self::Table(sink)
                if sink.wrote_nothing()
                    && results.0.iter().all(Result::is_ok)
                    && !plan.source.ignore_not_found =>
            {
                // Contexts may have different namespaces.
                let mut names: Vec<_> =
                    members.iter().map(|member| member.namespace(plan.source.namespace.as_deref())).collect();
                names.dedup();
                if let ([namespace], true) = (names.as_slice(), !plan.source.all_namespaces && namespaced) {
                    task.printer.note_line(&format!("No resources found in {namespace} namespace."));
                } else {
                    task.printer.note("No resources found\n");
                }
            }
            Self::Table(_) => {}
        }
    }
}
