//! Serves the fleet view: all members that the caller may use as one cluster, below `clusters/*/proxy`.
//!
//! A request that names a member takes the path of every other request to that member; [`one_member`] renames its body
//! and its answer. Reads without a member are merged: [`list`], [`watch`], [`object`] and [`document`] ask the
//! [`members`] by [`ask`], each as the caller and within the member's own limits.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{Request, Response};

use crate::fleet::bodies;
use crate::fleet::shares::First;
use crate::head::request_info::fleet::{FleetRoute, Question};
use crate::head::request_info::{RequestInfo, Route};
use crate::limits::in_flight::Caller;
use crate::limits::upload::Upload;
use crate::outbound::body::Body;
use crate::request::authorized::Authorized;
use crate::request::error::Error as RequestError;
use crate::request::record::Record;
use crate::request::services::Services;

mod ask;
mod document;
pub mod error;
mod failures;
mod list;
mod members;
mod negotiated;
mod object;
mod one_member;
mod read;
mod review;
mod stream;
pub mod view;
mod watch;
mod web_socket;

pub use one_member::OneMember;

use ask::Asker;
use error::Error;
use members::Members;
use read::Read;

/// Answers a read of all members.
///
/// # Errors
///
/// Nothing was sent to the caller yet, and no member, or in a strict read not every member, can answer.
pub async fn respond(
    services: &Services,
    route: &FleetRoute,
    mut request: Request<Upload>,
    authorized: Authorized,
    (user, due): (Caller, Option<Instant>),
    record: &Record,
) -> Result<Response<Body>, RequestError> {
    let web_socket = web_socket::asked(&mut request);
    let fleet = services.fleet.as_ref().ok_or(Error::Off)?;
    let permit = match route.question {
        // Bounded by the number of its watches at members.
        Question::Watch => None,
        _ => Some(fleet.merged.admit_now(user).ok_or(Error::TooMany)?),
    };
    let identity = authorized.revalidated(services, due, None, record).into_identity();
    let (parts, body) = request.into_parts();
    record.hold().unread(body);
    let headers = negotiated::json_only(&parts.headers).ok_or(Error::NotAcceptable)?;
    let (inventory, authorizer) = (services.inventory.clone(), services.authorizer.clone());
    let members = Members::of(inventory.clone(), authorizer, identity.clone(), user).await?;
    let asker = Asker {
        inventory,
        rules: fleet.rules.clone(),
        identity,
        caller: user,
        headers: headers.clone(),
        version: parts.version,
        record: record.clone(),
        memory: fleet.memory.clone(),
        due,
        _permit: permit.map(Arc::new),
    };
    record.audit(|trail| trail.of_fleet(members.names()));
    let query = parts.uri.query().map(str::to_owned);
    let read =
        Read { route: route.clone(), query, headers: parts.headers, members, asker, record: record.clone() };
    match route.question {
        Question::List => Box::pin(list::respond(read)).await,
        Question::Watch => {
            let response = Box::pin(watch::respond(read, &fleet.watches)).await?;
            Ok(web_socket::switch(response, web_socket, services, record))
        }
        Question::Object => Box::pin(object::respond(read)).await,
        Question::Document => Box::pin(document::respond(read)).await,
        Question::Body => match parts.extensions.get::<review::Unnamed>() {
            Some(body) => Box::pin(review::respond(read, body.clone())).await,
            None => Err(Error::Unnamed.into()),
        },
    }
}

/// Parses a request's head. A request of the view to one member becomes one to that member's own path, whose body and
/// answer are renamed.
pub fn understood(
    services: &Services,
    request: &mut Request<Upload>,
    record: &Record,
) -> Result<(RequestInfo, Option<Box<OneMember>>), RequestError> {
    if services.fleet.is_none() {
        return Ok((RequestInfo::parse(request)?, None));
    }
    let asks_to_switch = web_socket::take(request)?;
    let (info, member) = RequestInfo::parse_with_fleet(request)?;
    if asks_to_switch {
        record.asks_to_switch();
    }
    let view = member.map(|member| OneMember::new(member, &info, request)).transpose()?;
    Ok((info, view.map(Box::new)))
}

/// Reads the body of a request whose path names no member, and makes it a request to the member that the body names.
///
/// # Errors
///
/// The body cannot be read, or it names no member.
pub async fn find_member(
    services: &Services,
    request: &mut Request<Upload>,
    info: &mut RequestInfo,
    view: &mut Option<Box<OneMember>>,
    user: Caller,
    record: &Record,
) -> Result<(), RequestError> {
    let path = match &info.route {
        Route::Fleet(route) if route.question == Question::Body => &route.path,
        _ => return Ok(()),
    };
    let object = path.object(request.method(), request.uri().query()).map(|(_, object)| object);
    let text = bodies::read(request.body_mut()).await.map_err(Error::Body)?;
    let fleet = services.fleet.as_ref().ok_or(Error::Off)?;
    let memory =
        fleet.memory.hold(user, bodies::weight(&text), First::Largest).map_err(|_| Error::TooMany)?;
    let object = object.unwrap_or_default();
    let body = bodies::Body::parse(request.method(), request.headers(), &object, text.clone());
    let body = body.map_err(Error::Body)?;
    let Some(member) = body.named_member() else {
        if !path.is_self_review() {
            return Err(Error::Unnamed.into());
        }
        request.extensions_mut().insert(review::Unnamed(text));
        return Ok(());
    };
    let at_member = RequestInfo::parse_for_member(request, &member, path)?;
    record.is_for_member(&at_member);
    *view = Some(Box::new(OneMember::new(member, &at_member, request)?.with_body(body, memory)));
    *info = at_member;
    Ok(())
}

/// Renames the body of a request to one member. Returns the new one, if there is one.
pub async fn renamed_body(
    services: &Services,
    view: &mut Option<Box<OneMember>>,
    request: &mut Request<Upload>,
    user: Caller,
) -> Result<Option<Bytes>, RequestError> {
    match (view, &services.fleet) {
        (Some(view), Some(fleet)) => Box::pin(view.to_member(request, &fleet.memory, user)).await,
        _ => Ok(None),
    }
}

/// Renames the answer of one member.
pub fn renamed_answer(
    services: &Services,
    view: Option<Box<OneMember>>,
    response: Response<Body>,
    user: Caller,
    record: &Record,
) -> Result<Response<Body>, RequestError> {
    match view {
        Some(mut view) => {
            let fleet = services.fleet.as_ref().ok_or(Error::Off)?;
            let memory = fleet.memory.hold_of_answer(user, record.hold().cutoff());
            let memory = memory.map_err(|_| Error::TooMany)?;
            let web_socket = view.web_socket.take();
            Ok(web_socket::switch(view.answer(response, memory)?, web_socket, services, record))
        }
        None => Ok(response),
    }
}
