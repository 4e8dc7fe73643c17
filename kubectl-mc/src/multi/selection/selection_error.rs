//! The reasons why a selection contains no clusters, with the next step.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use kubectl_mc_api::ClusterName;

use super::term::Kind;
use crate::cli::FoundHub;
use crate::cluster::cluster_id::ClusterId;
use crate::cluster::inventory::InventoryError;
use crate::error::{Explain, Failure, Hint, mc};
use crate::exit::ExitStatus;
use crate::suggestion;

#[derive(Debug, thiserror::Error)]
pub(crate) enum SelectionError {
    #[error("no {} matches", from.word())]
    Nothing { known: Vec<ClusterId>, from: Kind },
    #[error("cluster unknown: {name}")]
    Unknown { name: ClusterName, known: Vec<ClusterName> },
    #[error("context unknown: {name}")]
    UnknownContext { name: String, known: Vec<ClusterId> },
    #[error("cannot exclude {name}: no such cluster")]
    Excluded { name: String, known: Vec<ClusterId> },
    #[error("a member and a context are both named {name}")]
    SameName { name: String },
    #[error("contexts have neither labels nor conditions to choose by")]
    NoLabels,
    #[error("no set @{name} in {}", name_of(file.as_deref()))]
    NoSet { name: String, known: Vec<String>, file: Option<PathBuf> },
    #[error("the set @{name} contains itself")]
    Circle { name: String },
    /// A term or a filter is invalid.
    #[error("{0}")]
    Invalid(Failure),
    #[error(transparent)]
    List(#[from] InventoryError),
}

impl SelectionError {
    /// Adds the name of the configuration file of the sets.
    pub(crate) fn in_file(self, configuration: Option<PathBuf>) -> Self {
        match self {
            Self::NoSet { name, known, .. } => Self::NoSet { name, known, file: configuration },
            error => error,
        }
    }
}

impl From<Failure> for SelectionError {
    fn from(failure: Failure) -> Self {
        Self::Invalid(failure)
    }
}

impl Explain for SelectionError {
    fn found_hub(&self) -> Option<&FoundHub> {
        match self {
            Self::List(error) => error.found_hub(),
            _ => None,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Nothing { known, from } => Some(what_there_is(known, *from)),
            Self::Unknown { name, known } => {
                let known = known.iter().map(ClusterName::as_str).collect::<Vec<_>>();
                Some(nearest_or_all(name.as_str(), &known, Kind::Members))
            }
            Self::UnknownContext { name, known } => Some(nearest_of(name, known, Kind::Contexts)),
            Self::Excluded { name, known } => {
                let is_context = known.iter().any(|cluster| cluster.context().is_some());
                let kind = if is_context { Kind::Contexts } else { Kind::Members };
                Some(nearest_of(name, known, kind))
            }
            Self::SameName { .. } => Some("choose one of them, or rename the context".into()),
            Self::NoLabels => Some("--context-selector chooses by server, user and namespace".into()),
            Self::NoSet { known, file, .. } if known.is_empty() => Some(match file {
                Some(file) if !file.exists() => "the file does not exist; its key `sets` defines sets".into(),
                _ => "the file has no sets; its key `sets` defines them".into(),
            }),
            Self::NoSet { name, known, .. } => {
                let all = format!("there are @{}", known.join(", @"));
                let nearest = suggestion::nearest(name, known.iter().map(String::as_str));
                Some(
                    nearest
                        .map_or_else(|| all.clone(), |nearest| format!("did you mean @{nearest}? {all}"))
                        .into(),
                )
            }
            Self::Circle { .. } => None,
            Self::Invalid(failure) => failure.hint.clone(),
            Self::List(error) => error.hint(),
        }
    }

    fn status(&self) -> ExitStatus {
        match self {
            Self::Nothing { .. }
            | Self::Unknown { .. }
            | Self::UnknownContext { .. }
            | Self::Excluded { .. } => ExitStatus::NoSuchCluster,
            Self::SameName { .. }
            | Self::NoLabels
            | Self::NoSet { .. }
            | Self::Circle { .. }
            | Self::Invalid(_) => ExitStatus::Usage,
            Self::List(error) => error.status(),
        }
    }
}

/// The configuration file in a message.
fn name_of(file: Option<&Path>) -> String {
    file.map_or_else(|| "the configuration".to_owned(), |file| file.display().to_string())
}

fn nearest_of(name: &str, known: &[ClusterId], kind: Kind) -> Hint {
    nearest_or_all(name, &known.iter().map(ClusterId::as_str).collect::<Vec<_>>(), kind)
}

fn nearest_or_all(name: &str, known: &[&str], kind: Kind) -> Hint {
    match suggestion::nearest(name, known.iter().copied()) {
        Some(nearest) => format!("did you mean {nearest}?").into(),
        None => what_there_is(known, kind),
    }
}

/// Such as `there are m1, m2 and 7 more: …`.
pub(crate) fn what_there_is<T: Display>(known: &[T], kind: Kind) -> Hint {
    let list = match kind {
        Kind::Members => mc("clusters"),
        Kind::Contexts => mc("clusters --contexts"),
    };
    if known.is_empty() {
        return match kind {
            Kind::Members => list.that("lists the clusters that you may use"),
            Kind::Contexts => list.that("lists the contexts"),
        };
    }
    let shown: Vec<_> = known.iter().take(SHOWN).map(T::to_string).collect();
    let shown = shown.join(", ");
    match known.len().saturating_sub(SHOWN) {
        0 => format!("there are {shown}").into(),
        more => Hint::from(format!("there are {shown} and {more} more: ")).then(list.that("lists them")),
    }
}

/// Limits the number of names, which would otherwise fill the terminal.
const SHOWN: usize = 20;
