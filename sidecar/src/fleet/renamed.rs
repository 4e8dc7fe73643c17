//! The answer of one member as the fleet view shows it: an object, a list that is renamed item by item, or a watch that is
//! renamed line by line. No task is needed: the client's reading drives it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::Frame;
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::items::{self, Items, MAX_OBJECT};
use super::renamer::{self, Renamer};
use super::shares::{First, Share};
use crate::outbound::body::{Body, Error};

/// How a member's answer is read.
#[derive(Debug)]
pub enum Shape {
    /// One document.
    Document(Vec<u8>),
    /// A list; the flag says whether it has begun.
    List(Box<Items>, bool),
    /// One event a line.
    Watch(Lines),
}

/// The body of a renamed answer.
pub struct Renamed {
    body: Body,
    shape: Shape,
    renamer: Renamer,
    ready: VecDeque<Bytes>,
    is_over: bool,
    memory: Share,
    /// Ends the response if its buffers must be dropped.
    over: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Renamed {
    /// `memory` accounts for the buffered part of an object.
    pub fn new(body: Body, shape: Shape, renamer: Renamer, memory: Share) -> Self {
        let over = Box::pin(memory.over().clone().cancelled_owned());
        Self { body, shape, renamer, ready: VecDeque::new(), is_over: false, memory, over }
    }

    /// Charges what is held now.
    fn charge(&self) -> Result<(), items::Error> {
        let held = match &self.shape {
            Shape::Document(document) => document.capacity(),
            Shape::List(items, _) => items.held(),
            Shape::Watch(lines) => lines.held(),
        };
        let held = held + self.ready.iter().map(Bytes::len).sum::<usize>();
        self.memory.resize(held, First::Largest).map_err(|_| items::Error::NoMemory)
    }

    fn push(&mut self, data: &[u8]) -> Result<(), items::Error> {
        let Self { shape, renamer, ready, .. } = self;
        match shape {
            Shape::Document(document) => {
                if document.len() + data.len() > MAX_OBJECT {
                    return Err(items::Error::TooLarge);
                }
                document.extend_from_slice(data);
                Ok(())
            }
            Shape::List(items, has_begun) => items.push(data, |items, item| {
                let element = renamer.element(items, item)?;
                let separator = match std::mem::replace(has_begun, true) {
                    true => b",".as_slice(),
                    false => renamer::begin_of_list(renamer.is_table()),
                };
                ready.push_back([separator, &element].concat().into());
                Ok(())
            }),
            Shape::Watch(lines) => lines.push(data, |line| {
                ready.push_back(renamer.event(line)?.line.into());
                Ok(())
            }),
        }
    }

    fn finish(&mut self) -> Result<(), items::Error> {
        match &mut self.shape {
            Shape::Document(document) if document.is_empty() => {}
            Shape::Document(document) => self.ready.push_back(self.renamer.document(document)?.into()),
            Shape::List(items, has_begun) => {
                let mut rest = items.finish()?;
                // A refusal, or an empty list.
                if !*has_begun && rest.get("items").or_else(|| rest.get("rows")).is_none() {
                    self.ready.push_back(self.renamer.document(rest.to_string().as_bytes())?.into());
                    return Ok(());
                }
                if !*has_begun {
                    let is_table = rest.get("rows").is_some();
                    self.ready.push_back(Bytes::from_static(renamer::begin_of_list(is_table)));
                }
                self.renamer.rest(&mut rest);
                self.ready.push_back(renamer::end_of_list(rest).into());
            }
            Shape::Watch(lines) => lines.finish()?,
        }
        Ok(())
    }
}

impl http_body::Body for Renamed {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(ready))));
            }
            if self.is_over {
                return Poll::Ready(None);
            }
            if self.over.as_mut().poll(cx).is_ready() {
                self.is_over = true;
                return Poll::Ready(Some(Err(Error::Broken(items::Error::NoMemory.to_string()))));
            }
            let result = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.push(&data),
                    Err(_) => Ok(()),
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    self.is_over = true;
                    self.finish()
                }
            };
            if let Err(error) = result.and_then(|()| self.charge()) {
                self.is_over = true;
                return Poll::Ready(Some(Err(Error::Broken(error.to_string()))));
            }
        }
    }
}

/// Splits a watch into its lines. At most one line is in memory.
#[derive(Debug, Default)]
pub struct Lines(Vec<u8>);

impl Lines {
    /// Takes a piece of the stream, and passes on each line that it completes.
    pub fn push<E: From<items::Error>>(
        &mut self,
        piece: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            if self.0.len() + part.len() > MAX_OBJECT {
                return Err(items::Error::TooLarge.into());
            }
            self.0.extend_from_slice(part);
            if part.ends_with(b"\n") {
                if !self.0.trim_ascii().is_empty() {
                    each(&self.0)?;
                }
                self.0.clear();
                self.0.shrink_to(KEPT);
            }
        }
        Ok(())
    }

    /// How many bytes of an unfinished line are held.
    pub fn held(&self) -> usize {
        self.0.capacity()
    }

    /// A watch ends after a line.
    pub fn finish(&self) -> Result<(), items::Error> {
        if self.0.is_empty() { Ok(()) } else { Err(items::Error::Early) }
    }
}

/// The memory that a stream of short lines keeps.
const KEPT: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use kubectl_mc_api::fleet::references::{Scope, Type};
    use serde_json::{Value, json};

    use super::*;
    use crate::fleet::renamer::Shown;
    use crate::fleet::shares::Shared;
    use crate::limits::in_flight::Caller;

    async fn answer(shape: Shape, text: &str) -> Result<String, Error> {
        let of = Type::new("", "pods", "", Scope::Namespaced);
        let renamer = Renamer::new("m1".parse().unwrap(), of, Shown::default());
        let memory = Shared::new(1000, 1000).hold(Caller::of_hash(1), 0, First::Largest).unwrap();
        let body = Renamed::new(Body::Full(text.to_owned().into()), shape, renamer, memory);
        Ok(String::from_utf8(body.collect().await?.to_bytes().to_vec()).unwrap())
    }

    #[tokio::test]
    async fn list_is_renamed_item_by_item() {
        let pod = json!({"metadata": {"name": "a", "namespace": "s"}});
        let list = || Shape::List(Box::default(), false);
        for items in [json!([]), json!([pod, pod]), json!(null)] {
            let text = json!({"kind": "PodList", "metadata": {"resourceVersion": "7", "continue": "c"}, "items": items});
            let renamed: Value =
                serde_json::from_str(&answer(list(), &text.to_string()).await.unwrap()).unwrap();
            assert_eq!(renamed["metadata"], json!({"resourceVersion": "m1.7", "continue": "c"}));
            let expected = items.as_array().map_or(0, Vec::len);
            assert_eq!(renamed["items"].as_array().unwrap().len(), expected);
            assert!(
                renamed["items"].as_array().unwrap().iter().all(|pod| pod["metadata"]["namespace"] == "s_m1")
            );
        }
        let status = json!({"kind": "Status", "apiVersion": "v1", "code": 403});
        assert_eq!(answer(list(), &status.to_string()).await.unwrap(), status.to_string());
        assert!(answer(list(), r#"{"kind":"PodList","items":[{"metadata":{}}"#).await.is_err());
        let large =
            format!(r#"{{"kind":"PodList","items":[{{"metadata":{{}},"data":"{}"}}]}}"#, "x".repeat(2000));
        let error = answer(list(), &large).await.unwrap_err();
        assert!(matches!(&error, Error::Broken(text) if text.contains("memory")), "{error}");
    }

    #[tokio::test]
    async fn watch_is_renamed_line_by_line() {
        let event = json!({"type": "ADDED", "object": {"metadata": {"namespace": "s"}}});
        let lines = answer(Shape::Watch(Lines::default()), &format!("{event}\n\n{event}\n")).await.unwrap();
        assert_eq!(lines.lines().count(), 2);
        assert!(lines.lines().all(|line| line.contains(r#""namespace":"s_m1""#)), "{lines}");
        assert!(answer(Shape::Watch(Lines::default()), r#"{"type":"ADDED""#).await.is_err());
    }
}
