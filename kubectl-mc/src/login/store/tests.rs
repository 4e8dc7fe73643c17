use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::json;

use super::*;
use crate::env;
use crate::login::record::Credential;

struct Scene {
    folder: tempfile::TempDir,
    store: Store,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let env: Env = [(env::XDG_STATE_HOME, folder.path())].into_iter().collect();
        let binding = Binding::requested("hub", "https://h", &json!({"server": "https://h"})).unwrap();
        let store = Store::new(&binding, &env).unwrap();
        Self { folder, store }
    }

    fn save(&self, token: &str) -> Result<Place, StoreError> {
        self.store.save(&record(token), CredentialStore::File)
    }
}

fn record(token: &str) -> Record {
    Record {
        variables: Vec::new(),
        server: "https://h".to_owned(),
        arguments: Vec::new(),
        credential: Credential::of_token(token.to_owned()),
        refresh_token: None,
        client_secret: None,
    }
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

/// A keyring with a size limit, as on Windows and macOS.
#[derive(Clone, Default)]
struct SmallKeyring(std::rc::Rc<std::cell::RefCell<Option<Vec<u8>>>>);

impl Keyring for SmallKeyring {
    fn load(&self, _: &str, _: &str) -> Result<Option<Vec<u8>>, KeyringError> {
        Ok(self.0.borrow().clone())
    }

    fn save(&self, _: &str, _: &str, secret: Vec<u8>) -> Result<(), KeyringError> {
        if secret.len() > 2560 {
            return Err(KeyringError::Refused(::keyring::Error::TooLong("secret".to_owned(), 2560)));
        }
        *self.0.borrow_mut() = Some(secret);
        Ok(())
    }

    fn remove(&self, _: &str, _: &str) -> Result<bool, KeyringError> {
        Ok(self.0.borrow_mut().take().is_some())
    }
}

#[test]
fn credential_too_large_for_the_keyring_is_in_a_file() {
    let keyring = SmallKeyring::default();
    let mut scene = Scene::new();
    scene.store.keyring = Box::new(keyring.clone());
    let token = || {
        let (record, place) = scene.store.load().unwrap().unwrap();
        (record.credential.token.unwrap(), place)
    };
    let save = |token: &str, wanted| scene.store.save(&record(token), wanted);
    let large = "x".repeat(3000);

    assert!(matches!(save("small", CredentialStore::Auto), Ok(Place::Keyring)));
    let Ok(Place::File(file, Some(reason))) = save(&large, CredentialStore::Auto) else {
        panic!("not in a file")
    };
    assert!(reason.to_string().starts_with("the keyring refused: "), "{reason}");
    assert!(!reason.to_string().contains("xxx"), "{reason}");
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    assert_eq!(token(), (large.clone(), CredentialStore::File));
    assert!(keyring.0.borrow().is_none(), "the older credential is gone");

    // Only the keyring was wanted, so the stored login does not change.
    let error = save(&"y".repeat(3000), CredentialStore::Keyring).unwrap_err();
    assert!(error.hint().unwrap().to_string().contains("--credential-store=file"));
    assert_eq!(token(), (large, CredentialStore::File));

    assert!(matches!(save("small again", CredentialStore::Auto), Ok(Place::Keyring)));
    assert!(!file.exists());
    assert_eq!(token(), ("small again".to_owned(), CredentialStore::Keyring));
}

#[test]
fn fault_81_stored_login_is_no_bearer_token() {
    let scene = Scene::new();
    let Ok(Place::File(file, None)) = scene.save("one") else { panic!("not in a file") };
    let content = std::fs::read_to_string(file).unwrap();
    assert!(http::HeaderValue::from_str(content.trim()).is_err(), "{content}");
}

#[test]
fn file_and_folder_are_private_to_the_owner() {
    let scene = Scene::new();
    let Ok(Place::File(file, None)) = scene.save("one") else { panic!("not in a file") };
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    scene.save("two").unwrap();
    let (record, place) = scene.store.load().unwrap().unwrap();
    assert!(record.credential.token.as_deref() == Some("two") && place == CredentialStore::File);
    assert!(scene.store.remove_file().unwrap() && !scene.store.remove_file().unwrap());
    assert_eq!(std::fs::read_dir(scene.folder.path().join("kubectl-mc")).unwrap().count(), 0);
}

#[test]
fn file_readable_by_others_is_not_used() {
    let scene = Scene::new();
    scene.save("one").unwrap();
    let file = &scene.store.file;
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(scene.store.load().err().unwrap(), StoreError::NotPrivate { .. }));
    std::fs::remove_file(file).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", file).unwrap();
    assert!(matches!(scene.store.load().err().unwrap(), StoreError::NotPrivate { .. }));
}

#[test]
fn corrupt_file_is_reported() {
    let scene = Scene::new();
    scene.save("one").unwrap();
    std::fs::write(&scene.store.file, "{").unwrap();
    assert!(matches!(scene.store.load().err().unwrap(), StoreError::Unreadable { .. }));
}

#[test]
fn turn_locks_out_other_processes() {
    let scene = Scene::new();
    let turn = scene.store.turn().unwrap();
    let lock = File::open(scene.store.file.with_extension("lock")).unwrap();
    assert!(lock.try_lock().is_err());
    let error = scene.store.turn_within(std::time::Duration::from_millis(50)).err().unwrap();
    assert!(crate::error::chain(&error).ends_with(".lock: it did not end within 50ms"), "{error}");
    drop(turn);
    // A child of another test also holds the lock until its program starts.
    scene.store.turn_within(std::time::Duration::from_secs(10)).unwrap();
}
