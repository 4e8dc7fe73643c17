//! Fuzzes a request's method and target (`GET /apis/…`) against the host's reading of them. An accepted
//! request may not be another cluster, another verb or another kind of request for the host, contain a dot
//! segment in any spelling, or lose a byte on its way.

use http::{Request, Uri, header};
use kubectl_mc_api::fleet::names;
use kubectl_mc_api::{Origin, path};
use percent_encoding::percent_decode;
use sidecar::head::request_info::{RequestInfo, Route, Verb};

mod upstream;

use upstream::Upstream;

pub fn run(input: &[u8]) {
    let Ok(line) = std::str::from_utf8(input) else { return };
    let Some((method, target)) = line.lines().next().and_then(|line| line.split_once(' ')) else { return };
    // Parsed as hyper does; a target that it refuses gets no further.
    let Ok(uri) = target.parse::<Uri>() else { return };
    let request = Request::builder().method(method).uri(uri).header(header::HOST, "host").body(());
    let Ok(request) = request else { return };
    in_the_fleet(&request, method);
    let Ok(info) = RequestInfo::parse(&request) else { return };

    let raw = request.uri().path();
    let decoded: Vec<u8> = percent_decode(raw.as_bytes()).collect();
    let decoded = String::from_utf8_lossy(&decoded);
    // A direct caller's path is read unchanged, and the host's as the host decoded it.
    for path in [raw, &decoded] {
        agrees(&info, method, path);
    }
    if let Route::Proxy(group, name, member) = &info.route {
        passes_unchanged(raw, *group, name.as_str(), member.as_str());
        assert_eq!(info.upgrade, None, "the request asks for no upgrade");
    }
    // This must not panic for any input.
    info.is_member_discovery();
}

/// Where the fleet view is served, a request may become one to a member. It is the same request there, but for the suffix
/// of that member.
fn in_the_fleet(request: &Request<()>, method: &str) {
    let mut routed = request.clone();
    let Ok((info, member)) = RequestInfo::parse_with_fleet(&mut routed) else { return };
    let raw = request.uri().path();
    let decode = |path: &str| {
        String::from_utf8_lossy(&percent_decode(path.as_bytes()).collect::<Vec<_>>()).into_owned()
    };
    let Some(inner) = ["*", "%2A", "%2a"]
        .into_iter()
        .find_map(|star| raw.strip_prefix(&format!("{}/{star}/proxy", path::CLUSTERS_PATH)))
    else {
        assert!(member.is_none() && !matches!(info.route, Route::Fleet(_)), "{raw} is not in the view");
        return;
    };
    let before = decode(inner);
    let before = Upstream::read(method, &before).expect("no member would read it at all");
    match (&info.route, member) {
        (Route::Fleet(_), None) => {
            let is_create = method == "POST" && before.name.is_empty() && before.namespace.is_empty();
            assert!(["GET", "HEAD"].contains(&method) || is_create, "{method} {raw} names no member");
            assert_eq!(
                names::split(before.namespace).filter(|_| before.resource != "namespaces"),
                None,
                "{raw}"
            );
            assert!(!["watch", "proxy"].contains(&before.verb), "{raw} is merged by its path");
        }
        (Route::Proxy(Origin::MemberCluster, name, at_member), Some(member)) => {
            assert_eq!(*name, member);
            let after = decode(at_member.as_str());
            let after = Upstream::read(method, &after).expect("the member would not read it at all");
            assert_eq!(before.resource_request, after.resource_request, "{raw}");
            assert_eq!(
                (before.verb, before.resource, before.subresource),
                (after.verb, after.resource, after.subresource),
                "{raw} became {}",
                at_member.as_str()
            );
            for (before, after) in [(before.namespace, after.namespace), (before.name, after.name)] {
                assert!(before == after || before == names::join(after, &member), "{raw}: {after}");
            }
        }
        (route, _) => assert!(raw.is_empty(), "{raw} became {route:?}"),
    }
}

fn agrees(info: &RequestInfo, method: &str, path: &str) {
    let upstream = Upstream::read(method, path).expect("the host would not read it at all");
    let group = info.group();
    let of_clusters =
        upstream.is_resource(group.grant_group(), group.grant_version(), group.grant_resource())
            && upstream.namespace.is_empty();
    match &info.route {
        Route::Proxy(group, name, member) => {
            assert!(of_clusters, "{upstream:?}");
            assert_eq!(upstream.name, name.as_str());
            match upstream.subresource {
                path::SELF_REVIEWS if !group.is_hub() => only_reviews(method, member.as_str()),
                subresource => assert_eq!(subresource, "proxy"),
            }
            assert_eq!(upstream.verb, info.verb.as_str());
        }
        Route::Fleet(_) => assert!(path.is_empty(), "the view is not served: {path}"),
        Route::Attach(name) => {
            assert!(of_clusters, "{upstream:?}");
            assert_eq!((upstream.name, upstream.subresource), (name.as_str(), "attach"));
            assert_eq!(upstream.verb, info.verb.as_str());
        }
        Route::Clusters(name) => {
            assert!(of_clusters, "{upstream:?}");
            assert_eq!(upstream.name, name.as_ref().map_or("", |name| name.as_str()));
            assert_eq!(upstream.subresource, "");
            assert_eq!(upstream.verb, "get", "what is answered here only reads");
            assert_eq!(info.verb == Verb::Get, name.is_some());
        }
        Route::HubObjects(objects) => {
            assert!(of_clusters, "{upstream:?}");
            assert_eq!(upstream.subresource, objects.object.subresource);
            assert_ne!(upstream.subresource, "proxy", "a member is not asked through another server");
            assert!(upstream.name.is_empty() || upstream.name == objects.object.name);
        }
        Route::Debug(debug) => {
            assert!(!upstream.resource_request, "{upstream:?}");
            assert!(["GET", "HEAD", "PUT"].contains(&method), "{method}");
            assert_eq!(path, debug.path());
        }
        Route::Discovery(_) | Route::Health(_) | Route::Metrics => {
            assert!(!upstream.resource_request, "{upstream:?}");
            assert!(["GET", "HEAD"].contains(&method), "{method}");
        }
    }
}

/// The host allows every user `selfreviews`, so no object of the member may be read or written there.
fn only_reviews(method: &str, member: &str) {
    let decoded: Vec<u8> = percent_decode(member.as_bytes()).collect();
    let decoded = String::from_utf8_lossy(&decoded);
    for path in [member, &decoded] {
        let upstream = Upstream::read(method, path).expect("the member would not read it at all");
        let is_review = upstream.name.is_empty()
            && REVIEWS.iter().any(|(group, resource)| upstream.is_resource(group, "v1", resource));
        assert!(is_review || !upstream.resource_request, "{member}: {upstream:?}");
    }
}

const REVIEWS: [(&str, &str); 3] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
];

fn passes_unchanged(raw: &str, group: Origin, name: &str, member: &str) {
    let cluster = format!("{}/{name}", group.collection());
    let passes = |subresource| raw == format!("{cluster}/{subresource}{member}");
    let is_root = raw == format!("{cluster}/proxy") && member == "/";
    assert!(passes("proxy") || passes(path::SELF_REVIEWS) || is_root, "{raw} became {member}");
    let decoded: Vec<u8> = percent_decode(member.as_bytes()).collect();
    for segment in decoded.split(|byte| matches!(byte, b'/' | b'\\')) {
        assert!(![&b"."[..], b".."].contains(&segment), "{member}");
    }
    assert!(!decoded.iter().any(|byte| byte.is_ascii_control() || *byte == b'\\'), "{member}");
}
