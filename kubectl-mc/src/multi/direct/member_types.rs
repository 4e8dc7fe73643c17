//! Resolves the types of a member from the cache or from the member's discovery.

mod legacy;

use super::answer::parse;
use super::discovery::{ApiResource, Discovery, Document, NoSuchType, Store};
use super::member::Member;
use crate::multi::fault::Fault;

/// For each word, its types.
pub(super) type Meant = Result<Vec<Vec<ApiResource>>, Fault>;

/// Resolves the words of `get` to types of a member. Words that are not in the cache are looked up on the
/// member.
pub(super) async fn expand(words: &[String], member: &Member, store: &Store) -> Meant {
    let expand = |types: &Discovery| {
        let expand = |word: &String| Ok((types.expand(word)?, types.also_matching(word)));
        words.iter().map(expand).collect()
    };
    let meant: Result<Vec<_>, NoSuchType> = look_up(member, store, expand).await?;
    let meant =
        meant.map_err(|error| Fault::Said { words: error.to_string(), cause: "no such resource type" })?;
    let mut types = Vec::new();
    for (word, (of_word, also)) in words.iter().zip(meant) {
        let short = word.split('.').next().unwrap_or_default();
        for other in also {
            // The text of kubectl.
            let warning = format!("short name {short:?} could also match lower priority resource {other}");
            member.warn(warning.into());
        }
        types.push(of_word);
    }
    Ok(types)
}

/// Resolves a word to a type of a member, if it is one.
pub(super) async fn resolve(
    word: &str,
    member: &Member,
    store: &Store,
) -> Result<Option<ApiResource>, Fault> {
    Ok(look_up(member, store, |types| types.resolve(word).cloned()).await?.ok())
}

async fn look_up<T>(
    member: &Member,
    store: &Store,
    find: impl Fn(&Discovery) -> Result<T, NoSuchType>,
) -> Result<Result<T, NoSuchType>, Fault> {
    let key = &member.discovery;
    if let Some(Ok(found)) = store.load(key).map(|known| find(&known)) {
        return Ok(Ok(found));
    }
    let discovery = fetch(member).await?;
    store.keep(key, &discovery);
    Ok(find(&discovery))
}

async fn fetch(member: &Member) -> Result<Discovery, Fault> {
    let (core, groups) =
        tokio::join!(member.get("/api", Document::ACCEPT), member.get("/apis", Document::ACCEPT));
    let (core, groups) = (core?, groups?);
    let (core_types, group_types) = (parse::<Document>(&core)?, parse::<Document>(&groups)?);
    if core_types.is_aggregated() && group_types.is_aggregated() {
        return Ok(core_types.resources().chain(group_types.resources()).collect());
    }
    legacy::ask(member, &core, &groups).await
}
