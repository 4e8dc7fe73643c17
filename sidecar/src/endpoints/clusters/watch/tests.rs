use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::super::registry::Writer;
use super::super::registry::fixtures::{member, three};
use super::super::table::Include;
use super::*;
use crate::host::fake;
use crate::identity::Identity;
use crate::identity::authorization::Authorizer;
use crate::limits::in_flight::Caller;

/// A watch's client: reads events one by one.
struct Client {
    chunks: mpsc::Receiver<Bytes>,
    lines: Vec<String>,
}

impl Client {
    async fn watch(registry: &Registry, query: &str, form: Form) -> Self {
        let options = Options::of_watch(Some(query)).unwrap();
        Self { chunks: start(registry, options, form, None).await.unwrap(), lines: Vec::new() }
    }

    /// The next event, or `None` when the watch has ended.
    async fn next(&mut self) -> Option<Value> {
        if self.lines.is_empty() {
            let chunk = String::from_utf8(self.chunks.recv().await?.to_vec()).unwrap();
            assert!(chunk.ends_with('\n'), "a chunk ends with an event");
            self.lines = chunk.lines().map(str::to_owned).collect();
        }
        Some(serde_json::from_str(&self.lines.remove(0)).unwrap())
    }

    /// Compares the next events in short form.
    async fn expect(&mut self, events: &[&str]) {
        for expected in events {
            let event = self.next().await.expect("the watch goes on");
            let metadata = &event["object"]["metadata"];
            let name = metadata["name"].as_str().unwrap_or_default();
            let version = metadata["resourceVersion"].as_str().unwrap_or_default();
            assert_eq!(format!("{} {name}@{version}", event["type"].as_str().unwrap()), *expected);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn watch_sends_current_objects_then_changes() {
    for query in ["", "resourceVersion=0"] {
        let (registry, mut writer) = three();
        let mut client = Client::watch(&registry, query, Form::Object).await;
        client.expect(&["ADDED m1@10", "ADDED m2@20", "ADDED m3@30"]).await;
        writer.apply(member("m4", 40, &[]));
        writer.apply(member("m1", 41, &[]));
        writer.delete(member("m2", 42, &[]));
        client.expect(&["ADDED m4@40", "MODIFIED m1@41", "DELETED m2@42"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn watch_from_a_version_begins_after_it() {
    let (registry, mut writer) = three();
    writer.apply(member("m1", 40, &[]));
    writer.apply(member("m1", 50, &[]));
    let mut client = Client::watch(&registry, "resourceVersion=40", Form::Object).await;
    client.expect(&["MODIFIED m1@50"]).await;
}

#[tokio::test(start_paused = true)]
async fn watch_from_a_future_version_waits_for_it() {
    let (registry, mut writer) = three();
    let mut client = Client::watch(&registry, "resourceVersion=50", Form::Object).await;
    writer.apply(member("m1", 45, &[]));
    writer.apply(member("m1", 55, &[]));
    client.expect(&["MODIFIED m1@55"]).await;
}

#[tokio::test(start_paused = true)]
async fn watch_without_initial_events_begins_now() {
    let (registry, mut writer) = three();
    let query = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    let mut client = Client::watch(&registry, query, Form::Object).await;
    writer.apply(member("m1", 40, &[]));
    client.expect(&["MODIFIED m1@40"]).await;
}

#[tokio::test(start_paused = true)]
async fn streamed_list_ends_with_an_annotated_bookmark() {
    let (registry, _writer) = three();
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion=30";
    let mut client = Client::watch(&registry, query, Form::Object).await;
    client.expect(&["ADDED m1@10", "ADDED m2@20", "ADDED m3@30"]).await;
    let expected = json!({"type": "BOOKMARK", "object": {
        "kind": "Cluster",
        "apiVersion": "proxy.kubectl-mc.dev/v1alpha1",
        "metadata": {"resourceVersion": "30", "creationTimestamp": null,
                     "annotations": {"k8s.io/initial-events-end": "true"}},
    }});
    assert_eq!(client.next().await, Some(expected));
}

#[tokio::test(start_paused = true)]
async fn bookmarks_are_sent_each_minute_if_allowed() {
    let (registry, mut writer) = three();
    let began = Instant::now();
    let query = "resourceVersion=30&allowWatchBookmarks=true&labelSelector=none";
    let mut client = Client::watch(&registry, query, Form::Object).await;
    writer.apply(member("m1", 40, &[]));
    client.expect(&["BOOKMARK @40", "BOOKMARK @40"]).await;
    assert_eq!(began.elapsed(), 2 * BOOKMARK_INTERVAL);
    let mut client =
        Client::watch(&registry, "resourceVersion=30&timeoutSeconds=600&labelSelector=none", Form::Object)
            .await;
    assert_eq!(client.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn watch_ends_at_its_timeout() {
    let (registry, _writer) = three();
    for (query, least, most) in [("&timeoutSeconds=5", 5, 5), ("", 1800, 3600)] {
        let began = Instant::now();
        let mut client = Client::watch(&registry, &format!("resourceVersion=30{query}"), Form::Object).await;
        assert_eq!(client.next().await, None);
        let lasted = began.elapsed().as_secs();
        assert!((least..=most).contains(&lasted), "{lasted} s");
    }
}

#[tokio::test(start_paused = true)]
async fn selector_changes_become_added_and_deleted_events() {
    let (registry, mut writer) = three();
    let query = "resourceVersion=30&labelSelector=env%3Dprod";
    let mut client = Client::watch(&registry, query, Form::Object).await;
    writer.apply(member("m2", 40, &[("env", "prod")]));
    writer.apply(member("m2", 41, &[("env", "prod"), ("x", "y")]));
    writer.apply(member("m2", 42, &[("env", "dev")]));
    writer.apply(member("m2", 43, &[]));
    writer.delete(member("m2", 44, &[]));
    writer.delete(member("m1", 45, &[]));
    client.expect(&["ADDED m2@40", "MODIFIED m2@41"]).await;
    let gone = client.next().await.unwrap();
    assert_eq!(gone["type"], "DELETED");
    assert_eq!(gone["object"]["metadata"]["resourceVersion"], "42");
    assert_eq!(gone["object"]["metadata"]["labels"]["env"], "prod", "the last state that matched");
    client.expect(&["DELETED m1@45"]).await;
}

#[tokio::test(start_paused = true)]
async fn lost_position_ends_the_watch_with_an_error_event() {
    let (registry, mut writer) = three();
    let mut early = Client::watch(&registry, "resourceVersion=29", Form::Object).await;
    let error = early.next().await.unwrap();
    assert_eq!((&error["type"], &error["object"]["code"]), (&"ERROR".into(), &410.into()));
    assert_eq!(error["object"]["reason"], "Expired");
    assert_eq!(early.next().await, None);

    let mut listed_over = Client::watch(&registry, "resourceVersion=30", Form::Object).await;
    writer.replace(vec![member("m1", 10, &[])], 0);
    assert_eq!(listed_over.next().await.unwrap()["type"], "ERROR");
    assert_eq!(listed_over.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn slow_client_gets_an_expired_error() {
    let (registry, mut writer) = three();
    let mut client = Client::watch(&registry, "resourceVersion=30", Form::Object).await;
    let mut version = 30;
    // The client has one chunk and another one waits to be sent; after that, the log moves on.
    for _ in 0..4 {
        for _ in 0..1000 {
            version += 1;
            writer.apply(member("m1", version, &[]));
        }
        tokio::task::yield_now().await;
    }
    let mut told = Vec::new();
    while let Some(event) = client.next().await {
        told.push(event);
    }
    let last = told.pop().unwrap();
    assert_eq!((&last["type"], &last["object"]["code"]), (&"ERROR".into(), &410.into()));
    let versions: Vec<u64> = told
        .iter()
        .map(|event| event["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap())
        .collect();
    assert!(!versions.is_empty() && versions.len() < 4000, "{}", versions.len());
    assert!(versions.iter().copied().eq(31..31 + versions.len() as u64), "no gap before the error");
}

#[tokio::test(start_paused = true)]
async fn only_the_first_table_has_column_definitions() {
    let (registry, mut writer) = three();
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true\
                 &fieldSelector=metadata.name%3Dm1";
    let mut client = Client::watch(&registry, query, Form::Table(Include::Metadata)).await;
    let first = client.next().await.unwrap();
    assert_eq!(first["object"]["columnDefinitions"].as_array().unwrap().len(), 9);
    assert_eq!(first["object"]["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let bookmark = client.next().await.unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    let metadata = &bookmark["object"]["rows"][0]["object"]["metadata"];
    assert_eq!(metadata["annotations"]["k8s.io/initial-events-end"], "true");
    writer.apply(member("m1", 40, &[]));
    let second = client.next().await.unwrap();
    assert_eq!(second["object"]["columnDefinitions"], Value::Null);
    assert_eq!(second["object"]["rows"][0]["cells"][0], "m1");
}

#[tokio::test(start_paused = true)]
async fn dropped_watch_ends() {
    let (registry, writer) = three();
    let client = Client::watch(&registry, "resourceVersion=30", Form::Object).await;
    tokio::task::yield_now().await;
    drop(client);
    registry.drained().await;
    drop(writer);
}

#[tokio::test(start_paused = true)]
async fn watches_end_with_their_writer() {
    let (registry, writer): (Registry, Writer) = three();
    let mut client = Client::watch(&registry, "resourceVersion=30", Form::Object).await;
    drop(writer);
    assert_eq!(client.next().await, None);
    registry.drained().await;
}

#[tokio::test(start_paused = true)]
async fn thousand_clusters_arrive_in_chunks_without_loss() {
    let (registry, mut writer) = three();
    writer.replace((0..1000).map(|n| member(&format!("m{n:04}"), n + 1, &[])).collect(), 0);
    let mut client = Client::watch(&registry, "", Form::Object).await;
    for n in 0..1000 {
        client.expect(&[&format!("ADDED m{n:04}@{}", n + 1)]).await;
    }
}

#[test]
fn host_is_asked_only_about_the_named_cluster() {
    let (registry, _writer) = three();
    let names = |query| -> Vec<String> {
        let options = Options::of_watch(query).unwrap();
        options.selection.names(&registry.snapshot().unwrap()).map(|(name, _)| name.to_string()).collect()
    };
    assert_eq!(names(None), ["m1", "m2", "m3"]);
    assert_eq!(names(Some("fieldSelector=metadata.name%3Dm2")), ["m2"]);
}

#[tokio::test(start_paused = true)]
async fn watch_expires_when_the_viewers_rights_change() {
    let (registry, mut writer) = three();
    let enters_m2 = Arc::new(AtomicBool::new(false));
    let granted = enters_m2.clone();
    let (host, _) = fake::host(move |review| {
        let name = &review["spec"]["resourceAttributes"]["name"];
        let allowed = name == "m1" || name == "m2" && granted.load(Ordering::SeqCst);
        let answer = json!({"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {},
                            "spec": {}, "status": {"allowed": allowed}});
        (201, answer)
    });
    let identity = Arc::new(Identity { user: "jane".to_owned(), ..Identity::default() });
    let viewer = Viewer { authorizer: Arc::new(Authorizer::new(host)), identity, caller: Caller::of_hash(1) };
    let mut options = Options::of_watch(None).unwrap();
    options.selection.visible =
        viewer.sees(options.selection.names(&registry.snapshot().unwrap())).await.unwrap();
    let chunks = start(&registry, options, Form::Object, Some(viewer)).await.unwrap();
    let mut client = Client { chunks, lines: Vec::new() };
    client.expect(&["ADDED m1@10"]).await;
    writer.apply(member("m2", 40, &[]));
    writer.apply(member("m1", 41, &[]));
    client.expect(&["MODIFIED m1@41"]).await;
    // Another cluster that she may not enter, while her own are unchanged.
    writer.apply(member("m4", 42, &[]));
    assert!(timeout(10 * RECHECK_INTERVAL, client.next()).await.is_err(), "it ends though nothing changed");
    enters_m2.store(true, Ordering::SeqCst);
    let expired = client.next().await.unwrap();
    assert_eq!((&expired["type"], &expired["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert!(client.next().await.is_none());
}
