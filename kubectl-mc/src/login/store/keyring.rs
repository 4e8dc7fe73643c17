//! The keyring of the operating system: Keychain, Credential Manager or a Secret Service. It may ask its user to unlock
//! it, and a broken one may not answer: each call has a limit.

use std::sync::mpsc;
use std::time::Duration;

use keyring::{Entry, Error};

/// Holds secrets, each under a key; the label is for people who look into it.
pub(super) trait Keyring {
    fn load(&self, key: &str, label: &str) -> Result<Option<Vec<u8>>, KeyringError>;

    fn save(&self, key: &str, label: &str, secret: Vec<u8>) -> Result<(), KeyringError>;

    /// Returns whether there was one.
    fn remove(&self, key: &str, label: &str) -> Result<bool, KeyringError>;
}

/// That of the operating system.
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

/// One call, in a thread of its own.
fn call<T: Send + 'static>(
    key: &str,
    label: &str,
    ask: impl FnOnce(&Entry) -> Result<T, Error> + Send + 'static,
) -> Result<T, KeyringError> {
    let (sender, answer) = mpsc::channel();
    // The service names the plugin and the login; the user is what keyrings show.
    let (service, user) = (format!("kubectl-mc {}", &key[..32]), label.to_owned());
    std::thread::spawn(move || {
        let answer = match Entry::store_status() {
            Err(error) => Err(KeyringError::Absent(error.to_string())),
            Ok(()) => {
                Entry::new(&service, &user).and_then(|entry| ask(&entry)).map_err(KeyringError::Refused)
            }
        };
        // Without a receiver it came too late.
        let _ = sender.send(answer);
    });
    answer.recv_timeout(LIMIT).unwrap_or(Err(KeyringError::Silent))
}

/// Why the keyring does not serve.
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
