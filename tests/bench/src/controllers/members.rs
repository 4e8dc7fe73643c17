//! Hundreds of members in one process. Each has its own path and serves as much of the Kubernetes
//! API as the sidecar's controllers use. The process stores what is written, counts requests, and
//! costs as little as possible.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use harness::bed::bed;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;

use crate::nginx::Certificates;

/// The members, which run until this is dropped.
pub(super) struct Members {
    pub(super) address: SocketAddr,
    told: watch::Sender<Told>,
    runtime: Runtime,
}

/// What all members have received.
#[derive(Default)]
struct Told {
    /// The objects as they were written, by path.
    objects: BTreeMap<String, Bytes>,
    calls: Calls,
    open: usize,
    /// The name that we look for in ClusterRoles, the number of members that have it, and the times
    /// when a member got or lost it.
    awaited: String,
    having: usize,
    changed: Vec<Instant>,
}

/// The number of requests to members, by kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Calls {
    pub(super) connections: usize,
    /// The highest number of concurrent calls.
    pub(super) at_once: usize,
    /// `/readyz` and `/version`.
    pub(super) probes: usize,
    pub(super) reads: usize,
    pub(super) writes: usize,
    pub(super) tokens: usize,
}

impl Members {
    pub(super) fn start(certificates: &Certificates) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind((bed()?.address, 0)))?;
        let address = listener.local_addr()?;
        let told = watch::Sender::new(Told::default());
        runtime.spawn(serve(listener, acceptor(certificates)?, told.clone()));
        Ok(Self { address, told, runtime })
    }

    /// The URL of a member.
    pub(super) fn server(&self, name: &str) -> String {
        format!("https://{}{PREFIX}{name}", self.address)
    }

    pub(super) fn calls(&self) -> Calls {
        self.told.borrow().calls
    }

    /// From now on counts the members that allow the impersonation of this name.
    pub(super) fn look_for(&self, name: &str) {
        self.told.send_modify(|told| {
            told.awaited = format!("\"{name}\"");
            told.having = told.objects.iter().filter(|(path, text)| told.has(path, text)).count();
            told.changed.clear();
        });
    }

    /// Waits until this many members have the name. Returns when the first member changed and when
    /// the last did.
    pub(super) fn until(&self, having: usize) -> Result<(Instant, Instant)> {
        let mut told = self.told.subscribe();
        self.runtime.block_on(async {
            let found = tokio::time::timeout(PATIENCE, told.wait_for(|told| told.having == having)).await;
            let found = found.with_context(|| format!("not {having} members have it"))??;
            let changed = &found.changed;
            Ok((*changed.first().context("nothing changed")?, *changed.last().context("nothing changed")?))
        })
    }

    /// Waits until there have been enough calls.
    pub(super) fn until_called(&self, enough: impl Fn(Calls) -> bool) -> Result<()> {
        let mut told = self.told.subscribe();
        self.runtime.block_on(async {
            let found = tokio::time::timeout(PATIENCE, told.wait_for(|told| enough(told.calls))).await;
            found.context("the members were not asked as often").map(drop)
        })
    }
}

impl Calls {
    pub(super) fn all(self) -> usize {
        self.probes + self.reads + self.writes + self.tokens
    }

    pub(super) fn since(self, before: Self) -> Self {
        Self {
            connections: self.connections - before.connections,
            at_once: self.at_once,
            probes: self.probes - before.probes,
            reads: self.reads - before.reads,
            writes: self.writes - before.writes,
            tokens: self.tokens - before.tokens,
        }
    }
}

impl Told {
    /// Whether an object is a role with the name that is looked for.
    fn has(&self, path: &str, text: &[u8]) -> bool {
        let awaited = self.awaited.as_bytes();
        !awaited.is_empty()
            && path.contains("/clusterroles/")
            && text.windows(awaited.len()).any(|part| part == awaited)
    }

    fn answer(&mut self, method: &Method, path: &str, body: Bytes) -> (StatusCode, Bytes) {
        let last = path.rsplit('/').next().unwrap_or_default();
        match (method, last) {
            (&Method::GET, "readyz") => {
                self.calls.probes += 1;
                (StatusCode::OK, Bytes::from_static(b"ok"))
            }
            (&Method::GET, "version") => {
                self.calls.probes += 1;
                (StatusCode::OK, Bytes::from_static(VERSION))
            }
            (&Method::GET, "roles" | "rolebindings") => {
                self.calls.reads += 1;
                (StatusCode::OK, self.list(path, last))
            }
            (&Method::GET, _) => {
                self.calls.reads += 1;
                let found = self.objects.get(path).cloned();
                found.map_or((StatusCode::NOT_FOUND, Bytes::from_static(NOT_FOUND)), |text| {
                    (StatusCode::OK, text)
                })
            }
            (&Method::POST, "token") => {
                self.calls.tokens += 1;
                (StatusCode::CREATED, token_request(path).into())
            }
            (&Method::PATCH, _) => {
                self.calls.writes += 1;
                let before = self.objects.insert(path.to_owned(), body.clone());
                let had = before.as_ref().is_some_and(|before| self.has(path, before));
                self.count(had, self.has(path, &body));
                (if before.is_some() { StatusCode::OK } else { StatusCode::CREATED }, body)
            }
            _ => {
                self.calls.writes += 1;
                self.objects.remove(path);
                (StatusCode::OK, Bytes::from_static(br#"{"kind":"Status","status":"Success"}"#))
            }
        }
    }

    fn count(&mut self, had: bool, has: bool) {
        if had != has {
            self.having = if has { self.having + 1 } else { self.having - 1 };
            self.changed.push(Instant::now());
        }
    }

    /// A list over all namespaces of a member.
    fn list(&self, path: &str, kind: &str) -> Bytes {
        let member = path.split("/apis/").next().unwrap_or_default();
        let of_member = self
            .objects
            .range(member.to_owned()..)
            .take_while(|(path, _)| path.strip_prefix(member).is_some_and(|rest| rest.starts_with("/apis/")));
        let kind = format!("/{kind}/");
        let items: Vec<_> = of_member
            .filter(|(path, _)| path.contains("/namespaces/") && path.contains(&kind))
            .map(|(_, text)| String::from_utf8_lossy(text))
            .collect();
        format!(r#"{{"metadata":{{"resourceVersion":"1"}},"items":[{}]}}"#, items.join(",")).into()
    }
}

fn acceptor(certificates: &Certificates) -> Result<TlsAcceptor> {
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(
            CertificateDer::pem_file_iter(&certificates.certificate)?.collect::<Result<_, _>>()?,
            PrivateKeyDer::from_pem_file(&certificates.key)?,
        )?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, told: watch::Sender<Told>) {
    while let Ok((socket, _)) = listener.accept().await {
        let (acceptor, told) = (acceptor.clone(), told.clone());
        tokio::spawn(async move {
            let stream = acceptor.accept(socket).await?;
            told.send_modify(|told| {
                told.open += 1;
                told.calls.connections += 1;
                told.calls.at_once = told.calls.at_once.max(told.open);
            });
            let answer = service_fn(|request| answer(request, &told));
            // The client decides how a connection ends.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
            told.send_modify(|told| told.open -= 1);
            Ok::<_, std::io::Error>(())
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    told: &watch::Sender<Told>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let mut answered = None;
    told.send_modify(|told| answered = Some(told.answer(&head.method, head.uri.path(), body)));
    let (status, text) = answered.unwrap_or_default();
    let mut response = Response::new(Full::new(text));
    *response.status_mut() = status;
    let json = hyper::header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, json);
    Ok(response)
}

/// A token for this account, without a valid signature.
pub(super) fn token(account: &str, lives: Duration) -> Result<String> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
    let claims = json!({
        "sub": format!("system:serviceaccount:kubectl-mc-system:{account}"),
        "iat": now, "nbf": now, "exp": now + lives.as_secs(),
        // It is as long as a real one.
        "iss": "https://kubernetes.default.svc.cluster.local", "signed": "x".repeat(500),
    });
    Ok(format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string())))
}

fn token_request(path: &str) -> String {
    let account = path.rsplit('/').nth(1).unwrap_or_default();
    let token = token(account, DAY).unwrap_or_default();
    json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {}, "spec": {"audiences": []},
        "status": {"token": token, "expirationTimestamp": "2100-01-01T00:00:00Z"},
    })
    .to_string()
}

/// The prefix of a member's path.
const PREFIX: &str = "/member/";
pub(super) const DAY: Duration = Duration::from_secs(24 * 3600);
const PATIENCE: Duration = Duration::from_secs(120);
const VERSION: &[u8] = br#"{"major":"1","minor":"36","gitVersion":"v1.36.3"}"#;
const NOT_FOUND: &[u8] = br#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",
    "message":"not found","reason":"NotFound","code":404}"#;
