//! Routes a request to the fleet view, `clusters/*/proxy`: a name with a member's suffix makes it a request to that
//! member, and a read without one concerns all members. Only the places of the path and of the query that can name a
//! member are read, and a name is stripped only where the kind cannot have `_` in its own names.

use std::borrow::Cow;

use http::Method;
use http::uri::PathAndQuery;
use kubectl_mc_api::fleet::names;
use kubectl_mc_api::{ClusterName, path};

use super::fleet_query::{self, Query};
use super::member_path::MemberPath;
use super::verb::Verb;
use crate::head::unescape::unescape;

pub mod error;

pub use error::Error;

/// Where a request to the fleet view goes.
#[derive(Debug, PartialEq, Eq)]
pub enum Target {
    /// To one member, with the target of the same request to that member's own path.
    Member(ClusterName, PathAndQuery),
    /// To all members, or to the one that the body names.
    Fleet(FleetRoute),
}

/// A request to the fleet view whose path names no member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetRoute {
    pub question: Question,
    /// The path on each member.
    pub path: MemberPath,
    /// The resource; empty for documents.
    pub resource: Resource,
}

/// What a request without a member is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    List,
    Watch,
    /// An object of an unqualified name.
    Object,
    /// A document about the API, such as discovery.
    Document,
    /// A new object, or a review: its body names the member.
    Body,
}

/// The resource of a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    pub group: String,
    pub name: String,
    /// Unqualified.
    pub namespace: Option<String>,
}

/// The part of a target below the view's root, if the target is in the view.
pub fn below(target: &str) -> Option<&str> {
    let rest = target.strip_prefix(path::CLUSTERS_PATH)?.strip_prefix('/')?;
    let (segment, rest) = rest.split_once('/')?;
    let is_view = segment == names::ALL_MEMBERS || segment.eq_ignore_ascii_case("%2A");
    let rest = rest.strip_prefix("proxy").filter(|_| is_view)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

/// Routes a request by the part of its target below the view's root.
pub fn route(rest: &str, method: &Method, query: Option<&str>) -> Result<Target, Error> {
    // Refuses what no member may receive.
    let path = MemberPath::parse(rest).map_err(|error| Error::Path(error.to_string()))?;
    let mut parts = Parts::parse(rest)?;
    let Some(place) = parts.resource()? else { return document(path, &parts, method) };
    let mut query = Query::parse(query)?;
    match parts.take_member(&place, &mut query)? {
        Some(member) => {
            let target = format!("{}/{}", path::member_root(&member), parts.joined());
            let target = match query.of_member(&member)? {
                query if query.is_empty() => target,
                query => format!("{target}?{query}"),
            };
            let target =
                PathAndQuery::try_from(target).map_err(|_| Error::Path("cannot be sent".to_owned()))?;
            Ok(Target::Member(member, target))
        }
        None => fleet(path, &parts, &place, method, &query),
    }
}

fn document(path: MemberPath, parts: &Parts<'_>, method: &Method) -> Result<Target, Error> {
    let is_health = parts.raw.len() == 1 && matches!(&*parts.raw[0], "livez" | "readyz" | "healthz");
    parts.are_plain(parts.raw.len())?;
    if !(path.is_discovery() || is_health) {
        return Err(Error::NotFound(path.as_str().to_owned()));
    }
    match *method {
        Method::GET | Method::HEAD => Ok(Target::Fleet(FleetRoute {
            question: Question::Document,
            path,
            resource: Resource::default(),
        })),
        _ => Err(Error::NotAllowed("only GET is allowed for documents about the API")),
    }
}

fn fleet(
    path: MemberPath,
    parts: &Parts<'_>,
    place: &Place,
    method: &Method,
    query: &Query<'_>,
) -> Result<Target, Error> {
    let is_named = place.name.is_some();
    let question = match Verb::of_method(method) {
        _ if place.subresource.is_some() => return Err(Error::Unqualified),
        Verb::Get if is_named => Question::Object,
        Verb::Get if query.is_watch() => Question::Watch,
        Verb::Get => Question::List,
        Verb::Create if !is_named && place.namespace.is_none() => Question::Body,
        Verb::Delete if !is_named => {
            return Err(Error::NotAllowed(
                "a collection can be deleted on one member only: qualify the namespace",
            ));
        }
        _ => return Err(Error::Unqualified),
    };
    if matches!(question, Question::List | Question::Watch) {
        query.has_no_qualified_exclusion()?;
    }
    let text = |at: Option<usize>| at.map(|at| parts.text(at)).transpose();
    let resource = Resource {
        group: place.group.clone(),
        name: parts.text(place.resource)?.into_owned(),
        namespace: text(place.namespace)?.map(Cow::into_owned),
    };
    Ok(Target::Fleet(FleetRoute { question, path, resource }))
}

/// The segments of a path, as sent.
struct Parts<'a> {
    raw: Vec<Cow<'a, str>>,
}

/// The positions of the parts of a resource's path (apiserver: `endpoints/request/requestinfo.go`).
struct Place {
    group: String,
    resource: usize,
    namespace: Option<usize>,
    name: Option<usize>,
    subresource: Option<usize>,
}

impl<'a> Parts<'a> {
    fn parse(rest: &'a str) -> Result<Self, Error> {
        let rest = rest.trim_matches('/');
        let raw: Vec<_> = rest.split('/').filter(|_| !rest.is_empty()).map(Cow::Borrowed).collect();
        Ok(Self { raw })
    }

    /// A segment, unescaped. A segment that hides a `/` would be several for a member.
    fn text(&self, at: usize) -> Result<Cow<'_, str>, Error> {
        let bytes =
            unescape(&self.raw[at]).ok_or_else(|| Error::Path("has a malformed escape".to_owned()))?;
        let text = match bytes {
            Cow::Borrowed(bytes) => std::str::from_utf8(bytes).map(Cow::Borrowed).ok(),
            Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).ok(),
        };
        text.filter(|text| !text.is_empty() && !text.contains('/'))
            .ok_or_else(|| Error::Path(format!("has an ambiguous segment {:?}", self.raw[at])))
    }

    /// Checks the first segments. A `/` that one of them hides would move all parts after it on a member.
    fn are_plain(&self, count: usize) -> Result<(), Error> {
        (0..count.min(self.raw.len())).try_for_each(|at| self.text(at).map(drop))
    }

    /// The places of a resource, or `None` for a document.
    fn resource(&self) -> Result<Option<Place>, Error> {
        let Some(first) = self.raw.first() else { return Ok(None) };
        let (group, at) = match &**first {
            "api" => (String::new(), 2),
            "apis" if self.raw.len() > 1 => (self.text(1)?.into_owned(), 3),
            _ => return Ok(None),
        };
        if self.raw.len() <= at {
            return Ok(None);
        }
        self.are_plain(at)?;
        let after = |n: usize| Some(at + n).filter(|at| *at < self.raw.len());
        // Every segment that is read here must be unambiguous.
        let last = (at + 5).min(self.raw.len());
        let texts = (at..last).map(|at| self.text(at)).take(5).collect::<Vec<_>>();
        let text = |n: usize| texts.get(n).and_then(|text| text.as_deref().ok()).unwrap_or_default();
        let is_namespaced =
            text(0) == "namespaces" && after(2).is_some() && !matches!(text(2), "status" | "finalize");
        let read = if is_namespaced { 5 } else { 3 };
        if let Some(error) = texts.iter().take(read).find(|text| text.is_err()) {
            return Err(error.as_ref().err().cloned().unwrap_or(Error::Unqualified));
        }
        if matches!(text(0), "watch" | "proxy") {
            return Err(Error::Legacy);
        }
        Ok(Some(match is_namespaced {
            true => {
                Place { group, resource: at + 2, namespace: after(1), name: after(3), subresource: after(4) }
            }
            false => Place { group, resource: at, namespace: None, name: after(1), subresource: after(2) },
        }))
    }

    /// The member that the path or the query names; its suffixes are removed from the path.
    fn take_member(&mut self, place: &Place, query: &mut Query<'_>) -> Result<Option<ClusterName>, Error> {
        let resource = self.text(place.resource)?.into_owned();
        let has_plain_names = place.group == RBAC && matches!(resource.as_str(), "roles" | "rolebindings");
        let mut member = None;
        if let Some(at) = place.namespace {
            self.take(at, &mut member)?;
        }
        // In a member's namespace a name is that member's own.
        let has_own_name = member.is_some() || has_plain_names;
        if let Some(at) = place.name.filter(|_| !has_own_name) {
            self.take(at, &mut member)?;
        }
        for of in query.members(has_plain_names)? {
            agree(&mut member, of)?;
        }
        Ok(member)
    }

    /// Removes the suffix of a segment, if it has one.
    fn take(&mut self, at: usize, member: &mut Option<ClusterName>) -> Result<(), Error> {
        let text = self.text(at)?.into_owned();
        if let Some((name, of)) = names::split(&text) {
            agree(member, of)?;
            self.raw[at] = Cow::Owned(fleet_query::escape_segment(name));
        }
        Ok(())
    }

    fn joined(&self) -> String {
        self.raw.join("/")
    }
}

/// All parts of a request that name a member must name the same one.
fn agree(member: &mut Option<ClusterName>, other: ClusterName) -> Result<(), Error> {
    match member {
        Some(one) if *one != other => Err(Error::TwoMembers(one.clone(), other)),
        _ => {
            *member = Some(other);
            Ok(())
        }
    }
}

/// Names of its namespaced kinds may contain `_`.
const RBAC: &str = "rbac.authorization.k8s.io";

#[cfg(test)]
mod tests;
