//! `kubectl get` on many clusters: the types are looked up at each, then asked for one after the other,
//! each at all clusters at once.

mod list;
mod plan;
mod resolve;
mod table;
mod watch;

use std::ops::ControlFlow;

use serde_json::Value;

pub(crate) use plan::Plan;
use plan::{Objects, Output};

use self::list::{ItemSink, Items};
use self::resolve::Round;
use self::table::{Rows, TableSink};
use super::cells::Shown;
use super::failure::Failure;
use super::member::{Member, Members};
use super::ordered;
use super::{Merge, Task};
use crate::client::ClientError;

/// What is asked of one member in a round.
#[derive(Clone)]
pub(super) struct Ask {
    pub(super) member: Member,
    pub(super) resource: super::discovery::Resource,
    pub(super) names: Option<Vec<String>>,
}

pub(super) async fn run(plan: &Plan, task: &Task<'_>) -> Result<Vec<Result<(), Failure>>, ClientError> {
    let mut members = task.members(if plan.watch { task.clusters.len() } else { 0 }).await?;
    let mut failures: Vec<Option<Failure>> = vec![None; members.all.len()];
    let rounds = resolve::rounds(plan, task, &members.all, &mut failures).await;
    if plan.watch {
        watch(plan, task, &members, rounds, &mut failures).await;
        return Ok(outcomes(failures));
    }
    let mut sink = Sinks::new(plan, task, &rounds);
    for round in &rounds {
        sink.begin(round);
        // Whoever cannot be reached is not asked again.
        let reachable = |place: &usize| !failures[*place].as_ref().is_some_and(Failure::is_of_the_member);
        let asks: Vec<(usize, Ask)> = round
            .resources
            .iter()
            .filter(|(place, _)| reachable(place))
            .map(|(place, resource)| {
                let (member, names) = (members.all[*place].clone(), round.names.clone());
                (*place, Ask { member, resource: resource.clone(), names })
            })
            .collect();
        let results = sink.run(plan, task, &asks).await;
        members.warn(task.printer);
        let Some(results) = results else { return Ok(outcomes(failures)) };
        for ((place, _), failed) in asks.iter().zip(results) {
            if let Some(failure) = failed {
                failures[*place].get_or_insert(failure);
            }
        }
        if sink.end_round().is_break() {
            return Ok(outcomes(failures));
        }
    }
    sink.end(plan, task, &members.all, &rounds, &failures);
    Ok(outcomes(failures))
}

/// The objects of a plan, each with the place of its cluster.
pub(super) async fn objects(
    plan: &Plan,
    task: &Task<'_>,
) -> Result<(Vec<(usize, Value)>, Vec<Result<(), Failure>>), ClientError> {
    let mut members = task.members(0).await?;
    let mut failures: Vec<Option<Failure>> = vec![None; members.all.len()];
    let rounds = resolve::rounds(plan, task, &members.all, &mut failures).await;
    let namespace = (!plan.all_namespaces).then(|| task.namespace(plan.namespace.as_deref()));
    let source = list::Source::new(plan, namespace);
    let mut found = Found::default();
    for round in rounds {
        found.places = round.resources.iter().map(|(place, _)| *place).collect();
        let asks: Vec<_> = round
            .resources
            .into_iter()
            .map(|(place, resource)| Ask {
                member: members.all[place].clone(),
                resource,
                names: round.names.clone(),
            })
            .collect();
        let fetch = |ask, sender| list::values(source.clone(), ask, sender);
        let results = ordered::run(asks, task.at_once(), fetch, &mut found).await.unwrap_or_default();
        for (place, failed) in found.places.iter().zip(results) {
            if let Some(failure) = failed.flatten() {
                failures[*place].get_or_insert(failure);
            }
        }
    }
    members.warn(task.printer);
    Ok((found.objects, outcomes(failures)))
}

/// Objects as they come.
#[derive(Default)]
struct Found {
    places: Vec<usize>,
    objects: Vec<(usize, Value)>,
}

impl ordered::Sink<Vec<Value>> for Found {
    fn take(&mut self, at: usize, objects: Vec<Value>) -> ControlFlow<()> {
        let place = self.places.get(at).copied().unwrap_or_default();
        self.objects.extend(objects.into_iter().map(|object| (place, object)));
        ControlFlow::Continue(())
    }
}

/// Watches at every member what its word means there: one type.
async fn watch(
    plan: &Plan,
    task: &Task<'_>,
    members: &Members,
    rounds: Vec<Round>,
    failures: &mut [Option<Failure>],
) {
    let mut asks: Vec<(usize, Ask)> = Vec::new();
    for Round { resources, names } in rounds {
        for (place, resource) in resources {
            if asks.iter().any(|(other, _)| *other == place) {
                // kubectl's own words.
                let several = "error: you may only specify a single resource type";
                failures[place].get_or_insert_with(|| Failure::Said(several.to_owned()));
                continue;
            }
            asks.push((place, Ask { member: members.all[place].clone(), resource, names: names.clone() }));
        }
    }
    asks.retain(|(place, _)| failures[*place].is_none());
    let Output::Table(columns) = &plan.output else { return };
    let shown = Shown { columns: columns.clone(), namespace: plan.all_namespaces, prefix: None };
    let namespace = (!plan.all_namespaces).then(|| task.namespace(plan.namespace.as_deref()));
    let source = list::Source::new(plan, namespace);
    for (place, failure) in watch::run(asks, &source, &shown, task).await {
        failures[place] = Some(failure);
    }
}

fn outcomes(failures: Vec<Option<Failure>>) -> Vec<Result<(), Failure>> {
    failures.into_iter().map(|failure| failure.map_or(Ok(()), Err)).collect()
}

/// Who takes the answers.
enum Sinks<'a> {
    Table(TableSink<'a>),
    Items(ItemSink<'a>),
}

impl<'a> Sinks<'a> {
    fn new(plan: &Plan, task: &'a Task<'_>, rounds: &[Round]) -> Self {
        match &plan.output {
            Output::Table(columns) => {
                let mut kinds: Vec<_> = rounds
                    .iter()
                    .flat_map(|round| &round.resources)
                    .map(|(_, r)| (&r.group, &r.version, &r.kind))
                    .collect();
                kinds.sort_unstable();
                kinds.dedup();
                let shown = Shown { columns: columns.clone(), namespace: plan.all_namespaces, prefix: None };
                Self::Table(TableSink::new(task, shown, kinds.len() > 1))
            }
            output => {
                let single = matches!(&plan.objects, Objects::Named(names) if names.len() == 1);
                Self::Items(ItemSink::new(task, output, single && task.merge == Merge::Plain))
            }
        }
    }

    fn begin(&mut self, round: &Round) {
        if let Self::Table(sink) = self {
            sink.begin(round);
        }
    }

    /// Asks, and gives what failed; none when nobody reads any more.
    async fn run(
        &mut self,
        plan: &Plan,
        task: &Task<'_>,
        asks: &[(usize, Ask)],
    ) -> Option<Vec<Option<Failure>>> {
        let asks: Vec<Ask> = asks.iter().map(|(_, ask)| ask.clone()).collect();
        let namespace = (!plan.all_namespaces).then(|| task.namespace(plan.namespace.as_deref()));
        let source = list::Source::new(plan, namespace);
        let results = match self {
            Self::Table(sink) => {
                let rows = Rows { source, shown: sink.shown() };
                sink.names(&asks);
                ordered::run(asks, task.at_once(), |ask, sender| rows.clone().fetch(ask, sender), sink).await
            }
            Self::Items(sink) => {
                let items = Items {
                    source,
                    form: sink.form(),
                    merge: task.merge,
                    managed_fields: plan.managed_fields,
                    width: task.clusters.iter().map(|name| name.as_str().len()).max().unwrap_or(0),
                };
                ordered::run(asks, task.at_once(), |ask, sender| items.clone().fetch(ask, sender), sink).await
            }
        };
        let died = || Some(Failure::Said("it was not asked to the end".to_owned()));
        Some(results?.into_iter().map(|result| result.unwrap_or_else(died)).collect())
    }

    fn end_round(&mut self) -> ControlFlow<()> {
        match self {
            Self::Table(sink) => sink.end_round(),
            Self::Items(_) => ControlFlow::Continue(()),
        }
    }

    fn end(
        &mut self,
        plan: &Plan,
        task: &Task<'_>,
        members: &[Member],
        rounds: &[Round],
        failures: &[Option<Failure>],
    ) {
        match self {
            Self::Items(sink) => {
                let named = members
                    .iter()
                    .zip(failures)
                    .filter_map(|(member, failure)| Some((member.name.as_str(), failure.as_ref()?)));
                sink.end(named);
            }
            // As kubectl: when there was no error, and nothing was written.
            Self::Table(sink)
                if sink.wrote_nothing() && failures.iter().all(Option::is_none) && !plan.ignore_not_found =>
            {
                let mut resources = rounds.iter().flat_map(|round| &round.resources);
                if !plan.all_namespaces && resources.all(|(_, resource)| resource.namespaced) {
                    let namespace = task.namespace(plan.namespace.as_deref());
                    task.printer.note(&format!("No resources found in {namespace} namespace.\n"));
                } else {
                    task.printer.note("No resources found\n");
                }
            }
            Self::Table(_) => {}
        }
    }
}
