use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use super::*;
use crate::exit::ExitStatus;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn open(base: &Path) -> Result<Cache, Failure> {
    Cache::open(&[(env::XDG_CACHE_HOME, base)].into_iter().collect())
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o777
}

#[test]
fn folder_and_files_are_private_to_the_owner() {
    let base = tempfile::tempdir().unwrap();
    let cache = open(&base.path().join("not/there/yet")).unwrap();
    let path = cache.store(b"content", SystemTime::now()).unwrap();
    assert_eq!((mode(&cache.folder), mode(&path)), (0o700, 0o600));
    assert_eq!(fs::read(&path).unwrap(), b"content");
    assert_eq!(fs::read_dir(&cache.folder).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn home_folder_is_used_without_an_absolute_cache_home() {
    let home = tempfile::tempdir().unwrap();
    let variables = [(env::HOME, home.path().as_os_str()), (env::XDG_CACHE_HOME, "relative".as_ref())];
    let cache = Cache::open(&variables.into_iter().collect()).unwrap();
    assert_eq!(cache.folder, home.path().join(".cache/kubectl-mc"));
}

#[test]
fn missing_or_unusable_home_leads_to_a_temporary_folder() {
    let base = tempfile::tempdir().unwrap();
    let file = base.path().join("file");
    fs::write(&file, "").unwrap();
    for home in [None, Some(file)] {
        let home = home.map(|home| (env::HOME, home.into_os_string()));
        let variables = [(env::TMPDIR, base.path().as_os_str().to_owned())].into_iter().chain(home);
        let cache = Cache::open(&variables.collect()).unwrap();
        let name = format!("kubectl-mc-{}", rustix::process::geteuid().as_raw());
        assert_eq!((cache.folder(), mode(cache.folder())), (base.path().join(name).as_path(), 0o700));
        cache.store(b"content", SystemTime::now()).unwrap();
    }
}

#[test]
fn shared_folder_is_refused_with_a_hint() {
    let base = tempfile::tempdir().unwrap();
    let folder = base.path().join("kubectl-mc");
    fs::create_dir(&folder).unwrap();
    for mode in [0o755, 0o710, 0o701] {
        fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
        let error = open(base.path()).unwrap_err();
        assert!(error.to_string().starts_with("refusing the cache folder"), "{mode:o}: {error}");
        assert_eq!(error.hint, Some(format!("chmod 700 {}", folder.display()).into()));
        assert_eq!(error.status, ExitStatus::Failed);
    }
}

#[test]
fn symlink_in_place_of_the_folder_is_refused() {
    let base = tempfile::tempdir().unwrap();
    let elsewhere = base.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o700)).unwrap();
    symlink(&elsewhere, base.path().join("kubectl-mc")).unwrap();
    assert!(open(base.path()).unwrap_err().to_string().starts_with("refusing the cache folder"));
}

#[test]
fn changed_file_is_written_again() {
    let base = tempfile::tempdir().unwrap();
    let cache = open(base.path()).unwrap();
    let path = cache.store(b"content", SystemTime::now()).unwrap();
    assert!(cache.holds(b"content"));

    fs::write(&path, b"changed").unwrap();
    assert!(!cache.holds(b"content"));
    assert_eq!(cache.store(b"content", SystemTime::now()).unwrap(), path);
    assert_eq!(fs::read(&path).unwrap(), b"content");

    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(!cache.holds(b"content"));
    cache.store(b"content", SystemTime::now()).unwrap();
    assert_eq!(mode(&path), 0o600);

    let other = base.path().join("other");
    fs::write(&other, b"content").unwrap();
    fs::remove_file(&path).unwrap();
    symlink(&other, &path).unwrap();
    assert!(!cache.holds(b"content"), "a link is not followed");
    cache.store(b"content", SystemTime::now()).unwrap();
    assert!(fs::symlink_metadata(&path).unwrap().is_file());
}

#[test]
fn different_contents_have_different_files() {
    let base = tempfile::tempdir().unwrap();
    let cache = open(base.path()).unwrap();
    let now = SystemTime::now();
    assert_ne!(cache.store(b"a", now).unwrap(), cache.store(b"b", now).unwrap());
}

#[test]
fn unused_overlays_are_pruned_after_a_week() {
    let base = tempfile::tempdir().unwrap();
    let cache = open(base.path()).unwrap();
    let start = SystemTime::now();
    let unused = cache.store(b"unused", start).unwrap();
    let used = cache.store(b"used", start).unwrap();
    let foreign = cache.folder.join("foreign");
    fs::write(&foreign, "").unwrap();

    cache.store(b"used", start + 6 * DAY).unwrap();
    cache.store(b"new", start + 8 * DAY).unwrap();
    assert!(!unused.exists());
    assert!(used.exists() && foreign.exists());
}
