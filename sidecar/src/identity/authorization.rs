//! Authorizes requests by SubjectAccessReviews on the host (apiserver: `plugin/pkg/authorizer/webhook`).
//! The result is the permit [`Allowed`], which forwarding requires. Authorization precedes every response
//! that reveals whether a cluster exists.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use kubectl_mc_api::{ClusterName, Origin};
use tracing::warn;

use crate::head::request_info::{HubObjects, RequestInfo, RequestedObject, Route, Verb};
use crate::identity::review_metrics::ReviewMetrics;
use crate::identity::{Identity, MASTERS};
use crate::limits::in_flight::{Caller, Shares};

pub mod always_allowed;
mod denied;
mod metrics;
pub mod subject_access_review;

use always_allowed::AlwaysAllowed;
pub use denied::Denied;
pub use metrics::Metrics;

use subject_access_review::{Decision, SubjectAccessReviews, Ttl};

/// Authorizes requests on the host and caches the decisions.
pub struct Authorizer {
    always_allowed: AlwaysAllowed,
    reviews: SubjectAccessReviews,
    /// The hub whose members can also be granted in the hub's own API group.
    hub: Option<Origin>,
    metrics: Metrics,
}

/// The settings that may differ from upstream's defaults.
#[derive(Clone, Debug, Default)]
pub struct Config {
    pub always_allowed: AlwaysAllowed,
    pub ttl: Ttl,
    /// The shares of the priority levels in the concurrent reviews.
    pub levels: Option<Shares>,
    /// The hub whose members can also be granted in the hub's own API group.
    pub hub: Option<Origin>,
}

/// The purpose of a review. Each has a share of the concurrent reviews.
#[derive(Clone, Copy, Debug)]
pub enum Asker {
    /// A request of an authenticated caller, even if the caller impersonates another user.
    Caller(Caller),
    /// The entries of a list or a watch of such a caller: one review for each cluster.
    Listing(Caller),
    /// The revalidation of a long-running request that was allowed before.
    Renewal,
}

/// The identity of a request after impersonation, and the rights that allow the caller to impersonate it.
#[derive(Clone, Debug)]
pub struct EffectiveUser {
    identity: Arc<Identity>,
    rights: Vec<Right>,
}

/// A right that the host granted to an identity.
#[derive(Clone, Debug)]
pub struct Right {
    pub holder: Arc<Identity>,
    pub attributes: Attributes,
}

/// Proof that the host authorized the request for `identity`. No request is forwarded without one, and a
/// forwarded request has this identity.
#[derive(Debug)]
pub struct Allowed {
    identity: Arc<Identity>,
    /// All rights that the request needed, including the caller's rights to impersonate `identity`.
    rights: Arc<[Right]>,
    /// The inventory to whose members the permit is limited, if a right is not in kubectl-mc's own
    /// group.
    only_for: Option<Origin>,
    /// The reason that the host gives, if any.
    reason: Arc<str>,
}

/// The attributes of a request, as RBAC defines them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Attributes {
    Resource {
        verb: &'static str,
        group: &'static str,
        resource: &'static str,
        subresource: Cow<'static, str>,
        namespace: Cow<'static, str>,
        name: String,
    },
    NonResource {
        verb: &'static str,
        path: &'static str,
    },
}

impl Authorizer {
    pub fn new(host: kube::Client) -> Self {
        Self::with(host, Config::default())
    }

    pub fn with(host: kube::Client, config: Config) -> Self {
        let Config { always_allowed, ttl, levels, hub } = config;
        let reviews = SubjectAccessReviews::new(host, ttl, levels);
        Self { always_allowed, reviews, hub, metrics: Metrics::default() }
    }

    /// Records authorizations and reviews in these metrics.
    pub fn counted(self, metrics: Metrics, reviews: ReviewMetrics) -> Self {
        Self { reviews: self.reviews.counted(reviews), metrics, ..self }
    }

    /// Checks every right that the request needs.
    pub async fn authorize(
        &self,
        subject: EffectiveUser,
        caller: Caller,
        info: &RequestInfo,
    ) -> Result<Allowed, Error> {
        let begun = Instant::now();
        let result = self.all_rights(subject, caller, info).await;
        self.metrics.ended(&result, begun.elapsed());
        result
    }

    async fn all_rights(
        &self,
        subject: EffectiveUser,
        caller: Caller,
        info: &RequestInfo,
    ) -> Result<Allowed, Error> {
        let EffectiveUser { identity, mut rights } = subject;
        // The group of a hub serves only the hub's members, regardless of the caller's rights.
        let (mut reason, mut only_for) = (Arc::default(), Some(info.group()).filter(|group| group.is_hub()));
        let asker = Asker::Caller(caller);
        for attributes in Attributes::of(info) {
            if self.always_allowed.allows(&attributes) {
                continue;
            }
            let attributes = match self.check(&identity, &attributes, asker).await {
                Ok(given) => {
                    reason = given;
                    attributes
                }
                Err(denied @ Error::Denied(_)) => {
                    let (hub, other) = self.of_hub(&attributes).ok_or_else(|| denied.clone())?;
                    reason = match self.check(&identity, &other, asker).await {
                        Err(Error::Denied(_)) => return Err(denied),
                        decided => decided?,
                    };
                    only_for = Some(hub);
                    other
                }
                Err(error) => return Err(error),
            };
            rights.push(Right { holder: identity.clone(), attributes });
        }
        Ok(Allowed { identity, rights: rights.into(), only_for, reason })
    }

    /// The alternative right in a hub's group, which applies to members of the hub. It is checked
    /// even if the member is not in the hub, so the time of a refusal reveals nothing about the
    /// member.
    pub fn of_hub(&self, attributes: &Attributes) -> Option<(Origin, Attributes)> {
        self.hub.and_then(|hub| Some((hub, attributes.of_hub(hub)?)))
    }

    /// The hub whose members can also be granted in the hub's own API group.
    pub fn hub(&self) -> Option<Origin> {
        self.hub
    }

    /// The numbers of cached decisions for requests and for lists.
    pub fn kept(&self) -> [usize; 2] {
        self.reviews.kept()
    }

    /// Drops expired decisions from the cache.
    pub fn forget_expired(&self) {
        self.reviews.forget_expired();
    }

    /// Checks the rights of a permit again.
    pub async fn renew(&self, allowed: &Allowed) -> Result<(), Error> {
        for Right { holder, attributes } in &*allowed.rights {
            self.check(holder, attributes, Asker::Renewal).await?;
        }
        Ok(())
    }

    /// Checks one right, and returns the reason that the host gives, if any.
    pub async fn check(
        &self,
        identity: &Arc<Identity>,
        attributes: &Attributes,
        asker: Asker,
    ) -> Result<Arc<str>, Error> {
        // As in every apiserver, this group is allowed without a review.
        if identity.is_in(MASTERS) {
            return Ok(Arc::default());
        }
        match self.reviews.decide(identity, attributes, asker).await {
            Ok(Decision { allowed: true, reason }) => Ok(reason),
            Ok(Decision { reason, .. }) => {
                let (user, attributes) = (identity.user.clone(), attributes.clone());
                Err(Error::Denied(Box::new(Denied { user, attributes, reason })))
            }
            Err(error) if matches!(*error, subject_access_review::Error::TooMany) => {
                Err(Error::TooManyReviews)
            }
            Err(error) => {
                warn!(user = identity.user, %error, "authorization review failed");
                Err(Error::Review)
            }
        }
    }
}

impl EffectiveUser {
    /// An impersonated identity, with the caller's rights to impersonate it, which the host has granted.
    pub fn impersonated(identity: Arc<Identity>, rights: Vec<Right>) -> Self {
        Self { identity, rights }
    }

    pub fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }
}

/// A caller without impersonation needs no right for its own identity.
impl From<Arc<Identity>> for EffectiveUser {
    fn from(identity: Arc<Identity>) -> Self {
        Self { identity, rights: Vec::new() }
    }
}

impl Allowed {
    pub fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    pub fn into_identity(self) -> Arc<Identity> {
        self.identity
    }

    pub fn reason(&self) -> &Arc<str> {
        &self.reason
    }

    /// The inventory to whose members the permit is limited; `None` means every member.
    pub fn only_for(&self) -> Option<Origin> {
        self.only_for
    }
}

impl Attributes {
    /// The rights that a request needs. An upgrade needs `create` for every method: it allows exec and
    /// similar access, and a WebSocket's method is GET. It also needs the verb of its method, as on
    /// the host.
    fn of(info: &RequestInfo) -> impl Iterator<Item = Self> {
        let (first, second) = match &info.route {
            Route::Proxy(group, cluster, _) => Self::subresource(info, *group, cluster, "proxy"),
            Route::Attach(cluster) => Self::subresource(info, Origin::MemberCluster, cluster, "attach"),
            Route::Clusters(cluster) => {
                let cluster = cluster.as_ref().or(info.selected.as_ref());
                (Self::cluster(info.verb, Origin::MemberCluster, cluster, ""), None)
            }
            Route::HubObjects(objects) => {
                let HubObjects { hub, verb, object, .. } = &**objects;
                let RequestedObject { namespace, name, subresource, .. } = object.clone();
                let right = Self::Resource {
                    verb: verb.as_str(),
                    group: hub.grant_group(),
                    resource: hub.grant_resource(),
                    subresource: subresource.into(),
                    namespace: namespace.into(),
                    name,
                };
                (right, None)
            }
            // The verb of a non-resource path is the lower-case method.
            Route::Debug(debug) => {
                let verb = if info.verb == Verb::Update { "put" } else { info.verb.as_str() };
                (Self::NonResource { verb, path: debug.path() }, None)
            }
            Route::Metrics | Route::Discovery(_) | Route::Health(_) => {
                (Self::NonResource { verb: info.verb.as_str(), path: "/metrics" }, None)
            }
        };
        [Some(first), second].into_iter().flatten()
    }

    fn subresource(
        info: &RequestInfo,
        group: Origin,
        cluster: &ClusterName,
        subresource: &'static str,
    ) -> (Self, Option<Self>) {
        let verb = info.authorized_verb();
        let upgrade = (info.upgrade.is_some() && verb != Verb::Create)
            .then(|| Self::cluster(Verb::Create, group, Some(cluster), subresource));
        (Self::cluster(verb, group, Some(cluster), subresource), upgrade)
    }

    fn cluster(verb: Verb, group: Origin, cluster: Option<&ClusterName>, subresource: &'static str) -> Self {
        Self::Resource {
            verb: verb.as_str(),
            group: group.grant_group(),
            resource: group.grant_resource(),
            subresource: subresource.into(),
            namespace: "".into(),
            name: cluster.map(|name| name.as_str().to_owned()).unwrap_or_default(),
        }
    }

    /// The right to read a member, or every member.
    pub fn entry(cluster: Option<&ClusterName>) -> Self {
        Self::cluster(Verb::Get, Origin::MemberCluster, cluster, "proxy")
    }

    /// The same right to a member's proxy in a hub's group.
    fn of_hub(&self, hub: Origin) -> Option<Self> {
        match self {
            Self::Resource { verb, group, resource: _, subresource, namespace, name }
                if *group == Origin::MemberCluster.grant_group() && subresource == "proxy" =>
            {
                Some(Self::Resource {
                    verb,
                    group: hub.grant_group(),
                    resource: hub.grant_resource(),
                    subresource: subresource.clone(),
                    namespace: namespace.clone(),
                    name: name.clone(),
                })
            }
            Self::Resource { .. } | Self::NonResource { .. } => None,
        }
    }

    /// The right to impersonate one part of an identity.
    pub fn impersonate(
        group: &'static str,
        resource: &'static str,
        subresource: &str,
        namespace: &str,
        name: &str,
    ) -> Self {
        Self::Resource {
            verb: "impersonate",
            group,
            resource,
            subresource: subresource.to_owned().into(),
            namespace: namespace.to_owned().into(),
            name: name.to_owned(),
        }
    }
}

/// Why a request is not authorized.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Denied(Box<Denied>),
    #[error("too many permission checks of this user are in progress, try again later")]
    TooManyReviews,
    /// The reason is only in the log, because an anonymous caller must not learn about the host.
    #[error("the host could not authorize the request")]
    Review,
}

#[cfg(test)]
mod tests;
