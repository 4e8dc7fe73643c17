//! Implements `kubectl api-resources` from aggregated discovery (kubectl:pkg/cmd/apiresources). Other forms
//! of discovery, and groups that did not respond, are left to kubectl.

use std::collections::HashSet;

use super::cluster_report::Report;
use crate::argv::Scanned;
use crate::multi::direct::answer::parse;
use crate::multi::direct::discovery::{ApiResource, Document, Store};
use crate::multi::direct::kubectl_flags::{Grammar, Words};
use crate::multi::direct::member::Member;
use crate::multi::direct::member_types;
use crate::multi::fault::Fault;
use crate::server_text::escaped;
use crate::tabwriter::TabWriter;

/// The selected types and their output format.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ApiResourcesPlan {
    group: Option<String>,
    namespaced: Option<bool>,
    verbs: Vec<String>,
    categories: Vec<String>,
    sort: Sort,
    output: Output,
    has_headers: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Sort {
    Group,
    Name,
    Kind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Output {
    Table,
    Wide,
    Name,
}

impl ApiResourcesPlan {
    pub(super) fn parse(scanned: &Scanned) -> Option<Self> {
        let words = Words::read(scanned, "api-resources", &GRAMMAR)?;
        let list = |name: &str| {
            let values = words.values(name).flat_map(|list| list.split(','));
            values.map(str::to_owned).collect::<Vec<_>>()
        };
        let plan = Self {
            group: words.value("api-group").map(str::to_owned),
            namespaced: words.is_given("namespaced").then(|| words.is_on("namespaced")),
            verbs: list("verbs"),
            categories: list("categories"),
            sort: match words.value("sort-by").unwrap_or_default() {
                "" => Sort::Group,
                "name" => Sort::Name,
                "kind" => Sort::Kind,
                _ => return None,
            },
            output: match words.value("output").unwrap_or_default() {
                "" => Output::Table,
                "wide" => Output::Wide,
                "name" => Output::Name,
                _ => return None,
            },
            has_headers: !words.is_on("no-headers"),
        };
        // kubectl parses a list as CSV.
        let is_plain = |value: &String| !value.is_empty() && !value.contains('"');
        let is_plain = plan.verbs.iter().chain(&plan.categories).all(is_plain);
        (is_plain && words.arguments.is_empty()).then_some(plan)
    }

    /// Whether the type is selected.
    fn selects(&self, resource: &ApiResource, verbs: &[String]) -> bool {
        !verbs.is_empty()
            && self.group.as_ref().is_none_or(|group| *group == resource.group)
            && self.namespaced.is_none_or(|namespaced| namespaced == resource.namespaced)
            && self.verbs.iter().all(|verb| verbs.contains(verb))
            && self.categories.iter().all(|category| resource.categories.contains(category))
    }

    fn print(&self, documents: [Document; 2]) -> String {
        let mut seen = HashSet::new();
        // The preferred version of a group comes first. A type is shown in that version, or else in the first
        // version that has it.
        let mut rows: Vec<(ApiResource, Vec<String>)> = documents
            .into_iter()
            .flat_map(Document::resources_and_verbs)
            .filter(|(resource, _)| seen.insert((resource.group.clone(), resource.plural.clone())))
            .filter(|(resource, verbs)| self.selects(resource, verbs))
            .collect();
        rows.sort_by(|(one, _), (other, _)| {
            let by = |resource: &ApiResource| match self.sort {
                Sort::Group => resource.group.clone(),
                Sort::Name => resource.plural.clone(),
                Sort::Kind => resource.kind.clone(),
            };
            by(one).cmp(&by(other)).then_with(|| one.plural.cmp(&other.plural))
        });
        let mut table = TabWriter::default();
        match self.output {
            _ if !self.has_headers => {}
            Output::Table => table.line("NAME\tSHORTNAMES\tAPIVERSION\tNAMESPACED\tKIND"),
            Output::Wide => table.line("NAME\tSHORTNAMES\tAPIVERSION\tNAMESPACED\tKIND\tVERBS\tCATEGORIES"),
            Output::Name => {}
        }
        for (resource, verbs) in &rows {
            let ApiResource { plural, short, namespaced, kind, categories, .. } = resource;
            let mut cells = match self.output {
                Output::Name => vec![resource.qualified()],
                Output::Table | Output::Wide => vec![
                    plural.clone(),
                    short.join(","),
                    resource.api_version(),
                    namespaced.to_string(),
                    kind.clone(),
                ],
            };
            if self.output == Output::Wide {
                cells.extend([verbs.join(","), categories.join(",")]);
            }
            table.line(&cells.iter().map(|cell| escaped(cell)).collect::<Vec<_>>().join("\t"));
        }
        table.flush()
    }
}

pub(super) async fn report(plan: &ApiResourcesPlan, member: &Member, store: &Store) -> Result<Report, Fault> {
    let (core, groups) = member_types::documents(member).await?;
    let documents = [parse::<Document>(&core)?, parse::<Document>(&groups)?];
    if documents.iter().any(|document| !document.is_aggregated() || document.has_stale()) {
        return Err(Fault::said("discovery of a group failed".to_owned()));
    }
    let types = [&core, &groups].map(|body| parse::<Document>(body).map(Document::resources));
    let [core_types, group_types] = types;
    store.keep(&member.discovery, &core_types?.chain(group_types?).collect());
    Ok(Report { lines: plan.print(documents), ..Report::default() })
}

const GRAMMAR: Grammar<'_> = Grammar {
    values: &["api-group", "verbs", "sort-by", "output", "categories"],
    switches: &["namespaced", "no-headers"],
};
