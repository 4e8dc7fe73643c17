//! Whether the host lets a caller do what is asked: delegated to its authorizer by
//! SubjectAccessReview (apiserver: `plugin/pkg/authorizer/webhook`). The answer is the permit that
//! forwarding demands, and comes before anything that tells whether a cluster exists.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use kubectl_mc_api::{ClusterName, Origin};
use tracing::warn;

use crate::identity::review_metrics::ReviewMetrics;
use crate::identity::{Identity, MASTERS};
use crate::request::limits::{Caller, Shares};
use crate::request::request_info::{HubObjects, RequestInfo, RequestedObject, Route, Verb};

pub mod always_allowed;
mod denied;
mod metrics;
pub mod subject_access_review;

use always_allowed::AlwaysAllowed;
pub use denied::Denied;
pub use metrics::Metrics;

use subject_access_review::{Decision, SubjectAccessReviews, Ttl};

/// Asks the host, and remembers for a while what it said.
pub struct Authorizer {
    always_allowed: AlwaysAllowed,
    reviews: SubjectAccessReviews,
    /// The hub whose members its own grants open as well.
    hub: Option<Origin>,
    metrics: Metrics,
}

/// What may differ from upstream's defaults.
#[derive(Clone, Debug, Default)]
pub struct Config {
    pub always_allowed: AlwaysAllowed,
    pub ttl: Ttl,
    /// The shares of the priority levels in the reviews under way.
    pub levels: Option<Shares>,
    /// The hub whose members its own grants open as well.
    pub hub: Option<Origin>,
}

/// For whom the host is asked, each of whom has a share of the reviews under way.
#[derive(Clone, Copy, Debug)]
pub enum Asker {
    /// Who logged in, whomever they act as.
    Caller(Caller),
    /// The same for what a list or a watch shows them: one review for each cluster.
    Listing(Caller),
    /// A long-running request that was allowed before.
    Renewal,
}

/// Who a request is made as, and the rights by which it is made as them.
#[derive(Clone, Debug)]
pub struct EffectiveUser {
    identity: Arc<Identity>,
    rights: Vec<Right>,
}

/// What the host lets somebody do.
#[derive(Clone, Debug)]
pub struct Right {
    pub holder: Arc<Identity>,
    pub attributes: Attributes,
}

/// Proof that the host allowed `identity` to do what the request asks. Nothing is forwarded
/// without one, and what is forwarded bears this identity.
#[derive(Debug)]
pub struct Allowed {
    identity: Arc<Identity>,
    /// All that it rests on, the caller's rights to impersonate `identity` among it.
    rights: Arc<[Right]>,
    /// The inventory whose members alone it is for, if its rights are not of our own group.
    only_for: Option<Origin>,
    /// The reason that the host gives, if any.
    reason: Arc<str>,
}

/// What is asked for, in the words of RBAC.
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

    /// Counts what it does there.
    pub fn counted(self, metrics: Metrics, reviews: ReviewMetrics) -> Self {
        Self { reviews: self.reviews.counted(reviews), metrics, ..self }
    }

    /// Asks for every right that the request needs.
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
        // The group of a hub has the hub's members only, whatever rights the caller has.
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

    /// The right in a hub's group that counts as well, for members of the hub. The host is asked for it whether or not the
    /// member is one of these: the time that a refusal takes tells nothing of the member.
    pub fn of_hub(&self, attributes: &Attributes) -> Option<(Origin, Attributes)> {
        self.hub.and_then(|hub| Some((hub, attributes.of_hub(hub)?)))
    }

    /// The hub whose members its own grants open as well.
    pub fn hub(&self) -> Option<Origin> {
        self.hub
    }

    /// How many decisions are kept, of requests and of lists.
    pub fn kept(&self) -> [usize; 2] {
        self.reviews.kept()
    }

    /// Drops remembered decisions whose time is over.
    pub fn forget_expired(&self) {
        self.reviews.forget_expired();
    }

    /// Asks again for what was allowed.
    pub async fn renew(&self, allowed: &Allowed) -> Result<(), Error> {
        for Right { holder, attributes } in &*allowed.rights {
            self.check(holder, attributes, Asker::Renewal).await?;
        }
        Ok(())
    }

    /// Asks for one right, and returns the reason that the host gives, if any.
    pub async fn check(
        &self,
        identity: &Arc<Identity>,
        attributes: &Attributes,
        asker: Asker,
    ) -> Result<Arc<str>, Error> {
        // As in every apiserver, this group is allowed without asking.
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
    /// Somebody who acts as `identity` by these rights, which the host was asked for.
    pub fn impersonated(identity: Arc<Identity>, rights: Vec<Right>) -> Self {
        Self { identity, rights }
    }

    pub fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }
}

/// Callers need no right to be themselves.
impl From<Arc<Identity>> for EffectiveUser {
    fn from(identity: Arc<Identity>) -> Self {
        Self { identity, rights: Vec::new() }
    }
}

impl Allowed {
    pub fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    pub fn reason(&self) -> &Arc<str> {
        &self.reason
    }

    /// The inventory whose members alone it is for; nothing means every member.
    pub fn only_for(&self) -> Option<Origin> {
        self.only_for
    }
}

impl Attributes {
    /// The rights a request needs. An upgrade needs `create` whatever its method: it is a way in,
    /// and a WebSocket's method is GET. It needs the method's own verb too, as through the host.
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
            // The verb of a path that names no resource is the method.
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

    /// The right to read in a member, or in all of them.
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

/// Why a request may not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Denied(Box<Denied>),
    #[error("too many permission checks of this user are in progress, try again later")]
    TooManyReviews,
    /// The reason is in the log: an anonymous caller learns nothing of the host.
    #[error("the host could not authorize the request")]
    Review,
}

#[cfg(test)]
mod tests;
