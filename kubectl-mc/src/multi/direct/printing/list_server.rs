//! Serves one list as the objects of a type that kubectl can request: the list, and the discovery of its types,
//! without which kubectl does not accept the items.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use kube::client::Body;
use serde_json::{Value, json};

use crate::kubectl::loopback::{Answers, Token};

/// The type of the list, as kubectl names it.
pub(super) const RESOURCE: &str = "objects.list.kubectl-mc.dev";

/// The answers by path, for the kubectl with this token.
pub(super) struct ListServer {
    token: Token,
    answers: HashMap<String, Bytes>,
}

impl ListServer {
    pub(super) fn new(objects: &[Value], token: Token) -> Self {
        let list = json!({
            "apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": objects});
        let mut answers = discovery(objects);
        answers.insert(format!("/apis/{GROUP}/{VERSION}/{PLURAL}"), list);
        let answers = answers.into_iter().map(|(path, answer)| (path, answer.to_string().into())).collect();
        Self { token, answers }
    }
}

impl Answers for ListServer {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let found = self.answers.get(request.uri().path()).filter(|_| self.token.is_in(request.headers()));
        let (code, body) = match found {
            Some(body) => (StatusCode::OK, body.clone()),
            None => {
                let status = json!({
                    "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound",
                    "message": "the server could not find the requested resource"});
                (StatusCode::NOT_FOUND, status.to_string().into())
            }
        };
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = code;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

/// The discovery of these objects' types, by its paths. Every type is namespaced, so that kubectl removes no
/// namespace; it requests all of them.
fn discovery(objects: &[Value]) -> HashMap<String, Value> {
    let text = |object: &Value, field: &str| {
        object.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let mut kinds: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for object in objects {
        kinds.entry(text(object, "apiVersion")).or_default().insert(text(object, "kind"));
    }
    let own = format!("{GROUP}/{VERSION}");
    kinds.entry(own.clone()).or_default().insert(KIND.to_owned());
    let mut answers = HashMap::new();
    let mut groups: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for (api_version, kinds) in &kinds {
        let path = match api_version.split_once('/') {
            Some((group, version)) => {
                let version = json!({"groupVersion": api_version, "version": version});
                groups.entry(group).or_default().push(version);
                format!("/apis/{api_version}")
            }
            None => format!("/api/{api_version}"),
        };
        let resource = |kind: &String| {
            let plural =
                if kind == KIND && *api_version == own { PLURAL.into() } else { kind.to_lowercase() };
            json!({"name": plural, "singularName": "", "namespaced": true, "kind": kind, "verbs": ["get", "list"]})
        };
        let resources: Vec<_> = kinds.iter().map(resource).collect();
        let list = json!({
            "apiVersion": "v1", "kind": "APIResourceList", "groupVersion": api_version, "resources": resources});
        answers.insert(path, list);
    }
    let core: Vec<_> = kinds.keys().filter(|version| !version.contains('/')).collect();
    answers.insert("/api".to_owned(), json!({"apiVersion": "v1", "kind": "APIVersions", "versions": core}));
    let groups: Vec<_> = groups
        .into_iter()
        .map(|(name, versions)| json!({"name": name, "preferredVersion": versions[0], "versions": versions}))
        .collect();
    answers.insert("/apis".to_owned(), json!({"apiVersion": "v1", "kind": "APIGroupList", "groups": groups}));
    answers
}

const GROUP: &str = "list.kubectl-mc.dev";
const VERSION: &str = "v1";
const KIND: &str = "Object";
const PLURAL: &str = "objects";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discovery_has_every_type_of_the_list() {
        let object = |api_version: &str, kind: &str| json!({"apiVersion": api_version, "kind": kind});
        let all =
            [object("v1", "Pod"), object("apps/v1", "Deployment"), object("v1", "Node"), object("v1", "Pod")];
        let answers = discovery(&all);
        let kinds = |path: &str| {
            let resources = answers[path]["resources"].as_array().unwrap();
            resources.iter().map(|resource| resource["kind"].as_str().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(kinds("/api/v1"), ["Node", "Pod"]);
        assert_eq!(kinds("/apis/apps/v1"), ["Deployment"]);
        assert_eq!(kinds("/apis/list.kubectl-mc.dev/v1"), ["Object"]);
        let groups = answers["/apis"]["groups"].as_array().unwrap();
        assert_eq!(
            groups.iter().map(|group| &group["name"]).collect::<Vec<_>>(),
            ["apps", "list.kubectl-mc.dev"]
        );
        assert_eq!(answers["/api"]["versions"], json!(["v1"]));
    }
}
