//! Parses requests for objects of a hub that the hub's own server serves, in the API group of that hub.

use http::Method;
use kubectl_mc_api::Origin;

use super::{Error, MemberPath, RequestedObject, Route, Verb};

/// A request for objects of a hub.
#[derive(Debug, PartialEq, Eq)]
pub struct HubObjects {
    pub hub: Origin,
    /// The whole path, exactly as the client sent it.
    pub path: MemberPath,
    pub verb: Verb,
    pub object: RequestedObject,
}

impl HubObjects {
    /// Parses a path of Karmada's Clusters, except the proxy to a cluster. `None` for other paths.
    pub(super) fn of(target: &str, method: &Method, query: Option<&str>) -> Option<Result<Route, Error>> {
        let hub = Origin::Karmada;
        let rest = target.strip_prefix(hub.collection())?;
        // No valid name needs an escape. Without escapes no other reader can find another object in the path,
        // or a member's proxy.
        let is_plain = !target.contains('%') && !target.contains("//");
        if !is_plain || !(rest.is_empty() || rest.starts_with('/')) {
            return None;
        }
        let path = match MemberPath::parse(target.strip_prefix('/')?) {
            Ok(path) => path,
            Err(error) => return Some(Err(error)),
        };
        let (verb, object) = path.object(method, query)?;
        if object.subresource == "proxy" {
            return None;
        }
        Some(Ok(Route::HubObjects(Box::new(Self { hub, path, verb, object }))))
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;
    use crate::head::request_info::RequestInfo;

    fn parsed(method: &str, rest: &str) -> Result<RequestInfo, Error> {
        let target = format!("{}{rest}", Origin::Karmada.collection());
        let request = Request::builder().method(method).uri(target).header("host", "h").body(()).unwrap();
        RequestInfo::parse(&request)
    }

    #[test]
    fn karmada_cluster_requests_go_to_karmadas_server() {
        for (method, rest, verb, name, subresource) in [
            ("GET", "", "list", "", ""),
            ("GET", "/", "list", "", ""),
            ("GET", "?watch=1", "watch", "", ""),
            ("GET", "?fieldSelector=metadata.name%3Dm1", "list", "m1", ""),
            ("DELETE", "", "deletecollection", "", ""),
            ("POST", "", "create", "", ""),
            ("GET", "/m1", "get", "m1", ""),
            ("PUT", "/m1/status", "update", "m1", "status"),
            ("PATCH", "/m1", "patch", "m1", ""),
        ] {
            let info = parsed(method, rest).unwrap();
            let Route::HubObjects(objects) = &info.route else { panic!("{rest}: {:?}", info.route) };
            let object = &objects.object;
            assert_eq!(
                (objects.verb.as_str(), &*object.name, &*object.subresource),
                (verb, name, subresource),
                "{method} {rest}"
            );
            assert_eq!(info.is_long_running, verb == "watch", "{rest}");
            assert_eq!((info.verb, info.group()), (objects.verb, Origin::Karmada));
        }
    }

    #[test]
    fn member_proxy_below_karmadas_path_goes_to_the_sidecar() {
        for rest in ["/m1/proxy", "/m1/proxy/api/v1/pods"] {
            assert!(
                matches!(parsed("GET", rest).unwrap().route, Route::Proxy(Origin::Karmada, ..)),
                "{rest}"
            );
        }
        // Another reader could find the proxy in these paths, and would get a request with the caller's
        // rights.
        for rest in
            ["/m1%2Fproxy", "/m1//proxy", "//m1/proxy/api", "/m1/%70roxy", "/m%31/status", "/../clusters"]
        {
            assert!(parsed("GET", rest).is_err(), "{rest}");
        }
    }
}
