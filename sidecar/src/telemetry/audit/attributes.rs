//! The attributes of a request to a member, which policies and events use: verb, object and path.

use http::Method;
use kubectl_mc_api::{ClusterName, path};

use crate::head::request_info::{RequestInfo, RequestedObject, Route, Verb};

/// The attributes of a request.
#[derive(Debug)]
pub(super) struct Attributes {
    pub(super) verb: String,
    pub(super) cluster: Option<ClusterName>,
    /// `None` for a request that names no resource.
    pub(super) object: Option<RequestedObject>,
    /// The path without the part that leads to the member.
    pub(super) path: String,
    pub(super) is_long_running: bool,
    /// Answered before authentication: a health check or discovery of the sidecar.
    pub(super) is_public: bool,
}

impl Attributes {
    pub(super) fn new(info: &RequestInfo, method: &Method, target: &str, query: Option<&str>) -> Self {
        let of_method = || method.as_str().to_ascii_lowercase();
        let own = |name: Option<&ClusterName>, subresource: &str| {
            Some(RequestedObject {
                group: path::PROXY_GROUP.to_owned(),
                version: path::PROXY_VERSION.to_owned(),
                resource: path::CLUSTERS.to_owned(),
                name: name.map(ClusterName::to_string).unwrap_or_default(),
                subresource: subresource.to_owned(),
                ..RequestedObject::default()
            })
        };
        let is_public = matches!(info.route, Route::Discovery(_) | Route::Health(_));
        let (verb, cluster, object, path) = match &info.route {
            Route::Proxy(_, cluster, path) => {
                let (verb, object) = path.object(method, query).unzip();
                let verb = verb.map_or_else(of_method, |verb: Verb| verb.as_str().to_owned());
                (verb, Some(cluster.clone()), object, path.decoded())
            }
            Route::Fleet(fleet) => {
                let (verb, object) = fleet.path.object(method, query).unzip();
                let verb = verb.map_or_else(of_method, |verb: Verb| verb.as_str().to_owned());
                (verb, None, object, fleet.path.decoded())
            }
            Route::Attach(cluster) => {
                let object = own(Some(cluster), "attach");
                (info.verb.as_str().to_owned(), Some(cluster.clone()), object, target.into())
            }
            Route::Clusters(name) => {
                let name = name.as_ref().or(info.selected.as_ref());
                (info.verb.as_str().to_owned(), name.cloned(), own(name, ""), target.into())
            }
            Route::HubObjects(objects) => {
                (objects.verb.as_str().to_owned(), None, Some(objects.object.clone()), target.into())
            }
            Route::Metrics | Route::Debug(_) | Route::Discovery(_) | Route::Health(_) => {
                (of_method(), None, None, target.into())
            }
        };
        Self {
            verb,
            cluster,
            object,
            path: path.into_owned(),
            is_long_running: info.is_long_running,
            is_public,
        }
    }

    /// Whether a command is executed in a pod.
    pub(super) fn is_exec(&self) -> bool {
        self.object.as_ref().is_some_and(|object| object.subresource == "exec")
    }
}

#[cfg(test)]
pub(super) mod tests {
    use http::Request;

    use super::*;

    pub(in crate::telemetry::audit) fn attributes(method: &str, target: &str) -> Attributes {
        let request = Request::builder().method(method).uri(target).header("host", "h").body(()).unwrap();
        let info = RequestInfo::parse(&request).unwrap();
        Attributes::new(&info, request.method(), request.uri().path(), request.uri().query())
    }

    fn described(method: &str, rest: &str) -> String {
        let attributes = attributes(method, &format!("{}{rest}", path::CLUSTERS_PATH));
        let object = attributes.object.map_or_else(
            || attributes.path.clone(),
            |object| {
                let RequestedObject { resource, namespace, name, group, version, subresource } = object;
                format!("{group}/{version}/{namespace}/{resource}/{name}/{subresource}")
            },
        );
        format!("{} {object}", attributes.verb)
    }

    #[test]
    fn attributes_name_the_members_object() {
        for (method, rest, expected) in [
            ("GET", "/m1/proxy/api/v1/namespaces/ns/pods/web", "get /v1/ns/pods/web/"),
            ("GET", "/m1/proxy/api/v1/namespaces/ns/pods?watch=true", "watch /v1/ns/pods//"),
            ("GET", "/m1/proxy/apis/apps/v1/deployments", "list apps/v1//deployments//"),
            ("DELETE", "/m1/proxy/api/v1/namespaces/ns/pods", "deletecollection /v1/ns/pods//"),
            (
                "POST",
                "/m1/proxy/api/v1/namespaces/ns/pods/web/exec?command=sh",
                "create /v1/ns/pods/web/exec",
            ),
            ("PATCH", "/m1/proxy/api/v1/nodes/n", "patch /v1//nodes/n/"),
            ("GET", "/m1/proxy/api/v1/namespaces/ns", "get /v1/ns/namespaces/ns/"),
            ("GET", "/m1/proxy/healthz", "get /healthz"),
            ("OPTIONS", "/m1/proxy/version", "options /version"),
            ("GET", "/m1/proxy/h%65althz", "get /healthz"),
            (
                "GET",
                "/m1/proxy/api/v1/namespaces/ns/secrets?fieldSelector=type%3Dx%2Cmetadata.name%3Ddb",
                "list /v1/ns/secrets/db/",
            ),
            ("GET", "/m1/proxy/api/v1/pods?fieldSelector=metadata.name!%3Ddb", "list /v1//pods//"),
            ("GET", "/m1/proxy/api/v1/watch/pods", "watch /v1//pods//"),
            ("GET", "/m1/proxy/api/v1/proxy/namespaces/ns/pods/web/watch/x", "proxy /v1/ns/pods/web/"),
            ("GET", "?fieldSelector=metadata.name%3Dm1", "list proxy.kubectl-mc.dev/v1alpha1//clusters/m1/"),
            ("GET", "", "list proxy.kubectl-mc.dev/v1alpha1//clusters//"),
            ("GET", "?watch=1", "watch proxy.kubectl-mc.dev/v1alpha1//clusters//"),
            ("GET", "/m1", "get proxy.kubectl-mc.dev/v1alpha1//clusters/m1/"),
        ] {
            assert_eq!(described(method, rest), expected, "{method} {rest}");
        }
    }
}
