//! Resolves the words of a plan on each member. A word may have different versions, and a category different
//! types. A slow member does not delay the others: its request is sent as soon as its types are
//! known.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::cluster::cluster_id::ClusterId;
use tokio::sync::{Semaphore, mpsc, watch};

use super::ask::{Ask, MemberResults};
use super::plan::{GetPlan, Objects};
use crate::multi::direct::discovery::{self, ApiResource, Store};
use crate::multi::direct::failure::MemberFailure;
use crate::multi::direct::member::Member;
use crate::multi::direct::member_types::{self, Meant};
use crate::multi::direct::task::{GRACE, Task};
use crate::multi::ordered_output::{Abort, ForCluster};
use crate::multi::straggler_timer::StragglerTimer;

/// One type on the members that have it, requested in parallel.
pub(super) struct Round {
    /// In the order of the members.
    pub(super) wanted: Vec<Wanted>,
}

/// A request to a member.
#[derive(Clone)]
pub(super) struct Wanted {
    pub(super) place: usize,
    pub(super) member: Member,
    names: Option<Vec<String>>,
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Known(ApiResource),
    /// The type of a word on a slow member. With `name`, only that type; without it, any type of
    /// the word.
    Late {
        meaning: Meaning,
        word: usize,
        name: Option<String>,
    },
}

impl Wanted {
    /// The type, if it is already known.
    pub(super) fn resource(&self) -> Option<&ApiResource> {
        match &self.kind {
            Kind::Known(resource) => Some(resource),
            Kind::Late { .. } => None,
        }
    }

    /// The request, as soon as its type is known; `None` if the member has no such type.
    pub(super) async fn ask(self) -> Result<Option<Ask>, MemberFailure> {
        let Self { place: _, member, names, kind } = self;
        let resource = match kind {
            Kind::Known(resource) => Some(resource),
            Kind::Late { mut meaning, word, name } => {
                let of_word = meaning.wait().await?.into_iter().nth(word).unwrap_or_default();
                match name {
                    Some(name) => of_word.into_iter().find(|resource| resource.qualified() == name),
                    None => single(of_word)?,
                }
            }
        };
        Ok(resource.map(|resource| Ask { member, resource, names }))
    }
}

impl ForCluster for Wanted {
    fn cluster(&self) -> &ClusterId {
        &self.member.name
    }
}

/// The types of the words on a member, once they are known.
#[derive(Clone)]
struct Meaning(watch::Receiver<Option<Meant>>);

impl Meaning {
    fn now(&self) -> Option<Meant> {
        self.0.borrow().clone()
    }

    async fn wait(&mut self) -> Meant {
        let meant = self.0.wait_for(Option::is_some).await.ok().and_then(|meant| meant.clone());
        meant.unwrap_or_else(|| Err(MemberFailure::died()))
    }
}

/// Resolves the types on all members.
pub(super) struct Search<'a> {
    members: &'a [Member],
    /// For each word, the names of the requested objects, if any.
    words: Vec<Option<Vec<String>>>,
    meanings: Vec<Meaning>,
    /// Members with unknown types.
    late: Vec<usize>,
    /// The types that already have a round: the position of the word, and the name of the type.
    seen: Vec<(usize, String)>,
    _running: Vec<Abort<()>>,
}

impl<'a> Search<'a> {
    /// Starts discovery and waits for all members; unless `all` is set, only for the fast ones.
    pub(super) async fn begin(plan: &GetPlan, task: &Task<'_>, members: &'a [Member], all: bool) -> Self {
        let words: Vec<(String, Option<Vec<String>>)> = match &plan.objects {
            Objects::All(types) => types.iter().map(|word| (word.clone(), None)).collect(),
            Objects::Named(named) => {
                runs(named).into_iter().map(|(word, names)| (word, Some(names))).collect()
            }
        };
        let (texts, words): (Vec<String>, Vec<_>) = words.into_iter().unzip();
        let (meanings, running) = lookup(&texts, task, members, all).await;
        let late = (0..members.len()).filter(|place| meanings[*place].now().is_none()).collect();
        Self { members, words, meanings, late, seen: Vec::new(), _running: running }
    }

    /// The rounds, in the order of the words. A member on which a word has no type fails.
    pub(super) fn rounds(&mut self, results: &mut MemberResults) -> VecDeque<Round> {
        let known = (0..self.members.len()).filter_map(|place| Some((place, self.meanings[place].now()?)));
        let known = known.filter(|(place, _)| !self.late.contains(place)).collect();
        self.of(known, results)
    }

    /// The rounds of the types that only slow members have.
    pub(super) async fn rest(&mut self, results: &mut MemberResults) -> VecDeque<Round> {
        let mut late = Vec::new();
        for place in std::mem::take(&mut self.late) {
            late.push((place, self.meanings[place].wait().await));
        }
        self.of(late, results)
    }

    /// The type of the plan's only word on each member.
    pub(super) fn each(&self, results: &mut MemberResults) -> Vec<Wanted> {
        let mut each = Vec::new();
        for (place, meaning) in self.meanings.iter().enumerate() {
            let kind = match meaning.now() {
                None => Kind::Late { meaning: meaning.clone(), word: 0, name: None },
                Some(meant) => {
                    match meant.and_then(|words| single(words.into_iter().next().unwrap_or_default())) {
                        Ok(Some(resource)) => Kind::Known(resource),
                        Ok(None) => continue,
                        Err(failure) => {
                            results.note(place, Err(failure));
                            continue;
                        }
                    }
                }
            };
            each.push(self.wanted(place, 0, kind));
        }
        each
    }

    /// The rounds for types of these members that have none yet.
    fn of(&mut self, members: Vec<(usize, Meant)>, results: &mut MemberResults) -> VecDeque<Round> {
        let mut rounds = VecDeque::new();
        let mut meant = Vec::new();
        for (place, words) in members {
            match words {
                Ok(words) => meant.push((place, words)),
                Err(failure) => results.note(place, Err(failure)),
            }
        }
        for word in 0..self.words.len() {
            let mut names: Vec<String> = Vec::new();
            for resource in meant.iter().flat_map(|(_, words)| words.get(word).into_iter().flatten()) {
                let key = (word, resource.qualified());
                if !self.seen.contains(&key) {
                    names.push(key.1.clone());
                    self.seen.push(key);
                }
            }
            rounds.extend(names.into_iter().map(|name| self.round(word, &name, &meant)));
        }
        rounds
    }

    /// The round of one type: the members that have it, and those with unknown types.
    fn round(&self, word: usize, name: &str, meant: &[(usize, Vec<Vec<ApiResource>>)]) -> Round {
        let known = meant.iter().filter_map(|(place, words)| {
            let resource = words.get(word)?.iter().find(|resource| resource.qualified() == name)?;
            Some(self.wanted(*place, word, Kind::Known(resource.clone())))
        });
        let late = self.late.iter().map(|place| {
            let (meaning, name) = (self.meanings[*place].clone(), Some(name.to_owned()));
            self.wanted(*place, word, Kind::Late { meaning, word, name })
        });
        let mut wanted: Vec<_> = known.chain(late).collect();
        wanted.sort_by_key(|wanted| wanted.place);
        Round { wanted }
    }

    fn wanted(&self, place: usize, word: usize, kind: Kind) -> Wanted {
        let names = self.words.get(word).cloned().flatten();
        Wanted { place, member: self.members[place].clone(), names, kind }
    }
}

/// Resolves the only word of a plan on any member.
#[derive(Clone)]
pub(super) struct LaterWord {
    word: String,
    names: Option<Vec<String>>,
    store: Arc<Store>,
}

impl LaterWord {
    /// Returns `None` if the plan has no word.
    pub(super) fn new(plan: &GetPlan, task: &Task<'_>) -> Option<Self> {
        let (word, names) = match &plan.objects {
            Objects::All(types) => (types.first()?.clone(), None),
            Objects::Named(named) => {
                let (word, name) = named.first()?;
                (word.clone(), Some(vec![name.clone()]))
            }
        };
        Some(Self { word, names, store: Arc::new(Store::open(task.env)) })
    }

    /// The request to a member; `None` if it has no such type.
    pub(super) async fn ask(&self, member: &Member) -> Result<Option<Ask>, MemberFailure> {
        let Self { word, names, store } = self;
        let meant = match discovery::everywhere(word) {
            Some(resource) => vec![resource],
            None => {
                let words = std::slice::from_ref(word);
                member_types::expand(words, member, store).await?.pop().unwrap_or_default()
            }
        };
        let (member, names) = (member.clone(), names.clone());
        Ok(single(meant)?.map(|resource| Ask { member, resource, names }))
    }
}

fn single(mut resources: Vec<ApiResource>) -> Result<Option<ApiResource>, MemberFailure> {
    if resources.len() > 1 {
        // The error text of kubectl.
        return Err(MemberFailure::Said("error: you may only specify a single resource type".to_owned()));
    }
    Ok(resources.pop())
}

/// Groups by type: `pod/a pod/b svc/c` becomes pods a and b, and service c.
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

/// Starts the lookup of the words on each member.
async fn lookup(
    words: &[String],
    task: &Task<'_>,
    members: &[Member],
    all: bool,
) -> (Vec<Meaning>, Vec<Abort<()>>) {
    let everywhere: Option<Vec<_>> =
        words.iter().map(|word| Some(vec![discovery::everywhere(word)?])).collect();
    if let Some(everywhere) = everywhere {
        let known = Meaning(watch::channel(Some(Ok(everywhere))).1);
        return (vec![known; members.len()], Vec::new());
    }
    let way = task.way(members);
    let store = Arc::new(Store::open(task.env));
    let turns = Arc::new(Semaphore::new(way.at_once.max(1)));
    let (told, mut tell) = mpsc::unbounded_channel();
    let asked = members.iter().map(|member| {
        let (sender, meaning) = watch::channel(None);
        let (store, turns, told) = (Arc::clone(&store), Arc::clone(&turns), told.clone());
        let (words, member, progress) = (words.to_vec(), member.clone(), way.progress.clone());
        let work = tokio::spawn(async move {
            let _turn = turns.acquire_owned().await;
            let meant = member_types::expand(&words, &member, &store).await;
            progress.ended(&member.name);
            // The receivers may be gone.
            let _ = (sender.send(Some(meant)), told.send(()));
        });
        (Meaning(meaning), Abort(work))
    });
    let asked: (Vec<Meaning>, Vec<Abort<()>>) = asked.unzip();
    drop(told);
    let mut quiet = StragglerTimer::new(GRACE);
    if tell.recv().await.is_some() {
        loop {
            quiet.moved();
            let next = tell.recv();
            let next = match all {
                true => next.await,
                false => tokio::time::timeout_at(quiet.over(), next).await.ok().flatten(),
            };
            if next.is_none() {
                break;
            }
        }
    }
    asked
}
