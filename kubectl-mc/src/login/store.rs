//! Stores a login in the keyring of the operating system, or in a file that only its owner can read. A file
//! takes precedence over the keyring; a login leaves only one of the two.

mod keyring;

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use self::keyring::{Keyring, KeyringError, SystemKeyring};
use super::binding::Binding;
use super::record::Record;
use crate::cache;
use crate::child_output::{LIMIT, within};
use crate::cli::CredentialStore;
use crate::env::Env;
use crate::error::{Explain, Failure, Hint, mc};

/// The storage of one login.
pub(super) struct Store {
    key: String,
    /// For users who inspect the keyring.
    label: String,
    file: PathBuf,
    keyring: Box<dyn Keyring>,
}

/// Where a login is stored.
#[derive(Debug)]
pub(super) enum Place {
    Keyring,
    /// The path, and the reason if the keyring was wanted but not used.
    File(PathBuf, Option<KeyringError>),
}

/// A lock: other processes wait while this one renews the login.
pub(super) struct Turn(#[expect(dead_code, reason = "closing it ends the turn")] File);

impl Store {
    pub(super) fn new(binding: &Binding, env: &Env) -> Result<Self, StoreError> {
        let key = binding.key();
        let file = cache::state_folder(env)?.join(format!("login-{}.json", &key[..32]));
        let label = format!("{} {} {}", binding.name(), binding.server(), &key[..8]);
        Ok(Self { key, label, file, keyring: Box::new(SystemKeyring) })
    }

    /// Waits for other processes that are renewing this login.
    pub(super) fn turn(&self) -> Result<Turn, StoreError> {
        self.turn_within(LIMIT)
    }

    fn turn_within(&self, limit: Duration) -> Result<Turn, StoreError> {
        let path = self.file.with_extension("lock");
        let failed = |source| StoreError::File { file: path.clone(), source };
        let file = cache::open_private(&path).map_err(failed)?;
        within(limit, move || file.lock().map(|()| Turn(file))).map_err(failed)
    }

    /// The stored login and its location.
    pub(super) fn load(&self) -> Result<Option<(Record, CredentialStore)>, StoreError> {
        if let Some(text) = self.read_file()? {
            let record = serde_json::from_slice(&text);
            let record =
                record.map_err(|_| StoreError::Unreadable { place: self.file.display().to_string() })?;
            return Ok(Some((record, CredentialStore::File)));
        }
        match self.keyring.load(&self.key, &self.label) {
            Ok(None) | Err(KeyringError::Absent(_)) => Ok(None),
            Ok(Some(text)) => {
                let record = serde_json::from_slice(&text);
                let record =
                    record.map_err(|_| StoreError::Unreadable { place: "the keyring".to_owned() })?;
                Ok(Some((record, CredentialStore::Keyring)))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn read_file(&self) -> Result<Option<Vec<u8>>, StoreError> {
        let file = || self.file.clone();
        match fs::symlink_metadata(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Ok(_) if !cache::is_private_file(&self.file) => Err(StoreError::NotPrivate { file: file() }),
            _ => fs::read(&self.file).map(Some).map_err(|source| StoreError::File { file: file(), source }),
        }
    }

    /// Replaces the stored login.
    pub(super) fn save(&self, record: &Record, wanted: CredentialStore) -> Result<Place, StoreError> {
        let text = serde_json::to_vec(record).map_err(|_| StoreError::Unwritable)?;
        let refused = match wanted {
            CredentialStore::File => None,
            CredentialStore::Auto | CredentialStore::Keyring => {
                match self.keyring.save(&self.key, &self.label, text.clone()) {
                    Ok(()) => {
                        self.remove_file()?;
                        return Ok(Place::Keyring);
                    }
                    Err(error) if wanted == CredentialStore::Keyring => return Err(error.into()),
                    Err(error) => Some(error),
                }
            }
        };
        // It has several lines: kubectl sends the content of a tokenFile to the server, and another
        // person's kubeconfig can name this file. A header has only one line, so the content is not
        // a valid header.
        let text = serde_json::to_vec_pretty(record).map_err(|_| StoreError::Unwritable)?;
        cache::replace(&self.file, &text)
            .map_err(|source| StoreError::File { file: self.file.clone(), source })?;
        // Otherwise an older login in the keyring would be used once the file is gone.
        let _ = self.keyring.remove(&self.key, &self.label);
        Ok(Place::File(self.file.clone(), refused))
    }

    /// Removes the login; returns whether it existed.
    pub(super) fn remove(&self) -> Result<bool, StoreError> {
        let was_in_file = self.remove_file()?;
        match self.keyring.remove(&self.key, &self.label) {
            Ok(was_in_keyring) => Ok(was_in_file || was_in_keyring),
            Err(KeyringError::Absent(_)) => Ok(was_in_file),
            Err(error) => Err(error.into()),
        }
    }

    fn remove_file(&self) -> Result<bool, StoreError> {
        match fs::remove_file(&self.file) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(StoreError::File { file: self.file.clone(), source }),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    #[error("{0}")]
    Folder(Failure),
    #[error("cannot use {}", file.display())]
    File { file: PathBuf, source: io::Error },
    #[error("other users may read {}", file.display())]
    NotPrivate { file: PathBuf },
    #[error("{place} holds no login of this plugin")]
    Unreadable { place: String },
    #[error("the login cannot be written as JSON")]
    Unwritable,
    #[error("cannot use the keyring")]
    Keyring(#[from] KeyringError),
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        Self::Folder(failure)
    }
}

impl Explain for StoreError {
    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Folder(error) => error.hint.clone(),
            Self::NotPrivate { file } => {
                let (why, file) = ("its credential may be known to others", file.display());
                let text = format!("{why}: remove the file and log in again: rm {file}");
                Some(Hint::from(text).and(mc("login")))
            }
            Self::Unreadable { .. } => Some(mc("logout").after("log in again").and(mc("login"))),
            Self::Keyring(_) => Some(mc("login --credential-store=file").after("a file in its place")),
            Self::File { .. } | Self::Unwritable => None,
        }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
