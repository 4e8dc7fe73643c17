//! Parses the arguments of `kubectl mc tail`.

use regex::bytes::Regex;

use super::super::options::{LogOptions, Since};
use super::template::Template;
use crate::argv::{Scanned, TAIL};
use crate::error::{Failure, mc};
use crate::multi::direct::kubectl_flags::{Grammar, Words};
use crate::multi::direct::path_name::is_name;
use crate::multi::selection::expression_error;

/// A parsed `kubectl mc tail`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TailPlan {
    /// `None` means all namespaces; an empty list means that of the kubeconfig.
    namespaces: Option<Vec<String>>,
    pub(super) selector: Option<String>,
    pub(super) field_selector: Option<String>,
    pub(super) pods: Patterns,
    pub(super) containers: Patterns,
    pub(super) lines: Patterns,
    pub(super) options: LogOptions,
    pub(super) format: Format,
    /// Maximum number of open logs of one cluster.
    pub(super) most: usize,
}

/// The output format of a line.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Format {
    Default { timestamps: bool },
    Template(Template),
    Json,
}

/// Filters texts by patterns.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Patterns {
    /// If there are any, one of these must match.
    include: Vec<Pattern>,
    exclude: Vec<Pattern>,
}

impl Patterns {
    pub(super) fn want(&self, text: &[u8]) -> bool {
        let any = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.0.is_match(text));
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }

    fn read(words: &Words<'_>, include: &'static str, exclude: &'static str) -> Result<Self, Failure> {
        Ok(Self { include: Pattern::of_flag(words, include)?, exclude: Pattern::of_flag(words, exclude)? })
    }
}

#[derive(Clone, Debug)]
struct Pattern(Regex);

impl Pattern {
    /// The values of a flag; an empty value means absence, as in kubectl.
    fn of_flag(words: &Words<'_>, flag: &'static str) -> Result<Vec<Self>, Failure> {
        words.values(flag).filter(|text| !text.is_empty()).map(|text| Self::read(flag, text)).collect()
    }

    fn read(flag: &'static str, text: &str) -> Result<Self, Failure> {
        let wrong = |error: regex::Error| {
            let why = expression_error(&error);
            Failure::usage(format!("invalid regular expression {text:?}{}: {why}", of_flag(flag)))
        };
        Ok(Self(Regex::new(text).map_err(wrong)?))
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl TailPlan {
    /// Parses the words of a command line.
    pub(crate) fn parse(scanned: &Scanned) -> Result<Self, Failure> {
        if let Some(word) = GRAMMAR.unknown(scanned) {
            return Err(see_help(format!(
                "`kubectl mc tail` has no flag {}, or the flag lacks its value",
                word.to_string_lossy()
            )));
        }
        let words =
            Words::read(scanned, TAIL, &GRAMMAR).ok_or_else(|| Failure::usage("an argument is not UTF-8"))?;
        let pod = match words.arguments.as_slice() {
            [] => None,
            [pod] if pod.contains('/') => {
                return Err(Failure::usage(format!(
                    "{pod:?} is an object, not a regular expression for names of pods"
                ))
                .with_hint(mc(format!("logs {pod}")).that("shows the log of one of its pods")));
            }
            [pod] => Some(pod.as_str()).filter(|pod| !pod.is_empty()),
            [_, other, ..] => {
                return Err(see_help(format!("more than one regular expression: {other:?} is the second")));
            }
        };
        let (selector, field_selector) = (words.text("selector"), words.text("field-selector"));
        if pod.is_none() && selector.is_none() && field_selector.is_none() {
            return Err(Failure::usage(
                "no pods chosen: give a regular expression that matches their names, or a label selector",
            )
            .with_hint(mc("tail '^web-' -f --all-clusters").after("for example")));
        }
        let invalid = |flag: &'static str| invalid_value(flag, words.value(flag).unwrap_or_default());
        let since = Since::parse(words.text("since"), words.text("since-time")).ok_or_else(|| {
            match (words.value("since"), words.value("since-time")) {
                (Some(_), Some(_)) => contradiction("--since", "--since-time"),
                (None, _) => invalid("since-time"),
                _ => invalid("since"),
            }
        })?;
        let tail = match words.value("tail").map(str::parse::<i64>) {
            None => (since == Since::Ever).then_some(LINES),
            Some(Ok(-1)) => None,
            Some(lines) => {
                Some(lines.ok().and_then(|n| u64::try_from(n).ok()).ok_or_else(|| invalid("tail"))?)
            }
        };
        let follow = words.is_on("follow");
        let most = match words.value("max-log-requests").map(str::parse) {
            None => {
                if follow {
                    FOLLOWED
                } else {
                    READ
                }
            }
            Some(Ok(most)) if most > 0 => most,
            Some(_) => return Err(invalid("max-log-requests")),
        };
        let namespaces = words.values("namespace").flat_map(|names| names.split(','));
        let mut namespaces: Vec<_> = namespaces.filter(|name| !name.is_empty()).map(str::to_owned).collect();
        namespaces.sort();
        namespaces.dedup();
        if namespaces.iter().any(|name| !is_name(name)) {
            return Err(invalid("namespace"));
        }
        Ok(Self {
            namespaces: (!words.is_on("all-namespaces")).then_some(namespaces),
            selector,
            field_selector,
            pods: Patterns {
                include: pod.map(|pod| Pattern::read("", pod)).transpose()?.into_iter().collect(),
                exclude: Pattern::of_flag(&words, "exclude-pod")?,
            },
            containers: Patterns::read(&words, "container", "exclude-container")?,
            lines: Patterns::read(&words, "include-line", "exclude-line")?,
            options: LogOptions { follow, previous: false, since, tail },
            format: format(&words)?,
            most,
        })
    }

    /// Whether the plan covers several namespaces.
    pub(super) fn has_several_namespaces(&self) -> bool {
        self.namespaces.as_ref().is_none_or(|names| names.len() > 1)
    }

    /// The namespaces to search; `None` means all of them.
    pub(super) fn namespaces(&self, default: &str) -> Vec<Option<String>> {
        match &self.namespaces {
            None => vec![None],
            Some(names) if names.is_empty() => vec![Some(default.to_owned())],
            Some(names) => names.iter().cloned().map(Some).collect(),
        }
    }

    /// Whether the plan follows the logs.
    pub(crate) fn follows(&self) -> bool {
        self.options.follow
    }
}

fn format(words: &Words<'_>) -> Result<Format, Failure> {
    let timestamps = words.is_on("timestamps");
    let output = words.text("output");
    match (words.text("template"), output.as_deref()) {
        (None, None) => Ok(Format::Default { timestamps }),
        (Some(_), Some(_)) => Err(contradiction("--template", "--output")),
        _ if timestamps => match output {
            Some(_) => Err(contradiction("--output", "--timestamps")),
            None => {
                Err(contradiction("--template", "--timestamps").with_hint("{time} is the time in a template"))
            }
        },
        (Some(template), None) => Template::parse(&template).map(Format::Template),
        (None, Some("json")) => Ok(Format::Json),
        (None, Some(other)) => Err(invalid_value("output", other)),
    }
}

fn see_help(text: String) -> Failure {
    Failure::usage(text).with_hint(mc("tail --help").that("shows its arguments"))
}

fn contradiction(one: &str, other: &str) -> Failure {
    Failure::usage(format!("{one} and {other} contradict each other"))
}

fn invalid_value(flag: &str, value: &str) -> Failure {
    let hint = match flag {
        "output" => "the formats are json, and --template",
        "since" => "for example: --since=30s, --since=2h",
        "since-time" => "for example: --since-time=2026-01-31T12:00:00Z",
        "namespace" => "names, separated by commas; -A means all namespaces",
        "tail" => "a number of lines, or -1 for all",
        _ => "a number of at least 1",
    };
    Failure::usage(format!("invalid value {value:?} of --{flag}")).with_hint(hint)
}

const GRAMMAR: Grammar<'_> = Grammar {
    values: &[
        "container",
        "exclude-container",
        "exclude-line",
        "exclude-pod",
        "field-selector",
        "include-line",
        "max-log-requests",
        "output",
        "selector",
        "since",
        "since-time",
        "tail",
        "template",
    ],
    switches: &["all-namespaces", "follow", "timestamps"],
};

/// For each log, as `tail` prints for each file.
const LINES: u64 = 10;
/// The limit of stern for followed logs.
const FOLLOWED: usize = 50;
/// The number of logs that kubectl reads in parallel.
const READ: usize = 5;

fn of_flag(flag: &str) -> String {
    if flag.is_empty() { String::new() } else { format!(" of --{flag}") }
}

#[cfg(test)]
mod tests;
