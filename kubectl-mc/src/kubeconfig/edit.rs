//! Edits the user's kubeconfig. Everything outside the changed entries, including comments, stays
//! unchanged byte for byte: the edit changes the text, and the file is written only if the edited
//! text has exactly the intended meaning.

mod file;
mod section;
mod text;

use std::path::{Path, PathBuf};

use serde_json::Value;

use self::file::LockedFile;
pub(crate) use self::section::{Section, list};
use crate::cache;
use crate::cluster::context::ClusterContext;
use crate::env::Env;
use crate::error::{Explain, Failure, Hint};
use crate::exit::ExitStatus;

/// The user's file that contains the host's context. It stays locked until this value is dropped.
pub(crate) struct UserFile {
    path: PathBuf,
    file: LockedFile,
    old: Value,
}

impl UserFile {
    /// Opens the first of the user's own files that contains the host's context.
    pub(crate) fn open(host: &ClusterContext, env: &Env) -> Result<Self, EditError> {
        let holds_host = |file: &Path| {
            let text = std::fs::read_to_string(file).ok()?;
            let contexts = parse(&text)?.get("contexts")?.as_array()?.clone();
            contexts.iter().any(|context| context["name"].as_str() == host.context.as_deref()).then_some(())
        };
        let is_kept = |file: &&PathBuf| !cache::is_own_file(file, env) && !cache::is_copy(file);
        let mut own = host.files.iter().filter(is_kept);
        let path = own.find(|file| holds_host(file).is_some()).cloned();
        let path = path.ok_or_else(|| EditError::NoFile { host: host.context_name() })?;
        let file = LockedFile::open(&path)?;
        let old = parse(file.text());
        let old = old.ok_or_else(|| EditError::Unsupported {
            file: path.clone(),
            reason: "it is not one YAML document",
        })?;
        Ok(Self { path, file, old })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its current content.
    pub(crate) fn content(&self) -> &Value {
        &self.old
    }

    /// Applies the changes of the lists. Writes nothing if nothing changes.
    pub(crate) fn write(&self, sections: &[Section]) -> Result<(), EditError> {
        if sections.iter().all(Section::is_empty) {
            return Ok(());
        }
        let wanted = self.wanted(sections);
        let edited = text::edit(self.file.text(), sections, &wanted);
        match edited.filter(|edited| parse(edited).as_ref() == Some(&wanted)) {
            Some(edited) => Ok(self.file.replace(&edited)?),
            None => {
                Err(EditError::Unsupported { file: self.path.clone(), reason: "its form is not kubectl's" })
            }
        }
    }

    /// The content after the changes.
    pub(crate) fn wanted(&self, sections: &[Section]) -> Value {
        let mut wanted = self.old.clone();
        for section in sections.iter().filter(|section| !section.is_empty()) {
            wanted[section.key] = section.apply(&self.old).into();
        }
        wanted
    }
}

/// Parses the document; an empty file is an empty mapping.
pub(super) fn parse(text: &str) -> Option<Value> {
    match serde_saphyr::from_str(text).ok()? {
        Value::Null => Some(Value::Object(serde_json::Map::new())),
        value @ Value::Object(_) => Some(value),
        _ => None,
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum EditError {
    #[error("no kubeconfig file holds {host}")]
    NoFile { host: String },
    #[error("cannot edit {}: {reason}, so an edit might lose parts of it", file.display())]
    Unsupported { file: PathBuf, reason: &'static str },
    #[error("{0}")]
    File(Failure),
}

impl From<Failure> for EditError {
    fn from(failure: Failure) -> Self {
        Self::File(failure)
    }
}

impl Explain for EditError {
    fn hint(&self) -> Option<Hint> {
        match self {
            Self::NoFile { .. } | Self::Unsupported { .. } => None,
            Self::File(failure) => failure.hint.clone(),
        }
    }

    fn status(&self) -> ExitStatus {
        match self {
            Self::NoFile { .. } | Self::Unsupported { .. } => ExitStatus::Usage,
            Self::File(failure) => failure.status,
        }
    }
}
