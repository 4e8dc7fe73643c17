use serde_json::Value;

use super::super::registry::fixtures::{member, three};
use super::super::table::Include;
use super::*;

async fn list(registry: &Registry, query: &str, form: Form) -> Result<Value, Error> {
    let options = Options::of_list(Some(query))?;
    Ok(serde_json::from_slice(&page(registry, &options, form).await?).unwrap())
}

async fn names(registry: &Registry, query: &str) -> Result<Vec<String>, Error> {
    let list = list(registry, query, Form::Object).await?;
    let items = list["items"].as_array().unwrap();
    Ok(items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect())
}

#[tokio::test]
async fn list_is_a_cluster_list_with_the_collections_version() {
    let (registry, _writer) = three();
    let list = list(&registry, "", Form::Object).await.unwrap();
    assert_eq!(list["kind"], "ClusterList");
    assert_eq!(list["apiVersion"], "proxy.kubectl-mc.dev/v1alpha1");
    assert_eq!(list["metadata"], serde_json::json!({"resourceVersion": "30"}));
    assert_eq!(list["items"][0]["metadata"]["name"], "m1");
    assert_eq!(list["items"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn empty_list_has_an_empty_array_of_items() {
    let (registry, mut writer) = Registry::new();
    assert_eq!(list(&registry, "", Form::Object).await, Err(Error::NotSynced));
    writer.replace(Vec::new(), 0);
    assert_eq!(list(&registry, "", Form::Object).await.unwrap()["items"], serde_json::json!([]));
    assert_eq!(list(&registry, "", Form::Table(Include::None)).await.unwrap()["rows"], serde_json::json!([]));
}

#[tokio::test]
async fn selectors_filter_by_label_and_by_name() {
    let (registry, _writer) = three();
    for (query, expected) in [
        ("labelSelector=env", ["m1", "m2"].as_slice()),
        ("labelSelector=env!%3Dprod", &["m2", "m3"]),
        ("fieldSelector=metadata.name%3Dm2", &["m2"]),
        ("fieldSelector=metadata.name!%3Dm2&labelSelector=env", &["m1"]),
        ("labelSelector=env%3Dtest", &[]),
    ] {
        assert_eq!(names(&registry, query).await.unwrap(), expected, "{query}");
    }
}

#[tokio::test]
async fn pages_have_one_version_despite_changes_between_them() {
    let (registry, mut writer) = three();
    let first = list(&registry, "limit=1", Form::Object).await.unwrap();
    assert_eq!(first["metadata"]["remainingItemCount"], 2);
    writer.delete(member("m2", 40, &[]));
    writer.apply(member("m0", 41, &[]));
    writer.apply(member("m4", 42, &[]));
    let next = first["metadata"]["continue"].as_str().unwrap();
    let second = list(&registry, &format!("limit=1&continue={next}"), Form::Object).await.unwrap();
    assert_eq!(second["items"][0]["metadata"]["name"], "m2");
    assert_eq!(second["metadata"]["resourceVersion"], "30");
    assert_eq!(second["metadata"]["remainingItemCount"], 1);
    let next = second["metadata"]["continue"].as_str().unwrap();
    assert_eq!(names(&registry, &format!("continue={next}")).await.unwrap(), ["m3"]);
    let last = list(&registry, &format!("limit=5&continue={next}"), Form::Object).await.unwrap();
    assert_eq!(last["metadata"], serde_json::json!({"resourceVersion": "30"}));
    writer.replace(Vec::new(), 0);
    assert_eq!(names(&registry, &format!("continue={next}")).await, Err(Error::Expired));
}

#[tokio::test]
async fn selected_page_has_no_remaining_item_count() {
    let (registry, _writer) = three();
    let page = list(&registry, "limit=1&labelSelector=env", Form::Object).await.unwrap();
    assert!(page["metadata"]["continue"].is_string());
    assert_eq!(page["metadata"]["remainingItemCount"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn requested_version_is_exact_or_a_minimum() {
    let (registry, mut writer) = three();
    writer.delete(member("m1", 40, &[]));
    let exact = "resourceVersionMatch=Exact&resourceVersion=";
    assert_eq!(names(&registry, "resourceVersion=30").await.unwrap(), ["m2", "m3"]);
    assert_eq!(names(&registry, &format!("{exact}30")).await.unwrap(), ["m1", "m2", "m3"]);
    assert_eq!(names(&registry, &format!("{exact}29")).await, Err(Error::Expired));
    let ahead = Err(Error::TooLargeResourceVersion { asked: 41, current: 40 });
    assert_eq!(names(&registry, "resourceVersion=41").await, ahead);
}

#[tokio::test]
async fn get_returns_a_cluster_in_every_form() {
    let (registry, _writer) = three();
    let options = Options::default();
    for (form, kind) in [
        (Form::Object, "Cluster"),
        (Form::Metadata, "PartialObjectMetadata"),
        (Form::Table(Include::Metadata), "Table"),
    ] {
        let found = one(&registry, &"m2".parse().unwrap(), &options, form).await.unwrap();
        let found: Value = serde_json::from_slice(&found).unwrap();
        assert_eq!(found["kind"], kind);
        assert_eq!(found["metadata"]["resourceVersion"], "20", "{kind}");
    }
    let m9: ClusterName = "m9".parse().unwrap();
    let error = one(&registry, &m9, &options, Form::Object).await.unwrap_err();
    assert_eq!(error.to_string(), r#"clusters.proxy.kubectl-mc.dev "m9" not found"#);
}

#[tokio::test]
async fn table_has_a_row_per_cluster_and_the_requested_object() {
    let (registry, mut writer) = Registry::new();
    let mut m1 = member("m1", 10, &[("env", "prod")]);
    m1.status = serde_json::from_value(serde_json::json!({
        "version": "v1.36.3", "server": "https://203.0.113.7:6443",
        "conditions": [{"type": "Ready", "status": "False", "reason": "Unreachable", "message": "",
                        "lastTransitionTime": "2026-01-02T03:04:05Z"},
                       {"type": "Connected", "status": "True", "reason": "AgentConnected", "message": "",
                        "lastTransitionTime": "2026-01-02T03:04:05Z"}],
    }))
    .unwrap();
    writer.replace(vec![m1, member("m2", 20, &[])], 0);
    let table = list(&registry, "", Form::Table(Include::Metadata)).await.unwrap();
    assert_eq!((&table["kind"], &table["apiVersion"]), (&"Table".into(), &"meta.k8s.io/v1".into()));
    let columns: Vec<_> =
        table["columnDefinitions"].as_array().unwrap().iter().map(|column| &column["name"]).collect();
    let expected =
        ["Name", "Ready", "Version", "Age", "Reason", "Server", "Connected", "Last Seen", "Inventory"];
    assert_eq!(columns, expected);
    let cells = |row: usize| table["rows"][row]["cells"].clone();
    assert_eq!(
        cells(0),
        serde_json::json!([
            "m1",
            "False",
            "v1.36.3",
            "<unknown>",
            "Unreachable",
            "https://203.0.113.7:6443",
            "True",
            "<unknown>",
            "membercluster"
        ])
    );
    assert_eq!(
        cells(1),
        serde_json::json!([
            "m2",
            "Unknown",
            "Unknown",
            "<unknown>",
            "",
            "",
            "",
            "<unknown>",
            "membercluster"
        ])
    );
    // The columns of a MemberCluster are the same.
    let crd =
        serde_json::to_value(<kubectl_mc_api::MemberCluster as kube::CustomResourceExt>::crd()).unwrap();
    let own = crd["spec"]["versions"][0]["additionalPrinterColumns"].as_array().unwrap().clone();
    assert_eq!(own.iter().map(|column| &column["name"]).collect::<Vec<_>>(), columns[1..]);
    for (include, kind) in [
        (Include::Metadata, "PartialObjectMetadata".into()),
        (Include::Object, "Cluster".into()),
        (Include::None, Value::Null),
    ] {
        let table = list(&registry, "", Form::Table(include)).await.unwrap();
        assert_eq!(table["rows"][0]["object"]["kind"], kind, "{include:?}");
    }
}

#[tokio::test]
async fn metadata_list_has_its_own_kind() {
    let (registry, _writer) = three();
    let list = list(&registry, "limit=1", Form::Metadata).await.unwrap();
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(list["apiVersion"], "meta.k8s.io/v1");
    assert_eq!(list["items"][0]["kind"], "PartialObjectMetadata");
    assert_eq!(list["items"][0]["metadata"]["labels"]["env"], "prod");
    assert_eq!(list["items"][0]["status"], Value::Null);
}

#[tokio::test]
async fn member_that_answers_is_seen_now() {
    let (registry, mut writer) = Registry::new();
    let ago = |seconds: i64| (jiff::Timestamp::now() - jiff::SignedDuration::from_secs(seconds)).to_string();
    let seen = |name: &str, uid: u64, reachable: &str, seconds: i64| {
        let mut member = member(name, uid, &[]);
        member.status = serde_json::from_value(serde_json::json!({
            "lastSeen": ago(seconds),
            "conditions": [{"type": "Reachable", "status": reachable, "reason": "x", "message": "",
                            "lastTransitionTime": "2026-01-02T03:04:05Z"}],
        }))
        .unwrap();
        member
    };
    // The status of m3 is old: no leader probes it.
    let members =
        vec![seen("m1", 10, "True", 344), seen("m2", 20, "False", 344), seen("m3", 30, "True", 7200)];
    writer.replace(members, 0);
    let table = list(&registry, "", Form::Table(Include::Metadata)).await.unwrap();
    let cells: Vec<_> =
        (0..3).map(|row| table["rows"][row]["cells"][7].as_str().unwrap().to_owned()).collect();
    assert_eq!(cells, ["now", "5m44s", "120m"]);
}
