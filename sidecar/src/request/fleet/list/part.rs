//! One member's part of a merged list: at most one of its objects is in memory.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::Question;
use crate::fleet::items::{self, Items};
use crate::fleet::renamer::{Renamer, Shown};
use crate::fleet::shares::{First, Share};
use crate::request::fleet::ask::{Answer, Asker, STALL};
use crate::request::fleet::failures::Failure;
use crate::request::fleet::members::Member;

pub(super) enum Piece {
    /// Renamed.
    Item(Bytes, Option<String>),
    /// The list without its items, or why it ends early. The flag is true if the transport failed.
    End(Result<Value, (Failure, bool)>),
}

/// The task of one member.
pub(super) struct Ask {
    asker: Asker,
    member: Member,
    question: Arc<Question>,
    version: String,
    renamer: Renamer,
}

impl Ask {
    pub(super) fn new(
        asker: Asker,
        member: Member,
        question: Arc<Question>,
        version: String,
        shown: Shown,
    ) -> Self {
        let renamer = Renamer::new(member.name.clone(), question.of, shown);
        Self { asker, member, question, version, renamer }
    }

    /// Tells how its head went, then sends the items one after another.
    pub(super) async fn run(
        mut self,
        turns: Arc<Semaphore>,
        head: oneshot::Sender<Result<(), Failure>>,
        pieces: mpsc::Sender<Piece>,
    ) {
        let Ok(turn) = turns.acquire().await else { return };
        let query = format!("{}{}", self.version, self.question.selectors);
        let answered = self.asker.get(&self.member, &self.question.path, query.trim_start_matches('&')).await;
        drop(turn);
        let answer = match answered {
            Ok(answer) if answer.is_json() => answer,
            Ok(_) => {
                let failure =
                    Failure::new(&self.member.name, StatusCode::BAD_GATEWAY, "the answer is not JSON");
                let _ = head.send(Err(failure));
                return;
            }
            Err(failure) => {
                let _ = head.send(Err(failure));
                return;
            }
        };
        if head.send(Ok(())).is_ok() {
            let Ok(memory) = self.asker.memory.hold(self.asker.caller, 0, First::Largest) else { return };
            let over = memory.over().clone();
            // Cancel-safe: what is dropped ends this member's part.
            let end = tokio::select! {
                biased;
                () = over.cancelled() => Err((self.full(), false)),
                end = self.items(answer, &pieces, &memory) => end,
            };
            let _ = pieces.send(Piece::End(end)).await;
        }
    }

    async fn items(
        &mut self,
        mut answer: Answer,
        pieces: &mpsc::Sender<Piece>,
        memory: &Share,
    ) -> Result<Value, (Failure, bool)> {
        let failed = |error: items::Error| {
            (Failure::new(&self.member.name, StatusCode::BAD_GATEWAY, error.to_string()), false)
        };
        let mut list = Items::default();
        while let Some(data) = answer.next(&self.member, STALL).await.map_err(|failure| (failure, true))? {
            let mut ready = Vec::new();
            let (renamer, is_merged) = (&mut self.renamer, self.question.is_merged);
            // A piece of a body is at most 64 KiB, and so are its objects together with one that it completes.
            list.push(&data, |list, item| {
                let key = is_merged.then(|| key(item)).flatten();
                ready.push((renamer.element(list, item)?, key));
                Ok(())
            })
            .map_err(failed)?;
            let held = list.held() + ready.iter().map(|(item, _)| item.len()).sum::<usize>();
            memory.resize(held, First::Largest).map_err(|_| (self.full(), false))?;
            for (item, key) in ready {
                let item = memory.count(item, memory.over()).map_err(|_| (self.full(), false))?;
                if pieces.send(Piece::Item(item, key)).await.is_err() {
                    return Err(failed(items::Error::Early));
                }
            }
        }
        list.finish().map_err(failed)
    }

    fn full(&self) -> Failure {
        let message = "its objects are too large to wait for the client";
        Failure::new(&self.member.name, StatusCode::BAD_GATEWAY, message)
    }
}

/// The name by which objects of several members are one.
fn key(item: &[u8]) -> Option<String> {
    let item: Value = serde_json::from_slice(item).ok()?;
    let metadata = item.get("metadata").or_else(|| item.pointer("/object/metadata"))?;
    let name = metadata.get("name")?.as_str().filter(|name| name.len() <= MAX_NAME)?;
    Some(name.to_owned())
}

/// The longest name of Kubernetes.
const MAX_NAME: usize = 253;
