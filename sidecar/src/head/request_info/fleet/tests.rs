use super::*;

fn routed(method: &str, target: &str) -> String {
    let (below_root, query) =
        target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let target = format!("{}/*/proxy{below_root}", path::CLUSTERS_PATH);
    let rest = below(&target).unwrap();
    match route(rest, &method.parse().unwrap(), query) {
        Ok(Target::Member(member, target)) => {
            let target = target.to_string();
            format!("{member} {}", target.strip_prefix(&path::member_root(&member)).unwrap())
        }
        Ok(Target::Fleet(route)) => {
            let Resource { group, name, namespace } = route.resource;
            format!("{:?} {group}/{name} {}", route.question, namespace.unwrap_or_default())
        }
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn suffix_leads_to_its_member() {
    for (method, target, expected) in [
        ("GET", "/api/v1/namespaces/shop_m1/pods", "m1 /api/v1/namespaces/shop/pods"),
        ("GET", "/api/v1/namespaces/shop_m1/pods/", "m1 /api/v1/namespaces/shop/pods"),
        ("GET", "/api/v1/namespaces/shop%5Fm1/pods", "m1 /api/v1/namespaces/shop/pods"),
        (
            "POST",
            "/api/v1/namespaces/shop_m1/pods/a/exec?command=a_m2",
            "m1 /api/v1/namespaces/shop/pods/a/exec?command=a_m2",
        ),
        (
            "GET",
            "/api/v1/namespaces/s_m1/services/w/proxy/a_m2%2Fb",
            "m1 /api/v1/namespaces/s/services/w/proxy/a_m2%2Fb",
        ),
        ("DELETE", "/api/v1/namespaces/shop_m1", "m1 /api/v1/namespaces/shop"),
        ("PUT", "/api/v1/namespaces/shop_m1/finalize", "m1 /api/v1/namespaces/shop/finalize"),
        ("GET", "/api/v1/nodes/n1_m1", "m1 /api/v1/nodes/n1"),
        (
            "GET",
            "/api/v1/nodes?fieldSelector=metadata.name%3Dn1_m1",
            "m1 /api/v1/nodes?fieldSelector=metadata.name%3Dn1",
        ),
        (
            "GET",
            "/api/v1/pods?limit=5&fieldSelector=spec.nodeName%3Dn1_m1%2Cstatus.phase!%3DFailed",
            "m1 /api/v1/pods?limit=5&fieldSelector=spec.nodeName%3Dn1%2Cstatus.phase%21%3DFailed",
        ),
        (
            "GET",
            "/api/v1/events?fieldSelector=involvedObject.uid%3Dn1_m1%2CinvolvedObject.name%3Dn1_m1",
            "m1 /api/v1/events?fieldSelector=involvedObject.uid%3Dn1%2CinvolvedObject.name%3Dn1",
        ),
        (
            "GET",
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1_m1",
            "m1 /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1",
        ),
        (
            "GET",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/a_b:c_m1",
            "m1 /apis/rbac.authorization.k8s.io/v1/clusterroles/a_b:c",
        ),
        (
            "GET",
            "/apis/rbac.authorization.k8s.io/v1/namespaces/s_m1/roles/a_m2",
            "m1 /apis/rbac.authorization.k8s.io/v1/namespaces/s/roles/a_m2",
        ),
        (
            "GET",
            "/api/v1/namespaces/shop_m1/pods?watch=1&resourceVersion=m1.42",
            "m1 /api/v1/namespaces/shop/pods?watch=1&resourceVersion=42",
        ),
        (
            "GET",
            "/api/v1/namespaces/shop_m1/pods?resourceVersion=42",
            "m1 /api/v1/namespaces/shop/pods?resourceVersion=42",
        ),
    ] {
        assert_eq!(routed(method, target), expected, "{method} {target}");
    }
}

#[test]
fn read_without_a_member_is_of_the_fleet() {
    for (method, target, expected) in [
        ("GET", "/api/v1/pods", "List /pods "),
        ("GET", "/api/v1/namespaces/shop/pods?watch=true", "Watch /pods shop"),
        ("GET", "/api/v1/namespaces/shop/pods/a", "Object /pods shop"),
        ("GET", "/api/v1/nodes/n1", "Object /nodes "),
        ("GET", "/api/v1/pods?fieldSelector=metadata.namespace!%3Dkube-system", "List /pods "),
        (
            "GET",
            "/apis/rbac.authorization.k8s.io/v1/namespaces/s/roles/a_m2",
            "Object rbac.authorization.k8s.io/roles s",
        ),
        ("GET", "/apis", "Document / "),
        ("GET", "/api/v1", "Document / "),
        ("GET", "/openapi/v3/api/v1?hash=1", "Document / "),
        ("GET", "/version", "Document / "),
        ("GET", "/healthz", "Document / "),
        ("POST", "/api/v1/namespaces", "Body /namespaces "),
        (
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            "Body authorization.k8s.io/selfsubjectaccessreviews ",
        ),
    ] {
        assert_eq!(routed(method, target), expected, "{method} {target}");
    }
}

#[test]
fn ambiguous_request_is_refused() {
    for (method, target, reason) in [
        ("GET", "/api/v1/watch/pods", "/watch/"),
        ("GET", "/api/v1/watch/namespaces/shop_m1/pods", "/watch/"),
        ("GET", "/api/v1/proxy/namespaces/shop_m1/pods/a", "/watch/ and /proxy/"),
        ("GET", "/api/v1/namespaces/shop_m1%2Fpods", "ambiguous"),
        ("GET", "/api/v1/namespaces//pods", "ambiguous"),
        ("GET", "/api/v1%2Fpods", "ambiguous"),
        ("GET", "/api/v1%2Fp/namespaces/shop_m1/pods/a", "ambiguous"),
        ("GET", "/apis/apps%2Fv1/namespaces/shop_m1/pods/a", "ambiguous"),
        ("GET", "/apis/apps/v1%2fdeployments", "ambiguous"),
        ("GET", "/api//v1/namespaces/shop_m1/pods", "ambiguous"),
        ("GET", "/api/v1/namespaces/shop_m1/pods/..", "dot segment"),
        ("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Da_m1%2Cmetadata.namespace%3Db_m2", "m1 and m2"),
        ("GET", "/api/v1/namespaces/shop_m1/pods?fieldSelector=spec.nodeName%3Da_m2", "m1 and m2"),
        ("GET", "/api/v1/pods?fieldSelector=metadata.namespace!%3Da_m1", "excludes"),
        ("GET", "/api/v1/namespaces/shop_m1/pods?watch=1&resourceVersion=m2.42", "resource version"),
        ("GET", "/api/v1/namespaces/shop_m1/pods?watch=1&resourceVersion=v1.AAAA", "resource version"),
        ("POST", "/api/v1/namespaces/shop/pods", "must name a member"),
        ("PATCH", "/api/v1/nodes/n1", "must name a member"),
        ("GET", "/api/v1/namespaces/shop/pods/a/log", "must name a member"),
        ("DELETE", "/api/v1/namespaces/shop/pods", "one member only"),
        ("POST", "/version", "only GET"),
        ("GET", "/metrics", "could not find"),
        ("GET", "/", "could not find"),
    ] {
        let routed = routed(method, target);
        assert!(routed.starts_with("error: ") && routed.contains(reason), "{method} {target}: {routed}");
    }
}

#[test]
fn only_the_star_is_the_fleet() {
    let root = path::CLUSTERS_PATH;
    for segment in ["*", "%2A", "%2a"] {
        assert_eq!(below(&format!("{root}/{segment}/proxy/api")), Some("api"), "{segment}");
        assert_eq!(below(&format!("{root}/{segment}/proxy")), Some(""), "{segment}");
    }
    for other in
        ["m1/proxy/api", "**/proxy", "*", "*/attach", "*/proxyx", "%2A", "%252A/proxy", "*/selfreviews/api"]
    {
        assert_eq!(below(&format!("{root}/{other}")), None, "{other}");
    }
}
