//! Hosts under an attacker's control. Each is a TLS server that gives its clients one kind of false
//! answer. Its answers are bounded, except for one that lasts as long as its client reads.

use std::time::Duration;

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::texts;
use super::trap::Trap;
use crate::fake_member::{FakeMember, Manners, Request, Step, reply};

/// The way in which a hub lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// Its clusters and their objects have hostile names.
    Names,
    /// It has ten thousand clusters.
    Many,
    /// Each answer is an error whose text attacks the terminal.
    Texts,
    /// Each answer claims to come from a different hop than the host.
    Hops,
    /// Each answer redirects to the trap.
    Redirect(u16),
    /// It publishes the trap as its direct endpoint.
    Endpoint,
    /// Each answer is an empty object.
    Empty,
    /// Each answer is an object of another kind.
    OtherKind,
    /// Each answer is JSON that is not an object, or that is cut off.
    NoObject,
    /// Each answer is endless, and is sent as fast as the client reads.
    Flood,
    /// Each answer is endless, and arrives a byte at a time.
    Trickle,
    /// It accepts each request and never answers.
    Silence,
}

impl Lie {
    /// The lies that answer at once.
    pub const QUICK: [Self; 12] = [
        Self::Names,
        Self::Many,
        Self::Texts,
        Self::Hops,
        Self::Redirect(301),
        Self::Redirect(302),
        Self::Redirect(307),
        Self::Redirect(308),
        Self::Endpoint,
        Self::Empty,
        Self::OtherKind,
        Self::NoObject,
    ];
    /// The lies whose answers are endless.
    pub const ENDLESS: [Self; 3] = [Self::Flood, Self::Trickle, Self::Silence];
}

/// The hub, until this is dropped.
pub struct Hub(FakeMember);

impl Hub {
    pub fn start(lie: Lie, trap: &Trap) -> Result<Self> {
        let (url, proxy, authority) = (trap.url(), trap.proxy(), trap.authority().to_owned());
        let manners = Manners { probed: true, ..Manners::default() };
        Ok(Self(FakeMember::with("hub", manners, move |request| match lie {
            Lie::Redirect(code) => {
                // These point to another server with TLS, and to one without.
                let to = if request.connection % 2 == 0 { &url } else { &proxy };
                let to = format!("Location: {to}{}\r\n", request.target());
                reply(&format!("{code} Elsewhere"), &to, "")
            }
            Lie::Endpoint if request.target().ends_with("/configmaps/kubectl-mc") => success(
                &json!({"kind": "ConfigMap", "apiVersion": "v1", "data": {"server": url, "ca.crt": authority}}),
            ),
            Lie::Endpoint => honest(request),
            Lie::Names => listing(request, &names()),
            Lie::Many if request.target().contains("/proxy/") => listing(request, &["web".to_owned()]),
            Lie::Many => listing(request, &(0..MANY).map(|at| format!("cluster-{at}")).collect::<Vec<_>>()),
            Lie::Texts => failure(403 + 97 * u16::from(request.connection % 2 == 0), ""),
            Lie::Hops => failure(502, "X-Kubectl-Mc-Hop: member\r\nX-Kubectl-Mc-Hop: no such hop\r\n"),
            Lie::Empty => success(&json!({})),
            Lie::OtherKind => {
                success(&json!({"kind": "Secret", "apiVersion": "v1", "items": {"a": 1}, "data": [1]}))
            }
            Lie::NoObject => {
                json_text(["[]", "null", "7", "\"text\"", "{\"items\": ["][request.connection % 5])
            }
            Lie::Flood => vec![head_of_chunks(), Step::Repeat(chunk(&" ".repeat(1024 * 1024)), FLOOD)],
            Lie::Trickle => vec![head_of_chunks(), Step::Trickle(chunk(" "), Duration::from_millis(50))],
            Lie::Silence => vec![Step::Hang],
        })?))
    }

    /// A kubeconfig whose current context is the hub, with a token for it.
    pub fn kubeconfig(&self) -> String {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "hub",
            "clusters": [{"name": "hub", "cluster": {
                "server": format!("https://{}", self.0.address),
                "certificate-authority-data": STANDARD.encode(self.0.ca()),
            }}],
            "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "of-the-hub", "namespace": "ns"}}],
            "users": [{"name": "of-the-hub", "user": {"token": TOKEN}}],
        })
        .to_string()
    }

    /// The heads of all requests so far.
    pub fn heads(&self) -> Vec<String> {
        self.0.requests("").into_iter().map(|request| request.head).collect()
    }
}

/// The victim's token for the hub. The hub may know it, but no other server may.
pub const TOKEN: &str = "token-for-the-hub";
/// The only cluster of [`Lie::Names`] whose name is valid for a cluster.
pub const GOOD: &str = "good-1";

fn names() -> Vec<String> {
    texts::commands().into_iter().chain([GOOD.to_owned()]).collect()
}

/// What a host with two members answers.
fn honest(request: &Request) -> Vec<Step> {
    listing(request, &["m1".to_owned(), "m2".to_owned()])
}

/// Clusters with these names, whose objects have the same names. kubectl finds pods and nothing
/// else.
fn listing(request: &Request, names: &[String]) -> Vec<Step> {
    let path = request.target().split('?').next().unwrap_or_default();
    let of_member = path.split_once("/proxy/").map(|(_, rest)| rest);
    let (kind, version) = match of_member {
        None if path.ends_with("/clusters") => ("ClusterList", "proxy.kubectl-mc.dev/v1alpha1"),
        None if path.contains("/memberclusters") => ("MemberClusterList", "fleet.kubectl-mc.dev/v1alpha1"),
        Some("api") => return success(&json!({"kind": "APIVersions", "versions": ["v1"]})),
        Some("apis") => return success(&json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": []})),
        Some("api/v1") => {
            let pods = json!({"name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod", "verbs": ["get", "list"]});
            return success(&json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": [pods]}));
        }
        Some(_) => ("PodList", "v1"),
        None => return failure(404, ""),
    };
    let metadata = |name: &String| {
        json!({"metadata": {"name": name, "namespace": name, "labels": {"app": name}},
            "spec": {"containers": [{"name": name}]},
            "status": {"conditions": [{"type": "Ready", "status": "True", "reason": name, "message": name}]}})
    };
    if request.values("accept").concat().contains("as=Table") {
        let rows = names.iter().map(|name| json!({"cells": [name, name], "object": metadata(name)}));
        let column = |name: &str| json!({"name": name, "type": "string", "format": "name", "priority": 0});
        return success(&json!({
            "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {},
            "columnDefinitions": [column("Name"), column("Ready")], "rows": rows.collect::<Vec<_>>(),
        }));
    }
    let items: Vec<_> = names.iter().map(metadata).collect();
    success(&json!({"kind": kind, "apiVersion": version, "metadata": {}, "items": items}))
}

fn success(body: &Value) -> Vec<Step> {
    json_text(&body.to_string())
}

fn json_text(body: &str) -> Vec<Step> {
    reply("200 OK", "Content-Type: application/json\r\n", body)
}

/// A Status whose texts attack the terminal.
fn failure(code: u16, headers: &str) -> Vec<Step> {
    let text = texts::CONTROLS;
    let cause = json!({"reason": "Hop", "message": text});
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": text, "message": text,
        "details": {"name": text, "kind": text, "causes": [cause]},
    });
    reply(&format!("{code} -"), &format!("Content-Type: application/json\r\n{headers}"), &status.to_string())
}

fn head_of_chunks() -> Step {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    Step::Send(head.as_bytes().to_vec())
}

fn chunk(text: &str) -> Vec<u8> {
    format!("{:x}\r\n{text}\r\n", text.len()).into_bytes()
}

const MANY: usize = 10_000;
/// Mebibytes of a flood: more than any limit for an answer, but no more than a machine can send in
/// seconds.
const FLOOD: usize = 1024;
