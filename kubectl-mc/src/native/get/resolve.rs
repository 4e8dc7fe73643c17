//! Which types the words of a plan mean at each member. The same word may mean different versions, and
//! a category different types.

use super::plan::{Objects, Plan};
use crate::cache::Cache;
use crate::native::Task;
use crate::native::discovery::{self, Discovery, Document, NoSuchType, Resource, Store};
use crate::native::failure::Failure;
use crate::native::member::Member;
use crate::native::ordered::{self, Sink};

/// One type, at the members that have it: what is asked at the same time.
#[derive(Debug)]
pub(super) struct Round {
    /// The members' places, and the type there.
    pub(super) resources: Vec<(usize, Resource)>,
    /// These objects only.
    pub(super) names: Option<Vec<String>>,
}

/// The rounds of a plan, in the order of its words. Members at which a word means nothing have failed.
pub(super) async fn rounds(
    plan: &Plan,
    task: &Task<'_>,
    members: &[Member],
    failures: &mut [Option<Failure>],
) -> Vec<Round> {
    let words = match &plan.objects {
        Objects::All(types) => types.clone(),
        Objects::Named(named) => runs(named).into_iter().map(|(word, _)| word).collect(),
    };
    let found = lookup(&words, task, members).await;
    let mut meant: Vec<Vec<Vec<Resource>>> = Vec::with_capacity(members.len());
    for (found, failure) in found.into_iter().zip(failures.iter_mut()) {
        meant.push(found.unwrap_or_else(|failed| {
            *failure = Some(failed);
            Vec::new()
        }));
    }
    match &plan.objects {
        Objects::All(types) => (0..types.len()).flat_map(|at| of_word(&meant, at)).collect(),
        Objects::Named(named) => {
            let runs = runs(named).into_iter().enumerate();
            runs.flat_map(|(at, (_, names))| {
                of_word(&meant, at)
                    .into_iter()
                    .map(move |round| Round { names: Some(names.clone()), ..round })
            })
            .collect()
        }
    }
}

/// The rounds of the word at this place: one for each type that it means anywhere.
fn of_word(meant: &[Vec<Vec<Resource>>], at: usize) -> Vec<Round> {
    let mut rounds: Vec<(String, Round)> = Vec::new();
    for (place, words) in meant.iter().enumerate() {
        for resource in words.get(at).into_iter().flatten() {
            let name = resource.qualified();
            let entry = (place, resource.clone());
            match rounds.iter_mut().find(|(other, _)| *other == name) {
                Some((_, round)) => round.resources.push(entry),
                None => rounds.push((name, Round { resources: vec![entry], names: None })),
            }
        }
    }
    rounds.into_iter().map(|(_, round)| round).collect()
}

/// `pod/a pod/b svc/c` is two runs: pods a and b, service c.
fn runs(named: &[(String, String)]) -> Vec<(String, Vec<String>)> {
    let mut runs: Vec<(String, Vec<String>)> = Vec::new();
    for (word, name) in named {
        match runs.last_mut() {
            Some((last, names)) if last == word => names.push(name.clone()),
            _ => runs.push((word.clone(), vec![name.clone()])),
        }
    }
    runs
}

type Meant = Result<Vec<Vec<Resource>>, Failure>;

/// What each word means at each member.
async fn lookup(words: &[String], task: &Task<'_>, members: &[Member]) -> Vec<Meant> {
    let everywhere: Option<Vec<_>> =
        words.iter().map(|word| Some(vec![discovery::everywhere(word)?])).collect();
    if let Some(everywhere) = everywhere {
        return members.iter().map(|_| Ok(everywhere.clone())).collect();
    }
    let store = Store::new(Cache::open(task.env).ok());
    let known: Vec<_> = members.iter().map(|member| store.load(task.host, &member.name)).collect();
    let asks: Vec<_> = members.iter().cloned().zip(known).collect();
    let words = words.to_vec();
    let mut nothing = Nothing;
    let found = ordered::run(
        asks,
        task.at_once(),
        |(member, known), _| {
            let words = words.clone();
            async move { at_member(&words, &member, known).await }
        },
        &mut nothing,
    );
    let found = found.await.unwrap_or_default().into_iter();
    found
        .zip(members)
        .map(|(found, member)| {
            let (meant, asked) =
                found.unwrap_or_else(|| (Err(Failure::Said("discovery failed".to_owned())), None));
            if let Some(discovery) = asked {
                store.keep(task.host, &member.name, &discovery);
            }
            meant
        })
        .collect()
}

/// What the words mean at a member, and its discovery when it was asked for it.
async fn at_member(
    words: &[String],
    member: &Member,
    known: Option<Discovery>,
) -> (Meant, Option<Discovery>) {
    if let Some(Ok(meant)) = known.map(|known| all(words, &known)) {
        return (Ok(meant), None);
    }
    match ask(member).await {
        Ok(discovery) => {
            let meant = all(words, &discovery).map_err(|error| Failure::Said(format!("error: {error}")));
            (meant, Some(discovery))
        }
        Err(failure) => (Err(failure), None),
    }
}

fn all(words: &[String], discovery: &Discovery) -> Result<Vec<Vec<Resource>>, NoSuchType> {
    words.iter().map(|word| discovery.expand(word)).collect()
}

async fn ask(member: &Member) -> Result<Discovery, Failure> {
    let (core, groups) =
        tokio::join!(member.get("/api", Document::ACCEPT), member.get("/apis", Document::ACCEPT));
    let parse = |body: &[u8]| {
        let document: Document = crate::native::cells::parse(body)?;
        if document.is_aggregated() {
            return Ok(document);
        }
        Err(Failure::Said("it is older than Kubernetes 1.27: it has no aggregated discovery".to_owned()))
    };
    let (core, groups) = (parse(&core?)?, parse(&groups?)?);
    Ok(core.resources().chain(groups.resources()).collect())
}

/// Discovery is not shown.
struct Nothing;

impl Sink<()> for Nothing {
    fn take(&mut self, _: usize, (): ()) -> std::ops::ControlFlow<()> {
        std::ops::ControlFlow::Continue(())
    }
}
