//! Implements `kubectl top pod` from the metrics API (kubectl:pkg/cmd/top, pkg/metricsutil). Pods without
//! metrics are left to kubectl, which explains why there are none.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::cluster_report::Report;
use super::quantity::Quantity;
use crate::argv::Scanned;
use crate::multi::direct::answer;
use crate::multi::direct::kubectl_flags::{Grammar, Words};
use crate::multi::direct::member::{Member, Query};
use crate::multi::fault::Fault;
use crate::server_text::ServerText;
use crate::tabwriter::TabWriter;

/// The selected pods and their output format.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TopPodPlan {
    name: Option<String>,
    /// `--namespace`; `None` means that of the context.
    namespace: Option<String>,
    all_namespaces: bool,
    selector: Option<String>,
    has_containers: bool,
    has_headers: bool,
}

impl TopPodPlan {
    pub(super) fn parse(scanned: &Scanned) -> Option<Self> {
        let words = Words::read_two(scanned, "top", &["pod", "pods", "po"], &GRAMMAR)?;
        let name = match words.arguments.as_slice() {
            [] => None,
            [name] => Some(name.clone()),
            _ => return None,
        };
        let plan = Self {
            name,
            namespace: words.text("namespace"),
            all_namespaces: words.is_on("all-namespaces"),
            selector: words.text("selector"),
            has_containers: words.is_on("containers"),
            has_headers: !words.is_on("no-headers"),
        };
        let is_plain_name = |name: &String| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b))
        };
        let narrowed = plan.selector.is_some() || plan.all_namespaces;
        plan.name.as_ref().is_none_or(|name| is_plain_name(name) && !narrowed).then_some(plan)
    }

    fn path(&self, member: &Member) -> String {
        let root = match self.all_namespaces {
            true => format!("{METRICS}/pods"),
            false => {
                format!("{METRICS}/namespaces/{}/pods", member.namespace(self.namespace.as_deref()))
            }
        };
        match &self.name {
            Some(name) => format!("{root}/{name}"),
            None => {
                format!("{root}{}", Query::default().with_some("labelSelector", self.selector.as_deref()))
            }
        }
    }

    /// Returns `None` if an amount cannot be parsed.
    fn print(&self, mut pods: Vec<PodMetrics>) -> Option<String> {
        let mut table = TabWriter::default();
        if self.has_headers {
            let namespace = if self.all_namespaces { "NAMESPACE\t" } else { "" };
            let pod = if self.has_containers { "POD\t" } else { "" };
            table.line(&format!("{namespace}{pod}NAME\tCPU(cores)\tMEMORY(bytes)\t"));
        }
        pods.sort_by(|one, other| {
            let namespace = |pod: &PodMetrics| self.all_namespaces.then(|| pod.metadata.namespace.clone());
            (namespace(one), &one.metadata.name).cmp(&(namespace(other), &other.metadata.name))
        });
        for PodMetrics { metadata: Metadata { name, namespace }, mut containers } in pods {
            let namespace = if self.all_namespaces { format!("{namespace}\t") } else { String::new() };
            if !self.has_containers {
                let usage = containers.iter().try_fold(Usage::default(), |sum, container| {
                    let usage = container.usage()?;
                    Some(Usage { cpu: sum.cpu.plus(usage.cpu)?, memory: sum.memory.plus(usage.memory)? })
                });
                table.line(&format!("{namespace}{name}\t{}", usage?.cells()));
                continue;
            }
            containers.sort_by(|one, other| one.name.cmp(&other.name));
            for container in &containers {
                table.line(&format!("{namespace}{name}\t{}\t{}", container.name, container.usage()?.cells()));
            }
        }
        Some(table.flush())
    }
}

pub(super) async fn report(plan: &TopPodPlan, member: &Member) -> Result<Report, Fault> {
    let body = member.get(&plan.path(member), "application/json").await?;
    let pods = match &plan.name {
        Some(_) => vec![answer::object::<PodMetrics>(&body, "PodMetrics")?],
        None => answer::list(&body)?.items,
    };
    if pods.is_empty() {
        return Err(Fault::said("metrics not available yet".to_owned()));
    }
    let lines = plan
        .print(pods)
        .ok_or_else(|| Fault::Unreadable("the metrics hold an amount that is not a quantity".into()))?;
    Ok(Report { lines, ..Report::default() })
}

#[derive(Debug, Deserialize)]
struct PodMetrics {
    metadata: Metadata,
    #[serde(default)]
    containers: Vec<Container>,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    name: ServerText,
    #[serde(default)]
    namespace: ServerText,
}

#[derive(Debug, Deserialize)]
struct Container {
    name: ServerText,
    #[serde(default)]
    usage: BTreeMap<String, String>,
}

impl Container {
    fn usage(&self) -> Option<Usage> {
        let amount = |resource| match self.usage.get(resource) {
            Some(text) => Quantity::parse(text),
            None => Some(Quantity::default()),
        };
        Some(Usage { cpu: amount("cpu")?, memory: amount("memory")? })
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    cpu: Quantity,
    memory: Quantity,
}

impl Usage {
    fn cells(self) -> String {
        format!("{}m\t{}Mi\t", self.cpu.millis(), self.memory.value() / MEBIBYTE)
    }
}

const GRAMMAR: Grammar<'_> =
    Grammar { values: &["selector"], switches: &["all-namespaces", "containers", "no-headers"] };

const METRICS: &str = "/apis/metrics.k8s.io/v1beta1";

const MEBIBYTE: i128 = 1024 * 1024;
