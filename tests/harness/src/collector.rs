//! Runs the OpenTelemetry Collector's own receiver (`tests/collector`), to which all programs of the bed send
//! their spans.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, PoisonError};
use std::thread;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use testbed::programs;

use crate::bed::bed;
use crate::turn::Turn;

/// The process. It is killed when this is dropped.
pub struct Collector {
    child: Child,
    address: String,
    #[expect(clippy::disallowed_types, reason = "held for an append, and never over an await")]
    spans: Arc<std::sync::Mutex<Vec<Span>>>,
    _turn: Turn,
}

/// A span and its service.
#[derive(Clone, Debug)]
pub struct Span {
    pub service: String,
    /// The span as in OTLP's JSON.
    pub value: Value,
}

impl Span {
    pub fn id(&self) -> &str {
        self.value["spanId"].as_str().unwrap_or_default()
    }

    pub fn trace(&self) -> &str {
        self.value["traceId"].as_str().unwrap_or_default()
    }

    pub fn parent(&self) -> &str {
        self.value["parentSpanId"].as_str().unwrap_or_default()
    }

    /// An attribute as text.
    pub fn attribute(&self, key: &str) -> Option<String> {
        attribute(&self.value, key)
    }
}

impl Collector {
    /// Starts the bed's collector, of which there is one at a time.
    pub fn start() -> Result<Self> {
        let turn = Turn::take("collector")?;
        let (bed, program) = (bed()?, programs::collector());
        let socket = bed.collector.as_ref().context("the bed has no tracing: start it with --tracing")?;
        ensure!(program.exists(), "not built: {}: run `target/debug/testbed build`", program.display());
        // The socket of a collector that was killed.
        let _ = std::fs::remove_file(socket);
        let mut child = Command::new(program)
            .arg(socket)
            .arg(bed.address.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("no standard output")?).lines();
        let address = lines.next().context("the collector ended")??;
        let spans = Arc::default();
        let mut collector = Self { child, address, spans, _turn: turn };
        collector.follow(lines);
        Ok(collector)
    }

    /// Its address for spans over TCP: `address:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// All spans of a trace so far.
    pub fn spans(&self, trace: &str) -> Vec<Span> {
        let spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        spans.iter().filter(|span| span.trace() == trace).cloned().collect()
    }

    fn follow(&mut self, lines: impl Iterator<Item = std::io::Result<String>> + Send + 'static) {
        let spans = self.spans.clone();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let batch = read(&line);
                spans.lock().unwrap_or_else(PoisonError::into_inner).extend(batch);
            }
        });
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The spans of one line of OTLP's JSON.
fn read(line: &str) -> Vec<Span> {
    let batch: Value = serde_json::from_str(line).unwrap_or_default();
    let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut spans = Vec::new();
    for of_resource in array(&batch["resourceSpans"]) {
        let service = attribute(&of_resource["resource"], "service.name").unwrap_or_default();
        for of_scope in array(&of_resource["scopeSpans"]) {
            let named = |value| Span { service: service.clone(), value };
            spans.extend(array(&of_scope["spans"]).into_iter().map(named));
        }
    }
    spans
}

fn attribute(of: &Value, key: &str) -> Option<String> {
    let found = of["attributes"].as_array()?.iter().find(|attribute| attribute["key"] == key)?;
    let value = found["value"].as_object()?.values().next()?;
    Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_with_their_service() {
        let line = r#"{"resourceSpans": [{
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "a"}}]},
            "scopeSpans": [{"spans": [{"traceId": "t", "spanId": "s", "parentSpanId": "p",
                "attributes": [{"key": "code", "value": {"intValue": "200"}}]}]}]}]}"#;
        let spans = read(line);
        assert_eq!(spans.len(), 1);
        let span = &spans[0];
        assert_eq!((&*span.service, span.trace(), span.id(), span.parent()), ("a", "t", "s", "p"));
        assert_eq!(span.attribute("code").as_deref(), Some("200"));
    }
}
