use super::fixtures::{member, three};
use super::*;

fn names(clusters: &Clusters) -> Vec<String> {
    clusters.values().map(|cluster| format!("{}@{}", cluster.name(), cluster.version)).collect()
}

fn versions(snapshot: &Snapshot, since: u64) -> Option<Vec<u64>> {
    Some(snapshot.since(since)?.map(|change| change.version).collect())
}

#[test]
fn registry_is_not_synced_before_the_first_list() {
    let (registry, mut writer) = Registry::new();
    writer.apply(member("m1", 5, &[]));
    assert_eq!(registry.snapshot().unwrap_err(), Error::NotSynced);
    writer.replace(Vec::new(), 0);
    assert_eq!(registry.snapshot().unwrap().version, 0);
}

#[test]
fn collection_has_the_numerically_greatest_version() {
    let (registry, mut writer) = Registry::new();
    writer.replace(vec![member("m1", 9, &[]), member("m2", 10, &[])], 0);
    assert_eq!(registry.snapshot().unwrap().version, 10);
    writer.replace(vec![member("m1", 9, &[])], 15);
    assert_eq!(registry.snapshot().unwrap().version, 15);
    writer.delete(member("m1", 17, &[]));
    assert_eq!(registry.snapshot().unwrap().version, 17);
}

#[test]
fn events_that_are_not_newer_are_ignored() {
    let (registry, mut writer) = three();
    writer.apply(member("m1", 40, &[]));
    writer.apply(member("m1", 40, &[]));
    writer.delete(member("m1", 39, &[]));
    let snapshot = registry.snapshot().unwrap();
    assert_eq!(versions(&snapshot, 30), Some(vec![40]));
    assert_eq!(names(&snapshot.clusters), ["m1@40", "m2@20", "m3@30"]);
}

#[test]
fn shorter_list_does_not_lower_the_version() {
    let (registry, mut writer) = three();
    writer.replace(vec![member("m1", 10, &[])], 0);
    assert_eq!(registry.snapshot().unwrap().version, 30);
}

#[test]
fn restored_host_starts_a_new_log() {
    let (registry, mut writer) = three();
    writer.apply(member("m1", 40, &[]));
    writer.replace(vec![member("m1", 10, &[])], 0);
    writer.apply(member("m1", 15, &[]));
    let snapshot = registry.snapshot().unwrap();
    assert_eq!(names(&snapshot.clusters), ["m1@15"]);
    assert_eq!(snapshot.version, 15);
    assert_eq!(versions(&snapshot, 10), None);
    writer.apply(member("m1", 16, &[]));
    assert_eq!(versions(&registry.snapshot().unwrap(), 15), Some(vec![16]));
}

#[test]
fn every_version_since_the_list_can_be_restored() {
    let (registry, mut writer) = three();
    writer.apply(member("m2", 40, &[]));
    writer.delete(member("m1", 50, &[]));
    writer.apply(member("m4", 60, &[]));
    writer.apply(member("m1", 70, &[]));
    let snapshot = registry.snapshot().unwrap();
    for (version, expected) in [
        (30, ["m1@10", "m2@20", "m3@30"].as_slice()),
        (40, &["m1@10", "m2@40", "m3@30"]),
        (50, &["m2@40", "m3@30"]),
        (65, &["m2@40", "m3@30", "m4@60"]),
        (70, &["m1@70", "m2@40", "m3@30", "m4@60"]),
    ] {
        assert_eq!(names(&snapshot.at(version).unwrap()), expected, "at {version}");
    }
    assert!(snapshot.at(29).is_none());
}

#[test]
fn log_is_bounded_and_reports_dropped_versions() {
    let (registry, mut writer) = three();
    for version in 31..=31 + LOG_LENGTH as u64 {
        writer.apply(member("m1", version, &[]));
    }
    let snapshot = registry.snapshot().unwrap();
    assert_eq!(snapshot.log.len(), LOG_LENGTH);
    assert_eq!(versions(&snapshot, 30), None);
    assert_eq!(versions(&snapshot, 31).unwrap().len(), LOG_LENGTH);
}

#[test]
fn list_drops_earlier_changes() {
    let (registry, mut writer) = three();
    writer.apply(member("m1", 40, &[]));
    writer.replace(vec![member("m1", 50, &[])], 0);
    let snapshot = registry.snapshot().unwrap();
    assert_eq!(versions(&snapshot, 40), None);
    assert_eq!(versions(&snapshot, 50), Some(vec![]));
}

#[test]
fn relist_expires_readers_that_may_have_missed_a_deletion() {
    let (registry, mut writer) = Registry::new();
    // At another replica a reader saw m2 at version 30. It was deleted at 40, before this list.
    writer.replace(vec![member("m1", 20, &[])], 45);
    assert!(registry.snapshot().unwrap().since(30).is_none());
}

#[tokio::test(start_paused = true)]
async fn reader_ahead_of_the_registry_waits_for_its_version() {
    let (registry, mut writer) = three();
    let ahead = registry.not_older_than(40);
    let (snapshot, ()) = tokio::join!(ahead, async { writer.apply(member("m1", 41, &[])) });
    assert_eq!(snapshot.unwrap().version, 41);
}

#[tokio::test(start_paused = true)]
async fn too_new_version_is_refused_after_three_seconds() {
    let (registry, _writer) = three();
    let began = tokio::time::Instant::now();
    let error = registry.not_older_than(31).await.unwrap_err();
    assert_eq!(error, Error::TooLargeResourceVersion { asked: 31, current: 30 });
    assert_eq!(began.elapsed(), FRESHNESS_TIMEOUT);
}
