//! Reads ClusterProfiles of SIG Multicluster as a list of members: `status.accessProviders` has the server of
//! a cluster.
//!
//! The plugin has one credential, the caller's own for the host. A writer of ClusterProfiles must neither
//! choose the server that receives it nor point the name of one member at another. A profile therefore counts
//! only if access provider `kubectl-mc` has the path of the member of the profile's name on the host itself
//! (same scheme, host and port; RFC 6454).

use std::collections::BTreeSet;

use serde_json::Value;

use super::kind::Dialect;
use super::segment::Segment;
use super::template::{Origin, split_url};

/// A profile that is not used, and why. Both texts contain unescaped data from the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotHere {
    pub name: String,
    pub why: String,
}

/// Splits a list into the profiles of this host's members, one for each name, and the others.
pub fn on_host(list: &Value, host: &str) -> (Vec<Value>, Vec<NotHere>) {
    let (mut here, mut others, mut names) = (Vec::new(), Vec::new(), BTreeSet::new());
    for item in list["items"].as_array().into_iter().flatten() {
        let text = |key: &str| item["metadata"][key].as_str().unwrap_or_default();
        let name = text("name");
        let found = check(name, server(item), host).and_then(|()| match names.insert(name) {
            true => Ok(()),
            false => Err(format!(
                "the ClusterProfile in namespace {} is not the first of its name",
                text("namespace")
            )),
        });
        match found {
            Ok(()) => here.push(item.clone()),
            Err(why) => others.push(NotHere { name: name.to_owned(), why }),
        }
    }
    (here, others)
}

fn check(name: &str, server: &Value, host: &str) -> Result<(), String> {
    let server = server.as_str().ok_or("its ClusterProfile has no access provider kubectl-mc")?;
    let name: Segment = name.parse().map_err(|_| "its name is no plain path segment")?;
    let (path, base) = (path(server), path(host).unwrap_or_default());
    let expected = format!("{}{}", base.trim_end_matches('/'), Dialect::Own.root(&name));
    let is_host = Origin::of(host).is_some_and(|host| Origin::of(server) == Some(host));
    if is_host && path == Some(&expected) {
        return Ok(());
    }
    let shown = if server.contains('@') { "with a user in its URL" } else { server };
    Err(match is_host {
        true => format!("its ClusterProfile has server {shown}, and the path must be {expected}"),
        false => format!("its ClusterProfile has server {shown}, which is not the host {host}"),
    })
}

/// The server of access provider `kubectl-mc`.
pub(super) fn server(item: &Value) -> &Value {
    let providers = item["status"]["accessProviders"].as_array().into_iter().flatten();
    let ours = providers.into_iter().find(|provider| provider["name"] == PROVIDER);
    ours.map_or(&Value::Null, |provider| &provider["cluster"]["server"])
}

/// Renames condition `ControlPlaneHealthy` to `Ready`, which other hubs use.
pub(super) fn conditions(mut conditions: Vec<Value>) -> Vec<Value> {
    for condition in &mut conditions {
        if condition["type"] == "ControlPlaneHealthy" {
            condition["type"] = "Ready".into();
        }
    }
    conditions
}

fn path(url: &str) -> Option<&str> {
    split_url(url).map(|(_, path)| path)
}

/// The access provider of the profiles that kubectl-mc writes.
const PROVIDER: &str = "kubectl-mc";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn profile(namespace: &str, name: &str, provider: &str, server: &str) -> Value {
        json!({
            "metadata": {"namespace": namespace, "name": name, "labels": {"env": "prod"}},
            "status": {
                "version": {"kubernetes": "v1.36.3"},
                "conditions": [{"type": "ControlPlaneHealthy", "status": "True"}],
                "accessProviders": [
                    {"name": "other", "cluster": {"server": "https://attacker"}},
                    {"name": provider, "cluster": {"server": server}},
                ],
            },
        })
    }

    fn path_of(name: &str) -> String {
        Dialect::Own.root(&name.parse().unwrap())
    }

    #[test]
    fn profiles_of_the_host_are_listed_as_members() {
        let server = format!("https://HOST:443/pre{}", path_of("m1"));
        let list = json!({"items": [profile("fleet", "m1", "kubectl-mc", &server)]});
        let (here, others) = on_host(&list, "https://host/pre");
        assert_eq!(others, []);
        let view = Dialect::ClusterProfile(None).view(&json!({"items": here}));
        let status = json!({
            "version": "v1.36.3", "server": server, "conditions": [{"type": "Ready", "status": "True"}],
        });
        assert_eq!(view.clusters[0]["status"], status);
        assert_eq!(view.clusters[0]["metadata"], json!({"name": "m1", "labels": {"env": "prod"}}));
        assert!(view.ids.is_empty());
    }

    #[test]
    fn profile_of_another_server_is_refused() {
        let own = path_of("m1");
        for server in [
            format!("https://attacker{own}"),
            format!("https://host.attacker{own}"),
            format!("https://host:8443{own}"),
            format!("http://host{own}"),
            format!("https://host@attacker{own}"),
            format!("https://user:pass@host{own}"),
            format!("https://host{}", path_of("m2")),
            format!("https://host{own}/../../m2/proxy"),
            format!("https://host{own}?x=1"),
            format!("https://host{own}/"),
            format!("https://host/{own}"),
            "https://host".to_owned(),
            String::new(),
        ] {
            let list = json!({"items": [profile("fleet", "m1", "kubectl-mc", &server)]});
            let (here, others) = on_host(&list, "https://host");
            assert_eq!((here.len(), others.len()), (0, 1), "{server}");
            assert!(!others[0].why.contains("pass"), "{}", others[0].why);
        }
        let own = format!("https://host{own}");
        let (here, _) = on_host(&json!({"items": [profile("fleet", "m1", "other2", &own)]}), "https://host");
        assert!(here.is_empty());
        for name in ["..", "a/b", "", "m1 "] {
            let list = json!({"items": [profile("fleet", name, "kubectl-mc", &own)]});
            assert!(on_host(&list, "https://host").0.is_empty(), "{name}");
        }
    }

    #[test]
    fn first_profile_of_a_name_counts() {
        let server = format!("https://host{}", path_of("m1"));
        let of = |namespace| profile(namespace, "m1", "kubectl-mc", &server);
        let (here, others) = on_host(&json!({"items": [of("a"), of("b")]}), "https://host");
        assert_eq!(here, [of("a")]);
        assert_eq!(others[0].why, "the ClusterProfile in namespace b is not the first of its name");
    }
}
