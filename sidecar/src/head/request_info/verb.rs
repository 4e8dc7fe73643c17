//! The verbs of requests (apiserver: `endpoints/request/requestinfo.go`).

use std::fmt;

use http::Method;

use crate::head::query::Query;

/// A Kubernetes request verb. [`Verb::None`] is the apiserver's empty verb, which only a `*` rule allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
    /// A path below `proxy/`, as kube-apiservers had it before there were subresources.
    Proxy,
    None,
}

impl Verb {
    pub fn of_method(method: &Method) -> Self {
        match *method {
            Method::GET | Method::HEAD => Self::Get,
            Method::POST => Self::Create,
            Method::PUT => Self::Update,
            Method::PATCH => Self::Patch,
            Method::DELETE => Self::Delete,
            _ => Self::None,
        }
    }

    pub(super) fn of_read(method: &Method, named: bool, query: Option<&str>) -> Option<Self> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return None;
        }
        Some(match () {
            () if named => Self::Get,
            () if Query::new(query).is_set("watch") => Self::Watch,
            () => Self::List,
        })
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Proxy => "proxy",
            Self::None => "",
        }
    }

    /// Whether the verb changes nothing (apiserver: `filters/maxinflight.go`).
    pub fn is_read(self) -> bool {
        matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
