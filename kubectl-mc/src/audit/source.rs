//! Finds the audit events of one request. Lines that are not events, or belong to another request, are
//! skipped, so logs may contain both events and the sidecar's own lines.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use http::{Request, header};
use http_body_util::BodyExt;
use kube::client::Body;
use kubectl_mc_api::names::SIDECAR;
use serde_json::Value;

use crate::argv::Scanned;
use crate::cli::AuditArgs;
use crate::cluster::client::{self, ClientError};
use crate::cluster::context::ClusterContext;
use crate::cluster::fields::items;
use crate::env::Env;
use crate::error::{Context, Failure};
use crate::server_text::ServerText;

/// The events in files.
pub(super) fn of_files(arguments: &AuditArgs) -> Result<Vec<Value>, Failure> {
    let mut search = Search::new(&arguments.id);
    for file in &arguments.file {
        let failed = || format!("cannot read {}", file.display());
        let mut lines: Box<dyn BufRead> = match file == Path::new("-") {
            true => Box::new(io::stdin().lock()),
            false => Box::new(BufReader::new(File::open(file).context(failed)?)),
        };
        loop {
            let taken = {
                let piece = lines.fill_buf().context(failed)?;
                search.take(piece);
                piece.len()
            };
            if taken == 0 {
                break;
            }
            lines.consume(taken);
        }
        search.end();
    }
    Ok(search.found)
}

/// The events in the logs of the sidecar's pods, including terminated containers.
pub(super) fn of_pods(
    arguments: &AuditArgs,
    host: &ClusterContext,
    env: &Env,
) -> Result<Vec<Value>, Failure> {
    client::runtime()?.block_on(async {
        let client = client::connection(host, &Scanned::default(), env).await;
        let client = client.map_err(|error| error.of(&host.describe()))?;
        in_pods(arguments, host, &client).await
    })
}

async fn in_pods(
    arguments: &AuditArgs,
    host: &ClusterContext,
    client: &kube::Client,
) -> Result<Vec<Value>, Failure> {
    let pods = format!("/api/v1/namespaces/{}/pods", arguments.namespace);
    let path = format!("{pods}?labelSelector=app.kubernetes.io%2Fname%3D{SIDECAR}");
    let reply = client::get_by(client, &path, "application/json").await;
    let reply = reply.map_err(|error| error.of(&host.describe()))?;
    let failed = |error: kube::Error| client::failed(error).of(&host.describe());
    let refused = |message: ServerText| {
        let (host, namespace) = (host.describe(), &arguments.namespace);
        Failure::new(format!(
            "{host} does not show the logs of the sidecar in namespace {namespace}: {message}"
        ))
        .with_hint("it needs the rights to list pods and to get pods/log there; or --file=FILE")
    };
    if !reply.status.is_success() {
        return Err(refused(reply.message()));
    }
    let list = reply.json();
    let names: Vec<_> = items(&list)
        .filter_map(|pod| pod["metadata"]["name"].as_str())
        // The name becomes part of a path, so it is checked although the server sent it.
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte)))
        .collect();
    if names.is_empty() {
        let text =
            format!("{} has no pods of the sidecar in namespace {}", host.describe(), arguments.namespace);
        return Err(Failure::new(text).with_hint(
            "-n NAME names another namespace, --context=NAME the cluster that runs the sidecar (install --run-on), \
             --file=FILE a file with events",
        ));
    }
    let since =
        arguments.since.map(|since| format!("&sinceSeconds={}", since.as_secs().max(1))).unwrap_or_default();
    let mut search = Search::new(&arguments.id);
    let mut unread = None;
    for name in names {
        for previous in ["&previous=true", ""] {
            let path = format!("{pods}/{name}/log?container={SIDECAR}{since}{previous}");
            let request = Request::get(path).header(header::ACCEPT, "text/plain, */*").body(Body::empty());
            let request = request.map_err(|error| ClientError::Setup(Box::new(error)))?;
            let (head, mut body) = client.send(request).await.map_err(failed)?.into_parts();
            if !head.status.is_success() {
                // Most containers have run only once, and a pod may start or end at this moment.
                if previous.is_empty() {
                    let body = body.collect().await.map_err(failed)?.to_bytes();
                    unread = Some(client::Reply::new(&head, body).message());
                }
                continue;
            }
            while let Some(frame) = body.frame().await {
                if let Ok(piece) = frame.map_err(failed)?.into_data() {
                    search.take(&piece);
                }
            }
            search.end();
        }
    }
    match unread {
        Some(message) if search.found.is_empty() => Err(refused(message)),
        _ => Ok(search.found),
    }
}

/// A search in lines that arrive in pieces.
struct Search<'a> {
    id: &'a str,
    /// The id as a JSON string.
    escaped: String,
    line: Vec<u8>,
    /// Whether the line is longer than any event.
    is_too_long: bool,
    found: Vec<Value>,
}

impl<'a> Search<'a> {
    fn new(id: &'a str) -> Self {
        // Printable ASCII always serializes.
        let escaped = serde_json::to_string(id).unwrap_or_default();
        Self { id, escaped, line: Vec::new(), is_too_long: false, found: Vec::new() }
    }

    fn take(&mut self, piece: &[u8]) {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            if self.line.len() + part.len() > MAX_LINE {
                self.is_too_long = true;
                self.line.clear();
            }
            if !self.is_too_long {
                self.line.extend_from_slice(part);
            }
            if part.ends_with(b"\n") {
                self.end();
            }
        }
    }

    fn end(&mut self) {
        let line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.is_too_long) {
            return;
        }
        // Most lines belong to other requests, and parsing is the main cost.
        let Ok(text) = std::str::from_utf8(&line) else { return };
        if !text.contains(&self.escaped) || self.found.len() >= MAX_EVENTS {
            return;
        }
        // A container's log may have a timestamp before each line.
        let begin = text.find('{').unwrap_or_default();
        if let Ok(event) = serde_json::from_str::<Value>(&text[begin..])
            && event["kind"] == "Event"
            && event["auditID"] == self.id
        {
            self.found.push(event);
        }
    }
}

/// Enough for names, groups and a URI of 16 KiB each.
const MAX_LINE: usize = 1024 * 1024;
/// Bounds the memory, because a client can send the same id with every request.
const MAX_EVENTS: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_the_request_are_found_among_other_lines() {
        let event = |id: &str| format!(r#"{{"kind":"Event","auditID":"{id}"}}"#);
        let log = format!(
            "INFO request audit_id=a\n{}\nnot json a {{\n2026-11-25T03:00:00Z {}\n{}\n{}",
            event("a"),
            event("a"),
            event("ab"),
            event("a"),
        );
        for size in [1, 7, log.len()] {
            let mut search = Search::new("a");
            log.as_bytes().chunks(size).for_each(|piece| search.take(piece));
            search.end();
            assert_eq!(search.found.len(), 3, "{size}");
        }
    }

    #[test]
    fn escaped_id_is_found() {
        let mut search = Search::new(r#"a"\b"#);
        search.take(b"{\"kind\":\"Event\",\"auditID\":\"a\\\"\\\\b\"}\n");
        assert_eq!(search.found.len(), 1);
    }

    #[test]
    fn endless_line_is_skipped() {
        let mut search = Search::new("a");
        for _ in 0..3 {
            search.take(&vec![b'a'; MAX_LINE]);
        }
        assert!(search.line.len() <= MAX_LINE);
        search.take(b"\n{\"kind\":\"Event\",\"auditID\":\"a\"}\n");
        assert_eq!(search.found.len(), 1);
    }
}
