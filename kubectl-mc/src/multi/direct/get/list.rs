//! Prints objects as JSON, YAML or names. It requests them in chunks and prints them as they arrive.

use std::ops::ControlFlow;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::mpsc::Sender;

use super::ask::Ask;
use super::plan::Output;
use crate::cluster::cluster_id::ClusterId;
use crate::json;
use crate::multi::direct::answer::{self, Page, parse};
use crate::multi::direct::discovery::ApiResource;
use crate::multi::direct::member::Query;
use crate::multi::direct::task::{Merge, Task};
use crate::multi::document;
use crate::multi::fault::Fault;
use crate::multi::ordered_output::Sink;
use crate::server_text::escaped;
use crate::yaml;

/// The source of the objects.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Source {
    pub(super) all_namespaces: bool,
    /// `--namespace`; `None` means the context's namespace.
    pub(super) namespace: Option<String>,
    pub(super) selector: Option<String>,
    pub(super) field_selector: Option<String>,
    /// Maximum number of objects per request; kubectl's `--chunk-size`.
    pub(super) chunk: Option<u32>,
    pub(super) ignore_not_found: bool,
    /// Whether each row of a table includes its whole object, for sorting.
    pub(super) whole_rows: bool,
}

impl Source {
    /// The query that selects the objects of a list.
    pub(super) fn query(&self) -> Query {
        Query::default()
            .with_some("labelSelector", self.selector.as_deref())
            .with_some("fieldSelector", self.field_selector.as_deref())
            .with_some("includeObject", self.whole_rows.then_some("Object"))
    }

    pub(super) fn path(&self, ask: &Ask) -> String {
        let namespace = (!self.all_namespaces).then(|| ask.member.namespace(self.namespace.as_deref()));
        ask.resource.path(namespace)
    }

    /// Requests the objects of one member, converts each, and sends it.
    async fn fetch_items<T>(
        &self,
        ask: &Ask,
        accept: &str,
        chunk: u32,
        convert: impl Fn(&RawValue) -> Result<T, Fault>,
        sender: &Sender<Vec<T>>,
    ) -> Result<(), Fault> {
        let is_list = ask.names.is_none();
        let take = |body: Bytes| {
            if !is_list {
                answer::check_kind(&body, &[&ask.resource.kind, "PartialObjectMetadata"])?;
                return Ok((vec![convert(answer::parse(&body)?)?], String::new()));
            }
            let page: Page<&RawValue> = answer::list(&body)?;
            let items = page.items.into_iter().map(&convert).collect::<Result<_, _>>()?;
            Ok((items, page.metadata.next))
        };
        self.fetch(ask, accept, chunk, take, sender).await
    }

    /// Requests the objects of a list in chunks, or each object by its name. `take` parses a body and returns
    /// the token of the next chunk.
    pub(super) async fn fetch<T>(
        &self,
        ask: &Ask,
        accept: &str,
        chunk: u32,
        mut take: impl FnMut(Bytes) -> Result<(T, String), Fault>,
        sender: &Sender<T>,
    ) -> Result<(), Fault> {
        let path = self.path(ask);
        let mut result = Ok(());
        for name in ask.names.iter().flatten() {
            let name = percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC);
            let query = Query::default().with_some("includeObject", self.whole_rows.then_some("Object"));
            match ask.member.get(&format!("{path}/{name}{query}"), accept).await.and_then(&mut take) {
                Ok((piece, _)) => {
                    if sender.send(piece).await.is_err() {
                        return result;
                    }
                }
                Err(failure) if failure.is_not_found() && self.ignore_not_found => {}
                Err(failure) if failure.is_of_the_member() => return Err(failure),
                Err(failure) => result = result.and(Err(failure)),
            }
        }
        if ask.names.is_some() {
            return result;
        }
        let limit = self.chunk.unwrap_or(chunk);
        let limit = (limit > 0).then(|| limit.to_string());
        let mut next = String::new();
        loop {
            let token = Some(next.as_str()).filter(|next| !next.is_empty());
            let query = self.query().with_some("limit", limit.as_deref()).with_some("continue", token);
            let (piece, token) =
                ask.member.get(&format!("{path}{query}"), accept).await.and_then(&mut take)?;
            if sender.send(piece).await.is_err() || token.is_empty() {
                return Ok(());
            }
            next = token;
        }
    }
}

/// The output format of an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ItemFormat {
    Json {
        depth: usize,
    },
    /// As an item of a list; kubectl prints the YAML of one cluster.
    Yaml,
    Name,
    /// One object per line.
    NdJson,
}

/// Converts objects to text.
#[derive(Clone)]
pub(super) struct Items {
    pub(super) source: Source,
    pub(super) form: ItemFormat,
    pub(super) merge: Merge,
    pub(super) managed_fields: bool,
    /// Length of the longest cluster name.
    pub(super) width: usize,
}

/// The fields that the output of names needs.
#[derive(Deserialize)]
struct Named {
    metadata: Name,
}

#[derive(Deserialize)]
struct Name {
    name: String,
}

impl Items {
    /// Requests the objects of one member, and sends them as text.
    pub(super) async fn fetch(self, ask: Ask, sender: Sender<Vec<String>>) -> Result<(), Fault> {
        let (accept, chunk) = match self.form {
            ItemFormat::Name if ask.names.is_none() => (NAMES, NAMES_CHUNK),
            ItemFormat::Name => (NAME, NAMES_CHUNK),
            ItemFormat::Json { .. } | ItemFormat::Yaml | ItemFormat::NdJson => (OBJECTS, OBJECTS_CHUNK),
        };
        let write = |item: &RawValue| self.write(item, &ask);
        self.source.fetch_items(&ask, accept, chunk, write, &sender).await
    }

    fn write(&self, item: &RawValue, ask: &Ask) -> Result<String, Fault> {
        let Ask { member, resource, names: _ } = ask;
        let marked = self.merge == Merge::Marked || self.form == ItemFormat::NdJson;
        if self.form == ItemFormat::Name {
            let named: Named = parse(item.get().as_bytes())?;
            let name = format!("{}/{}", resource.prefix(), named.metadata.name);
            return Ok(if marked { marked_name(&member.name, self.width, &name) } else { escaped(&name) });
        }
        let mut item = value(item, resource)?;
        if !self.managed_fields {
            remove_managed_fields(&mut item);
        }
        if marked {
            document::mark(&mut item, &member.name);
        }
        Ok(match self.form {
            ItemFormat::Json { depth } => json::text(&item, depth),
            ItemFormat::Yaml => yaml::text(&item, 2),
            ItemFormat::NdJson => item.to_string(),
            ItemFormat::Name => String::new(),
        })
    }
}

/// The line of a name with its cluster, without its end.
pub(super) fn marked_name(cluster: &ClusterId, width: usize, name: &str) -> String {
    format!("{:width$} | {}", cluster.as_str(), escaped(name))
}

/// Removes fields that kubectl shows only on request.
pub(super) fn remove_managed_fields(item: &mut Value) {
    if let Some(metadata) = item.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// Requests the objects of one member, and sends them as JSON values.
pub(super) async fn values(source: Source, ask: Ask, sender: Sender<Vec<Value>>) -> Result<(), Fault> {
    let value = |item: &RawValue| value(item, &ask.resource);
    source.fetch_items(&ask, OBJECTS, OBJECTS_CHUNK, value, &sender).await
}

/// An object with its type, which items of a list may lack.
pub(super) fn value(item: &RawValue, resource: &ApiResource) -> Result<Value, Fault> {
    let mut item: Value = parse(item.get().as_bytes())?;
    if let Some(fields) = item.as_object_mut() {
        fields.entry("apiVersion").or_insert_with(|| resource.api_version().into());
        fields.entry("kind").or_insert_with(|| resource.kind.as_str().into());
    }
    Ok(item)
}

/// Writes a list around the objects as they arrive.
pub(super) struct ItemSink<'a> {
    task: &'a Task<'a>,
    form: ItemFormat,
    /// Whether a single requested object is written without a list.
    alone: bool,
    written: usize,
}

impl<'a> ItemSink<'a> {
    pub(super) fn new(task: &'a Task<'_>, output: &Output, alone: bool) -> Self {
        let form = match output {
            Output::Json => ItemFormat::Json { depth: if alone { 0 } else { 2 } },
            Output::Yaml => ItemFormat::Yaml,
            Output::NdJson => ItemFormat::NdJson,
            Output::Name | Output::Table(_) | Output::Template(_) => ItemFormat::Name,
        };
        Self { task, form, alone, written: 0 }
    }

    pub(super) fn form(&self) -> ItemFormat {
        self.form
    }

    /// Ends the list, with the errors of missing clusters in its metadata.
    pub(super) fn end(&mut self, failures: Vec<(ClusterId, Fault)>) {
        let failures: Vec<Value> = failures
            .into_iter()
            .filter_map(|(cluster, fault)| document::cluster_error(&cluster, &fault))
            .collect();
        if self.alone
            || matches!(self.form, ItemFormat::Name | ItemFormat::NdJson)
            || (self.task.merge == Merge::Plain && self.written == 0 && !failures.is_empty())
        {
            return;
        }
        let failures = if self.task.merge == Merge::Marked { failures } else { Vec::new() };
        let metadata = document::list_metadata(failures);
        let text = match self.form {
            ItemFormat::Json { .. } => {
                let items = match self.written {
                    0 => "{\n    \"apiVersion\": \"v1\",\n    \"items\": []",
                    _ => "\n    ]",
                };
                format!(
                    "{items},\n    \"kind\": \"List\",\n    \"metadata\": {}\n}}\n",
                    json::text(&metadata, 1)
                )
            }
            ItemFormat::Yaml | ItemFormat::Name | ItemFormat::NdJson => {
                let items = if self.written == 0 { "apiVersion: v1\nitems: []\n" } else { "" };
                let metadata = yaml::text(&serde_json::json!({"metadata": metadata}), 0);
                format!("{items}kind: List\n{metadata}")
            }
        };
        let _ = self.task.printer.stream(text.as_bytes());
    }
}

impl Sink<Vec<String>> for ItemSink<'_> {
    fn take(&mut self, _: usize, items: Vec<String>) -> ControlFlow<()> {
        let mut text = String::new();
        for item in items {
            match self.form {
                ItemFormat::Name | ItemFormat::NdJson => text.push_str(&item),
                ItemFormat::Json { .. } if self.alone => text.push_str(&item),
                ItemFormat::Json { .. } => {
                    text.push_str(match self.written {
                        0 => "{\n    \"apiVersion\": \"v1\",\n    \"items\": [\n        ",
                        _ => ",\n        ",
                    });
                    text.push_str(&item);
                }
                ItemFormat::Yaml => {
                    text.push_str(if self.written == 0 { "apiVersion: v1\nitems:\n- " } else { "- " });
                    text.push_str(&item);
                }
            }
            let is_line = matches!(self.form, ItemFormat::Name | ItemFormat::NdJson);
            if is_line || matches!(self.form, ItemFormat::Json { .. } if self.alone) {
                text.push('\n');
            }
            self.written += 1;
        }
        if text.is_empty() { ControlFlow::Continue(()) } else { self.task.printer.stream(text.as_bytes()) }
    }
}

const OBJECTS: &str = "application/json";
const NAMES: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json";
const NAME: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json";
/// Whole objects are large, so a smaller chunk saves memory.
const OBJECTS_CHUNK: u32 = 100;
const NAMES_CHUNK: u32 = 500;
