//! Accesses the keyring of the operating system: Keychain, Credential Manager or a Secret Service. It may
//! prompt the user to unlock it, and a broken one may hang, so each call has a timeout.

use std::sync::mpsc;
use std::time::Duration;

use keyring::{Entry, Error};

/// Stores secrets by key; the label is for users who inspect the keyring.
pub(super) trait Keyring {
    fn load(&self, key: &str, label: &str) -> Result<Option<Vec<u8>>, KeyringError>;

    fn save(&self, key: &str, label: &str, secret: Vec<u8>) -> Result<(), KeyringError>;

    /// Returns whether the secret existed.
    fn remove(&self, key: &str, label: &str) -> Result<bool, KeyringError>;
}

/// The keyring of the operating system.
pub(super) struct SystemKeyring;

impl Keyring for SystemKeyring {
    fn load(&self, key: &str, label: &str) -> Result<Option<Vec<u8>>, KeyringError> {
        match call(key, label, Entry::get_secret) {
            Err(KeyringError::Refused(Error::NoEntry)) => Ok(None),
            answer => answer.map(Some),
        }
    }

    fn save(&self, key: &str, label: &str, secret: Vec<u8>) -> Result<(), KeyringError> {
        call(key, label, move |entry| entry.set_secret(&secret))
    }

    fn remove(&self, key: &str, label: &str) -> Result<bool, KeyringError> {
        match call(key, label, Entry::delete_credential) {
            Err(KeyringError::Refused(Error::NoEntry)) => Ok(false),
            answer => answer.map(|()| true),
        }
    }
}

/// Runs one call in a separate thread.
fn call<T: Send + 'static>(
    key: &str,
    label: &str,
    ask: impl FnOnce(&Entry) -> Result<T, Error> + Send + 'static,
) -> Result<T, KeyringError> {
    let (sender, answer) = mpsc::channel();
    // The service identifies the plugin and the login; keyrings display the user.
    let (service, user) = (format!("kubectl-mc {}", &key[..32]), label.to_owned());
    std::thread::spawn(move || {
        let answer = match Entry::store_status() {
            Err(error) => Err(KeyringError::Absent(error.to_string())),
            Ok(()) => {
                Entry::new(&service, &user).and_then(|entry| ask(&entry)).map_err(KeyringError::Refused)
            }
        };
        // A missing receiver means that the call timed out.
        let _ = sender.send(answer);
    });
    answer.recv_timeout(LIMIT).unwrap_or(Err(KeyringError::Silent))
}

/// Why the keyring is not usable.
#[derive(Debug, thiserror::Error)]
pub(in crate::login) enum KeyringError {
    #[error("this system has no keyring that can be used: {0}")]
    Absent(String),
    #[error("the keyring did not answer within {} s", LIMIT.as_secs())]
    Silent,
    #[error("the keyring refused: {0}")]
    Refused(Error),
}

/// Enough to type a password.
const LIMIT: Duration = Duration::from_secs(60);
