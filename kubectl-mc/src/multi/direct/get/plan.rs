//! Plans a `kubectl get` for direct requests. kubectl runs every command that the plan does not cover
//! exactly.

use super::list::Source;
use super::union::template::Template;
use crate::argv::Scanned;
use crate::multi::direct::kubectl_flags::{Grammar, Words};
use crate::multi::direct::server_table::Columns;

/// A `kubectl get`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GetPlan {
    pub(super) objects: Objects,
    pub(super) source: Source,
    pub(super) output: Output,
    /// `--sort-by`
    pub(super) sort_by: Option<String>,
    pub(super) watch: bool,
    pub(super) managed_fields: bool,
}

/// The selected objects.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Objects {
    /// All objects of these types; a word may be a category.
    All(Vec<String>),
    /// Objects by type and name, in the given order.
    Named(Vec<(String, String)>),
}

/// The output format.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Output {
    Table(Columns),
    Json,
    Yaml,
    Name,
    /// One JSON object per line, a format that kubectl does not have.
    NdJson,
    /// A template, which kubectl prints.
    Template(Template),
}

impl GetPlan {
    /// The plan for these arguments, if they are supported.
    pub(crate) fn of(scanned: &Scanned) -> Option<Self> {
        Self::read(&Words::read(scanned, "get", &GRAMMAR)?)
    }

    /// The plan for the objects of `VERB [get] TYPE/NAME …`, which may be missing. `own` is an additional
    /// switch of the verb.
    pub(in crate::multi::direct) fn of_objects(
        scanned: &Scanned,
        verb: &str,
        own: &'static str,
    ) -> Option<Self> {
        let switches = [GRAMMAR.switches, &[own]].concat();
        let mut words = Words::read(scanned, verb, &Grammar { switches: &switches, ..GRAMMAR })?;
        if words.arguments.first().is_some_and(|word| word == "get") {
            words.arguments.remove(0);
        }
        let mut plan = Self::read(&words)?;
        let plain = plan.output == Output::Table(Columns::default()) && !plan.watch && plan.sort_by.is_none();
        (plan.output, plan.source.ignore_not_found) = (Output::Json, true);
        plain.then_some(plan)
    }

    /// Whether the plan streams until it is interrupted.
    pub(crate) fn is_watch(&self) -> bool {
        self.watch
    }

    /// Whether kubectl must sort or print the objects, which it does for several clusters together.
    pub(crate) fn needs_kubectl(&self) -> bool {
        self.sort_by.is_some() || matches!(self.output, Output::Template(_))
    }

    /// Whether the output is YAML, which has kubectl's form only from kubectl.
    pub(crate) fn is_yaml(&self) -> bool {
        self.output == Output::Yaml
    }

    /// Whether the output is none of kubectl's.
    pub(crate) fn is_own_format(&self) -> bool {
        self.output == Output::NdJson
    }

    fn read(words: &Words<'_>) -> Option<Self> {
        let columns = Columns {
            wide: words.value("output") == Some("wide"),
            no_headers: words.is_on("no-headers"),
            show_labels: words.is_on("show-labels"),
            labels: words
                .values("label-columns")
                .flat_map(|list| list.split(','))
                .map(str::to_owned)
                .collect(),
        };
        let template = Template::read(words);
        let has_template_flags =
            ["template", "allow-missing-template-keys"].iter().any(|flag| words.is_given(flag));
        // Without headers, it is also a table of custom columns.
        let no_headers = Columns { no_headers: columns.no_headers, ..Columns::default() };
        let output = match words.value("output").unwrap_or_default() {
            _ if template.is_some() && columns != no_headers => return None,
            _ if let Some(template) = template => Output::Template(template),
            _ if has_template_flags => return None,
            "" | "wide" => Output::Table(columns),
            // kubectl refuses some of these combinations with its own message.
            _ if columns != Columns::default() => return None,
            "json" => Output::Json,
            "yaml" => Output::Yaml,
            "name" => Output::Name,
            NDJSON => Output::NdJson,
            _ => return None,
        };
        let source = Source {
            all_namespaces: words.is_on("all-namespaces"),
            namespace: words.text("namespace"),
            selector: words.text("selector").map(|selector| selector.trim().to_owned()),
            field_selector: words.text("field-selector").map(|selector| selector.trim().to_owned()),
            chunk: words.value("chunk-size").map(str::parse).transpose().ok()?,
            ignore_not_found: words.is_on("ignore-not-found"),
            whole_rows: words.text("sort-by").is_some() && matches!(output, Output::Table(_)),
        };
        let plan = Self {
            objects: Objects::of(&words.arguments)?,
            source,
            output,
            sort_by: words.text("sort-by"),
            watch: words.is_on("watch"),
            managed_fields: words.is_on("show-managed-fields"),
        };
        plan.is_plain().then_some(plan)
    }

    /// Whether kubectl would run the command without reporting an error itself.
    fn is_plain(&self) -> bool {
        let by_name = matches!(self.objects, Objects::Named(_));
        let Source { selector, field_selector, all_namespaces, ignore_not_found, .. } = &self.source;
        let narrowed = selector.is_some() || field_selector.is_some() || *all_namespaces;
        // Names exclude selectors, and a watch has one type and prints a table.
        let watchable = matches!(&self.output, Output::Table(_))
            && match &self.objects {
                Objects::All(types) => types.len() == 1,
                Objects::Named(names) => names.len() == 1,
            };
        !(by_name && narrowed) && (!self.watch || (watchable && !ignore_not_found && self.sort_by.is_none()))
    }
}

impl Objects {
    /// Parses `pods`, `pods,services`, `pod a b` or `pod/a service/b`.
    fn of(arguments: &[String]) -> Option<Self> {
        let plain = |word: &str| !word.is_empty() && !word.contains(['/', ',']);
        if arguments.iter().all(|word| word.contains('/')) {
            let named = arguments.iter().map(|word| {
                let (kind, name) = word.split_once('/')?;
                (plain(kind) && plain(name)).then(|| (kind.to_owned(), name.to_owned()))
            });
            return named.collect::<Option<Vec<_>>>().filter(|named| !named.is_empty()).map(Self::Named);
        }
        match arguments {
            [types] => {
                let types: Vec<String> = types.split(',').map(str::to_owned).collect();
                types.iter().all(|word| plain(word)).then_some(Self::All(types))
            }
            [kind, names @ ..] if plain(kind) && names.iter().all(|name| plain(name)) => {
                Some(Self::Named(names.iter().map(|name| (kind.clone(), name.clone())).collect()))
            }
            _ => None,
        }
    }
}

const GRAMMAR: Grammar = Grammar {
    values: &["output", "selector", "field-selector", "label-columns", "chunk-size", "sort-by", "template"],
    switches: &[
        "all-namespaces",
        "watch",
        "no-headers",
        "show-labels",
        "ignore-not-found",
        "show-managed-fields",
        "allow-missing-template-keys",
    ],
};

/// The plugin's own format: newline-delimited JSON.
pub(crate) const NDJSON: &str = "ndjson";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::argv;

    fn plan(words: &str) -> Option<GetPlan> {
        GetPlan::of(&argv::scan(words.split(' ').map(Into::into).collect()))
    }

    #[test]
    fn tables_lists_and_names_are_planned() {
        for words in [
            "get pods",
            "get po,svc -A -o wide",
            "get all",
            "get deployments.v1.apps web -o json",
            "get pod/a svc/b -o name",
            "-n kube-system get pods -l app=x --field-selector status.phase=Running --show-labels",
            "get pods -w --no-headers",
            "get pod a --watch",
            "get pods -Lapp,tier --chunk-size=50",
            "get pods -o ndjson",
        ] {
            assert!(plan(words).is_some(), "{words}");
        }
        let named = Objects::Named(vec![("pod".into(), "a".into()), ("pod".into(), "b".into())]);
        assert_eq!(plan("get pod a b").unwrap().objects, named);
    }

    #[test]
    fn templates_and_sorting_need_kubectl() {
        for words in [
            "get pods --sort-by=.metadata.name",
            "get pods --sort-by=.metadata.name -o name",
            "get pods -o jsonpath={.items}",
            "get pods --template={{.items}}",
            "get pods -o custom-columns=A:.b --no-headers",
            "get pods -o go-template-file=x --allow-missing-template-keys=false",
        ] {
            assert!(plan(words).unwrap().needs_kubectl(), "{words}");
        }
        assert!(!plan("get pods -o name").unwrap().needs_kubectl());
    }

    #[test]
    fn other_requests_are_left_to_kubectl() {
        for words in [
            "get",
            "get -f pods.yaml",
            "get pods -o jsonpath={.items} -w",
            "get pods -o json --template={{.items}}",
            "get pods --sort-by=.metadata.name -w",
            "get pods -o jsonpath={.items} --show-labels",
            "get --raw /version",
            "get pods --subresource=status",
            "get pods,",
            "get pods,svc web",
            "get pod/a svc",
            "get pod/a/b",
            "get pod a -A",
            "get pod a -l x=y",
            "get pods,svc -w",
            "get pods -w -o json",
            "get pods -o json --show-labels",
            "get pods --server-print=false",
            "get pods --output-watch-events -w",
            "describe pods",
        ] {
            assert_eq!(plan(words), None, "{words}");
        }
    }
}
