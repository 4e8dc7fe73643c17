//! A request of the fleet view to one member: it takes the path of every request to that member, and this module renames
//! its body before and its answer after.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use kubectl_mc_api::ClusterName;
use kubectl_mc_api::fleet::references::Type;

use super::error::Error;
use super::negotiated;
use super::web_socket::{self, Asked};
use crate::fleet::bodies;
use crate::fleet::renamed::{Lines, Renamed, Shape};
use crate::fleet::renamer::{Renamer, Shown};
use crate::fleet::shares::{First, Share, Shared};
use crate::head::request_info::{RequestInfo, RequestedObject, Route, Verb};
use crate::limits::in_flight::Caller;
use crate::limits::upload::Upload;
use crate::outbound::body::Body;
use crate::request::error::Error as RequestError;

/// The parts of a request to one member that are renamed.
#[derive(Debug)]
pub struct OneMember {
    member: ClusterName,
    of: Type,
    object: RequestedObject,
    answer: Answer,
    /// The body, if it was read to find the member.
    body: Option<(bodies::Body, Share)>,
    /// The connection of a client that watches by WebSocket.
    pub(super) web_socket: Option<Asked>,
}

/// What a member answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// Bytes of a program: of a container, its log, or a program behind an inner proxy.
    Bytes,
    Document,
    List,
    Watch,
}

impl OneMember {
    /// The renaming of a request whose target is the member's own by now.
    ///
    /// # Errors
    ///
    /// The target is no member's.
    pub fn new(member: ClusterName, info: &RequestInfo, request: &Request<Upload>) -> Result<Self, Error> {
        let Route::Proxy(_, _, path) = &info.route else { return Err(Error::Unnamed) };
        let requested = path.object(request.method(), request.uri().query());
        let (verb, object) = requested.unwrap_or_else(|| (Verb::None, RequestedObject::default()));
        let is_bytes = path.is_inner_proxy() || object.subresource == "log";
        let answer = match verb {
            _ if is_bytes || info.upgrade.is_some() => Answer::Bytes,
            Verb::List | Verb::DeleteCollection => Answer::List,
            Verb::Watch => Answer::Watch,
            _ => Answer::Document,
        };
        Ok(Self { member, of: bodies::object_type(&object), object, answer, body: None, web_socket: None })
    }

    /// With a body that was read to find the member.
    pub fn with_body(self, body: bodies::Body, memory: Share) -> Self {
        Self { body: Some((body, memory)), ..self }
    }

    /// Prepares the request for the member. Returns its new body, if it has one.
    ///
    /// # Errors
    ///
    /// The body is not one that can be renamed, or the caller does not accept JSON.
    pub async fn to_member(
        &mut self,
        request: &mut Request<Upload>,
        memory: &Arc<Shared>,
        user: Caller,
    ) -> Result<Option<Bytes>, RequestError> {
        if self.answer == Answer::Bytes {
            return Ok(None);
        }
        self.web_socket = web_socket::asked(request);
        *request.headers_mut() = negotiated::json_only(request.headers()).ok_or(Error::NotAcceptable)?;
        let (body, _charged) = match self.body.take() {
            Some(body) => body,
            None if matches!(*request.method(), Method::GET | Method::HEAD) => return Ok(None),
            None => {
                let text = bodies::read(request.body_mut()).await.map_err(Error::Body)?;
                let charged = memory.hold(user, bodies::weight(&text), First::Largest);
                let charged = charged.map_err(|_| Error::TooMany)?;
                let parsed = bodies::Body::parse(request.method(), request.headers(), &self.object, text);
                (parsed.map_err(Error::Body)?, charged)
            }
        };
        Ok(Some(body.to_member(&self.member).map_err(Error::Body)?))
    }

    /// Renames the member's answer.
    ///
    /// # Errors
    ///
    /// The member answers in a form that cannot be renamed, and so could name objects of other members.
    pub fn answer(self, response: Response<Body>, memory: Share) -> Result<Response<Body>, RequestError> {
        if self.answer == Answer::Bytes || response.status() == StatusCode::NO_CONTENT {
            return Ok(response);
        }
        let (mut parts, body) = response.into_parts();
        let content_type = parts.headers.get(header::CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
        let is_json = content_type.starts_with(b"application/json");
        if !is_json || parts.headers.contains_key(header::CONTENT_ENCODING) {
            // A message for people, as of a proxy in front of the member.
            return match parts.status.as_u16() {
                400.. => Ok(Response::from_parts(parts, body)),
                _ => Err(Error::Malformed(self.member, crate::fleet::items::Error::NotAList).into()),
            };
        }
        for name in [header::CONTENT_LENGTH, header::ETAG, header::LAST_MODIFIED, header::ACCEPT_RANGES] {
            parts.headers.remove(name);
        }
        let shape = match self.answer {
            Answer::List if parts.status.is_success() => Shape::List(Box::default(), false),
            Answer::Watch if parts.status.is_success() => Shape::Watch(Lines::default()),
            _ => Shape::Document(Vec::new()),
        };
        let renamer = Renamer::new(self.member, self.of, Shown::default());
        Ok(Response::from_parts(parts, Body::made(Renamed::new(body, shape, renamer, memory))))
    }
}
