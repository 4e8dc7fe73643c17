//! Fuzzes the hub of a host: the value of `--hub`, the host's server, and the hub's list, each on a
//! separate line. A request for any cluster in the list stays on the host's server and below the
//! hub's proxy, and goes to the cluster of that object.

use http::Uri;
use kubectl_mc_api::ClusterName;
use kubectl_mc_api::dialect::{Dialect, Segment};
use serde_json::Value;

pub fn run(input: &[u8]) {
    let Ok(input) = std::str::from_utf8(input) else { return };
    let mut lines = input.splitn(3, '\n');
    let mut line = || lines.next().unwrap_or_default();
    let (hub, server, list) = (line(), line(), line());
    let Ok(dialect) = hub.parse::<Dialect>() else { return };
    assert_eq!(dialect.to_string().parse().as_ref(), Ok(&dialect), "a value is read back");
    if let Ok(base) = dialect.base(server) {
        stays_on_server(server, base);
    }
    if let Some((cluster, rest)) = dialect.split(server) {
        assert_eq!(format!("{}{rest}", dialect.root(&cluster)), server);
    }
    let list: Value = serde_json::from_str(list).unwrap_or_default();
    let view = dialect.view(&list);
    for cluster in &view.clusters {
        let name: ClusterName =
            cluster["metadata"]["name"].as_str().and_then(|name| name.parse().ok()).expect("a name");
        let id = view.ids.get(&name).cloned().unwrap_or_else(|| Segment::from(&name));
        let is_listed = |item: &Value| {
            let (id_at, name_at) = match dialect {
                Dialect::Clusternet => ("/spec/clusterId", "/metadata/name"),
                Dialect::Rancher => ("/metadata/name", "/spec/displayName"),
                _ => ("/metadata/name", "/metadata/name"),
            };
            let text = |at| item.pointer(at).and_then(Value::as_str);
            text(id_at) == Some(id.as_str()) && [text(name_at), text(id_at)].contains(&Some(name.as_str()))
        };
        assert!(list["items"].as_array().is_some_and(|items| items.iter().any(is_listed)), "{name} {id}");
        leads_to(&dialect, &id);
    }
}

/// Reads the path as a server that decodes and normalizes it would.
fn leads_to(dialect: &Dialect, id: &Segment) {
    let path = format!("{}/api/v1", dialect.root(id));
    let uri: Uri = path.parse().expect("a path");
    assert_eq!((uri.path(), uri.query()), (path.as_str(), None));
    let decoded: Vec<u8> = percent_encoding::percent_decode(path.as_bytes()).collect();
    assert_eq!(decoded, path.as_bytes(), "an escape");
    assert!(
        !path.contains("//") && path.split('/').all(|segment| segment != "." && segment != ".."),
        "{path}"
    );
    assert_eq!(dialect.split(&path), Some((id.clone(), "/api/v1")));
    let other: Segment = "other".parse().expect("a segment");
    let segments = dialect.root(&other).split('/').count();
    assert_eq!(dialect.root(id).split('/').count(), segments, "more segments than another cluster's");
}

/// The host's credential is sent to the host's server only.
fn stays_on_server(server: &str, base: &str) {
    if let (Ok(server), Ok(base)) = (server.parse::<Uri>(), base.parse::<Uri>()) {
        assert_eq!((server.scheme(), server.authority()), (base.scheme(), base.authority()));
    }
    assert!(server.starts_with(base), "{server} {base}");
}
