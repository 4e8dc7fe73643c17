//! Formats the lines of a log: filtered, and prefixed with their origin.

use std::borrow::Cow;
use std::sync::Arc;

use crate::cluster::cluster_id::ClusterId;
use serde::Serialize;

use super::super::lines::split_time;
use super::super::stream::LineFormat;
use super::plan::{Format, TailPlan};
use super::template::{Field, Part, Template};
use crate::multi::colors::{self, Colors};
use crate::multi::direct::task::{Merge, Task};
use crate::multi::lines::after_each_return;
use crate::server_text::escaped;

/// The formatting that all lines share.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look {
    pub(super) colors: bool,
    /// Whether the default format names the cluster, padded to a common width.
    pub(super) cluster: bool,
    pub(super) width: usize,
    /// Whether the default format names the namespace.
    pub(super) namespace: bool,
}

/// The state of one `tail` for all its clusters.
pub(super) struct Tail {
    pub(super) plan: TailPlan,
    pub(super) look: Look,
}

impl Tail {
    pub(super) fn new(plan: &TailPlan, task: &Task<'_>) -> Arc<Self> {
        let is_marked = task.merge == Merge::Marked;
        let look = Look {
            colors: Colors::new(task.color, task.env).out,
            cluster: is_marked,
            width: task.clusters.iter().map(|name| name.as_str().len()).max().unwrap_or(0),
            namespace: plan.has_several_namespaces(),
        };
        Arc::new(Self { plan: plan.clone(), look })
    }

    /// Number of streaming requests to one cluster: its logs, and a watch of pods for each namespace.
    pub(super) fn streams(&self) -> usize {
        self.plan.most.saturating_add(self.plan.namespaces("").len())
    }
}

/// The origin of a log.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) cluster: ClusterId,
    /// The position of the cluster, which determines its color.
    pub(super) place: usize,
    pub(super) namespace: String,
    pub(super) pod: String,
    pub(super) container: String,
    pub(super) node: String,
}

/// Formats the lines of one log.
pub(super) struct TailLines {
    tail: Arc<Tail>,
    origin: Origin,
    /// `None` means JSON.
    template: Option<Vec<Piece>>,
}

/// A part of the template, with everything constant already filled in.
enum Piece {
    Text(Vec<u8>),
    Time,
    Message,
}

impl TailLines {
    pub(super) fn new(tail: Arc<Tail>, origin: Origin) -> Self {
        let Look { colors, cluster, width, namespace } = tail.look;
        let field = |field: &Field, width: usize| {
            let of_pod =
                origin.pod.bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
            let (text, color) = match field {
                Field::Cluster => (origin.cluster.as_str(), Some(origin.place)),
                Field::Namespace => (origin.namespace.as_str(), None),
                Field::Pod => (origin.pod.as_str(), Some(of_pod)),
                Field::Container => (origin.container.as_str(), Some(of_pod)),
                Field::Node => (origin.node.as_str(), None),
                Field::Time => return Piece::Time,
                Field::Message => return Piece::Message,
            };
            let text = format!("{:width$}", escaped(text));
            let text = color.filter(|_| colors).map_or_else(|| text.clone(), |at| colors::paint(&text, at));
            Piece::Text(text.into_bytes())
        };
        let template = match &tail.plan.format {
            Format::Json => None,
            Format::Template(Template(parts)) => Some(
                parts
                    .iter()
                    .map(|part| match part {
                        Part::Text(text) => Piece::Text(text.clone().into_bytes()),
                        Part::Field(name) => field(name, 0),
                    })
                    .collect(),
            ),
            Format::Default { timestamps } => {
                let space = || Piece::Text(b" ".to_vec());
                let mut pieces = Vec::new();
                for (name, is_shown) in [
                    (Field::Cluster, cluster),
                    (Field::Namespace, namespace),
                    (Field::Pod, true),
                    (Field::Container, true),
                ] {
                    if is_shown {
                        let width = if name == Field::Cluster { width } else { 0 };
                        pieces.extend([field(&name, width), space()]);
                    }
                }
                pieces.push(Piece::Text(b"| ".to_vec()));
                if *timestamps {
                    pieces.extend([Piece::Time, space()]);
                }
                pieces.push(Piece::Message);
                Some(pieces)
            }
        };
        Self { tail, origin, template }
    }

    fn json(&self, time: Option<&str>, message: &[u8], to: &mut Vec<u8>) {
        let Origin { cluster, namespace, pod, container, node, place: _ } = &self.origin;
        let message = String::from_utf8_lossy(message);
        let cluster = cluster.as_str();
        let line = JsonLine { cluster, namespace, pod, container, node, time, message };
        // Writing to a vector cannot fail, and strings always serialize.
        let _ = serde_json::to_writer(&mut *to, &line);
    }
}

impl LineFormat for TailLines {
    fn show(&self, line: &[u8], to: &mut Vec<u8>) {
        let (time, message) = split_time(line);
        let message = message.strip_suffix(b"\n").unwrap_or(message);
        if !self.tail.plan.lines.want(message.strip_suffix(b"\r").unwrap_or(message)) {
            return;
        }
        match &self.template {
            None => self.json(time, message, to),
            Some(pieces) => {
                let begin = to.len();
                for piece in pieces {
                    match piece {
                        Piece::Text(text) => to.extend_from_slice(text),
                        Piece::Time => to.extend_from_slice(time.unwrap_or_default().as_bytes()),
                        Piece::Message => {
                            // A carriage return would overwrite the text before the message.
                            let before = to.split_off(begin);
                            to.extend_from_slice(&after_each_return(&before, message));
                        }
                    }
                }
            }
        }
        to.push(b'\n');
    }
}

/// One line as a JSON object.
#[derive(Serialize)]
struct JsonLine<'a> {
    cluster: &'a str,
    namespace: &'a str,
    pod: &'a str,
    container: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    node: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<&'a str>,
    message: Cow<'a, str>,
}

#[cfg(test)]
mod tests;
