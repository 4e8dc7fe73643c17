//! Fuzzes header lines as the front proxy could send them. The sidecar reads the same identity from them as
//! an apiserver does. From the headers that the sidecar creates for it, a member reads the same
//! identity again, without the parts that are never sent.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue};
use kubectl_mc_api::member_cluster::Forwarded;
use percent_encoding::percent_decode_str;
use sidecar::head::headers::forwarded;
use sidecar::identity::Identity;
use sidecar::identity::impersonation::member::{Headers, Rules};
use sidecar::identity::request_header::{HeaderNames, identity};

use crate::lines;

pub fn run(input: &[u8]) {
    let headers = lines::headers(input);
    let identity = match identity(&front_proxy(), &headers) {
        Ok(None) => return assert!(first(&headers, "x-remote-user").is_none(), "there is a user"),
        Ok(Some(identity)) => identity,
        Err(_) => {
            return assert!(headers.values().any(|value| std::str::from_utf8(value.as_bytes()).is_err()));
        }
    };
    assert_eq!(identity, read(&headers, "x-remote"), "the host means somebody else");

    let identity = identity.authenticated();
    let Ok(made) = Headers::new(&Rules::default(), &identity, Forwarded::default()) else {
        return assert!(may_be_refused(&identity), "{identity:?} is refused");
    };
    assert!(!is_privileged(&identity), "{identity:?}");
    // These are in addition to the other forwarded headers of the request.
    let mut sent = forwarded(&headers, true);
    made.apply(&mut sent).expect("nothing of identity passes");
    assert_eq!(sent.get_all("impersonate-user").iter().count(), 1);
    for value in
        sent.iter().filter(|(name, _)| name.as_str().starts_with("impersonate")).map(|(_, value)| value)
    {
        assert_eq!(value.as_bytes().trim_ascii(), value.as_bytes(), "the wire would change it");
    }
    assert_eq!(read(&sent, "impersonate"), as_the_member_is_told(identity));
}

/// The identity as an apiserver reads it (apiserver: `request/headerrequest` and `filters/impersonation` are
/// alike).
fn read(headers: &HeaderMap, prefix: &str) -> Identity {
    let extra_prefix = format!("{prefix}-extra-");
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in headers.keys() {
        let Some(escaped) = name.as_str().strip_prefix(&extra_prefix) else { continue };
        let key = unescaped(escaped).unwrap_or_else(|| escaped.to_owned());
        extra.entry(key).or_default().extend(headers.get_all(name).iter().map(text));
    }
    Identity {
        user: first(headers, &format!("{prefix}-user")).unwrap_or_default(),
        uid: first(headers, &format!("{prefix}-uid")),
        groups: all(headers, &format!("{prefix}-group")),
        extra,
    }
}

/// The value of a header's first line, if it is not empty (Go: `Header.Get`).
fn first(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).map(text).filter(|value| !value.is_empty())
}

/// The values of a header that are not empty.
fn all(headers: &HeaderMap, name: &str) -> Vec<String> {
    headers.get_all(name).iter().map(text).filter(|value| !value.is_empty()).collect()
}

fn text(value: &HeaderValue) -> String {
    String::from_utf8(value.as_bytes().to_vec()).unwrap_or_else(|_| "not UTF-8".to_owned())
}

/// Go's `url.PathUnescape`, if its result is text. Keys are lower case, because a header's name does not
/// preserve case.
fn unescaped(escaped: &str) -> Option<String> {
    let mut parts = escaped.split('%');
    parts.next();
    for part in parts {
        let hex = part.get(..2)?;
        hex.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(())?;
    }
    let key = percent_decode_str(escaped).decode_utf8().ok()?;
    Some(key.to_ascii_lowercase())
}

fn as_the_member_is_told(identity: Identity) -> Identity {
    let account = identity.service_account().map(|(namespace, _)| namespace.to_owned());
    let is_admin =
        |group: &str| ["system:masters", "kubeadm:cluster-admins", "system:cluster-admins"].contains(&group);
    let mut groups: Vec<String> = identity.groups.clone();
    groups.retain(|group| {
        !is_admin(group) && group != "system:authenticated" && group != "system:unauthenticated"
    });
    if identity.groups.iter().any(|group| is_admin(group)) {
        groups.push("kubectl-mc:host-admins".to_owned());
    }
    if let Some(namespace) = &account {
        let mut sorted = groups.clone();
        sorted.sort_unstable();
        if sorted == ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")] {
            groups.clear();
        }
    }
    let mut extra = identity.extra;
    extra.retain(|key, values| !is_of_the_host(key) && !values.is_empty());
    let uid = identity.uid.filter(|_| account.is_none());
    Identity { user: identity.user, uid, groups, extra }
}

fn is_of_the_host(key: &str) -> bool {
    ["authentication.kubernetes.io/pod-", "authentication.kubernetes.io/node-"]
        .iter()
        .any(|p| key.starts_with(p))
        || key.contains("user-assertion")
}

fn is_privileged(identity: &Identity) -> bool {
    let reserved =
        |name: &str| ["system:", "kubectl-mc:", "eks:", "gke:"].iter().any(|prefix| name.starts_with(prefix));
    let component = |namespace: &str| {
        [
            "kube-system",
            "kube-public",
            "kube-node-lease",
            "kubectl-mc-system",
            "kubectl-mc-agents",
            "kubectl-mc-agent",
            "openshift-infra",
            "openshift-cluster-version",
            "openshift-machine-config-operator",
        ]
        .contains(&namespace)
    };
    let user = identity.user.as_str();
    let of_user = match identity.service_account() {
        Some((namespace, _)) => component(namespace),
        None => {
            reserved(user) && !["system:anonymous", "system:admin"].contains(&user)
                || ["kubelet", "kubelet-bootstrap", "kubelet-nodepool-bootstrap"].contains(&user)
                || ["kube-apiserver", "kube-apiserver-kubelet-client", "cluster-autoscaler"].contains(&user)
        }
    };
    let of_group = |group: &str| match group.strip_prefix("system:serviceaccounts:") {
        Some(namespace) if !namespace.is_empty() && !namespace.contains(':') => component(namespace),
        _ => {
            let ordinary = [
                "system:masters",
                "system:cluster-admins",
                "system:authenticated",
                "system:unauthenticated",
                "system:monitoring",
                "system:serviceaccounts",
                "system:authenticated:oauth",
                "system:cattle:authenticated",
            ];
            reserved(group) && !ordinary.contains(&group)
        }
    };
    of_user || identity.groups.iter().any(|group| of_group(group))
}

/// Whether this identity cannot be sent to a member unchanged.
fn may_be_refused(identity: &Identity) -> bool {
    let told = as_the_member_is_told(identity.clone());
    let lost = |text: &String| text.is_empty() || text.trim_matches([' ', '\t']) != text;
    is_privileged(identity)
        || (identity.service_account().is_some() && {
            let own = |group: &String| {
                !["system:authenticated", "system:unauthenticated"].contains(&group.as_str())
            };
            !identity.groups.iter().any(own)
        })
        || told.extra.iter().any(|(key, values)| key.is_empty() || values.iter().any(lost))
}

fn front_proxy() -> HeaderNames {
    let name = |name| vec![HeaderName::from_static(name)];
    HeaderNames {
        user: name("x-remote-user"),
        uid: name("x-remote-uid"),
        group: name("x-remote-group"),
        extra: vec!["x-remote-extra-".to_owned()],
    }
}
