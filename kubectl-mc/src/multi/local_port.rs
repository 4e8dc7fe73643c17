//! Adapts a command to each cluster: local ports are incremented, and `{cluster}` in a local path becomes the
//! name.

use std::ffi::{OsStr, OsString};

use crate::argv::Scanned;
use crate::cluster::cluster_id::ClusterId;

/// Adapts the arguments to the cluster at this position.
pub(super) fn adapt(scanned: &mut Scanned, cluster: &ClusterId, at: usize) {
    let verb = scanned.verb().and_then(OsStr::to_str).unwrap_or_default().to_owned();
    match verb.as_str() {
        "cp" | "cluster-info" => {
            for word in &mut scanned.kubectl {
                if let Some(text) = word.to_str().filter(|text| text.contains(PLACE)) {
                    *word = text.replace(PLACE, &file_name(cluster)).into();
                }
            }
        }
        "port-forward" => {
            // The first word is the pod.
            let places: Vec<_> = scanned.words_after_verb().skip(1).map(|(place, _)| place).collect();
            for place in places {
                if let Some(ports) = scanned.kubectl[place].to_str().and_then(|ports| moved(ports, at)) {
                    scanned.kubectl[place] = OsString::from(ports);
                }
            }
        }
        _ => {}
    }
}

/// The cluster's name as a valid file name, because context names are arbitrary.
pub(super) fn file_name(cluster: &ClusterId) -> String {
    let name = cluster.as_str();
    let safe = name.replace(|c: char| !c.is_alphanumeric() && !"-_.@=+".contains(c), "_");
    if safe.trim_matches('.').is_empty() { safe.replace('.', "_") } else { safe }
}

/// The local port of the cluster at this position: `8080:80` becomes `8081:80` for the second one. `:80` uses
/// any port.
fn moved(ports: &str, at: usize) -> Option<String> {
    let (local, remote) = ports.split_once(':').unwrap_or((ports, ports));
    let local: usize = local.parse().ok()?;
    // kubectl refuses an invalid port with its own message.
    Some(format!("{}:{remote}", local + at))
}

/// A placeholder for the name of the cluster.
pub(super) const PLACE: &str = "{cluster}";

#[cfg(test)]
mod tests {
    use super::*;

    fn adapted(line: &str, at: usize) -> String {
        let mut scanned = crate::argv::scan(line.split(' ').map(Into::into).collect());
        adapt(&mut scanned, &"eu-1".parse().unwrap(), at);
        let words: Vec<_> = scanned.kubectl.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn each_cluster_has_its_own_ports_and_paths() {
        for (line, at, expected) in [
            ("port-forward svc/web 8080:80 9090", 0, "port-forward svc/web 8080:80 9090:9090"),
            ("port-forward svc/web 8080:80 9090", 2, "port-forward svc/web 8082:80 9092:9090"),
            ("port-forward -n 1 8080 :80", 1, "port-forward -n 1 8080 :80"),
            ("port-forward svc/web 8080:http", 1, "port-forward svc/web 8081:http"),
            ("cp web:/log {cluster}/log -c a", 0, "cp web:/log eu-1/log -c a"),
            ("get pods {cluster}", 1, "get pods {cluster}"),
        ] {
            assert_eq!(adapted(line, at), expected);
        }
    }
}
