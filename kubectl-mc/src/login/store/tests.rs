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

#[test]
fn file_and_folder_are_for_their_owner_alone() {
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
fn file_that_others_may_read_is_not_used() {
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
fn broken_file_is_said() {
    let scene = Scene::new();
    scene.save("one").unwrap();
    std::fs::write(&scene.store.file, "{").unwrap();
    assert!(matches!(scene.store.load().err().unwrap(), StoreError::Unreadable { .. }));
}

#[test]
fn one_process_at_a_time_has_the_turn() {
    let scene = Scene::new();
    let turn = scene.store.turn().unwrap();
    let lock = File::open(scene.store.file.with_extension("lock")).unwrap();
    assert!(lock.try_lock().is_err());
    drop(turn);
    lock.try_lock().unwrap();
}
