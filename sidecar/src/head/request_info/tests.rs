use super::*;

mod upstream;

const M1: &str = "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1";

fn parse(method: &str, target: &str) -> Result<RequestInfo, Error> {
    let request = Request::builder().method(method).uri(target).header("host", "sidecar");
    RequestInfo::parse(&request.body(()).unwrap())
}

fn route(target: &str) -> Route {
    parse("GET", target).unwrap().route
}

#[test]
fn proxy_path_splits_into_cluster_and_member_path() {
    for (rest, inner) in [
        ("/proxy", "/"),
        ("/proxy/", "/"),
        ("/proxy/api/v1/pods", "/api/v1/pods"),
        ("/proxy//api", "//api"),
        ("/proxy/api/v1/namespaces/a%2Fb", "/api/v1/namespaces/a%2Fb"),
        ("/proxy/x/proxy/y", "/x/proxy/y"),
    ] {
        let Route::Proxy(_, name, path) = route(&format!("{M1}{rest}")) else { panic!("{rest}") };
        assert_eq!((name.as_str(), path.as_str()), ("m1", inner));
    }
}

#[test]
fn self_review_path_allows_only_reviews_of_the_caller() {
    for inner in [
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        "/api",
        "/apis",
        "/apis/apps/v1",
        "/openapi/v3",
        "/version",
    ] {
        let Route::Proxy(_, name, path) = route(&format!("{M1}/selfreviews{inner}")) else {
            panic!("{inner}")
        };
        assert_eq!((name.as_str(), path.as_str()), ("m1", inner));
    }
    for inner in [
        "",
        "/",
        "/api/v1/pods",
        "/api/v1/namespaces/x/secrets",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        "/apis/authentication.k8s.io/v1/tokenreviews",
        "/apis/authentication.k8s.io/v1/selfsubjectreviews/x",
        "/apis/authentication.k8s.io/v1/selfsubjectreviews/../../../../api/v1/secrets",
        "/proxy/api",
        "/api/v1%2Fpods",
        "/apis//v1/pods",
        "//api",
    ] {
        assert!(parse("GET", &format!("{M1}/selfreviews{inner}")).is_err(), "{inner}");
    }
}

#[test]
fn fault_22_24_25_26_ambiguous_spelling_is_refused() {
    for rest in [
        "/proxy/../../m2/proxy/api",
        "/proxy/api/..",
        "/proxy/./api",
        "/proxy/%2e%2e/api",
        "/proxy/%2E./api",
        "/proxy/api%2f..%2fx",
        "/proxy/api%00",
        "/proxy/api%5c..",
        "/proxy/api%zz",
        "/proxy/%0d%0aX:y",
        "//proxy/api",
        "/PROXY/api",
        "/proxyx",
        "%2Fproxy/api",
        "/%70roxy/api",
        "/proxy%2Fapi",
        "/status",
    ] {
        assert!(parse("GET", &format!("{M1}{rest}")).is_err(), "{rest}");
    }
    for target in [
        "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters//m1/proxy/api",
        "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/../proxy/api",
        "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/%2e%2e/proxy/api",
        "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/M1/proxy/api",
        "/apis//proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy/api",
        "/apis/proxy.kubectl-mc.dev/v1alpha1/watch/clusters/m1/proxy/api",
        "/apis/proxy.kubectl-mc.dev/v1alpha1/namespaces/a/clusters/m1/proxy/api",
        "/apis/proxy.kubectl-mc.dev/v1alpha1/clustersx",
        "/apis/proxy.kubectl-mc.devx/v1alpha1",
        "/apis/proxy.kubectl-mc.dev/v1",
        "/openapi/v3/apis/proxy.kubectl-mc.dev",
        "/",
        "/api",
    ] {
        assert!(parse("GET", target).is_err(), "{target}");
    }
}

#[test]
fn verb_of_a_proxy_request_follows_its_method() {
    for (method, verb, is_read) in [
        ("GET", "get", true),
        ("HEAD", "get", true),
        ("POST", "create", false),
        ("PUT", "update", false),
        ("PATCH", "patch", false),
        ("DELETE", "delete", false),
        ("OPTIONS", "", false),
    ] {
        let found = parse(method, &format!("{M1}/proxy/api?watch=true")).unwrap().verb;
        assert_eq!((found.as_str(), found.is_read()), (verb, is_read), "{method}");
    }
    assert!(Verb::List.is_read() && Verb::Watch.is_read());
    for method in ["TRACE", "get", "PROPFIND"] {
        assert!(matches!(parse(method, &format!("{M1}/proxy/api")), Err(Error::Method(_))), "{method}");
    }
    assert!(matches!(parse("CONNECT", "m1:443"), Err(Error::Method(_))));
}

#[test]
fn clusters_are_read_only() {
    let collection = "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters";
    for (target, verb) in [
        (collection.to_owned(), Verb::List),
        (format!("{collection}?watch=false"), Verb::List),
        (format!("{collection}?watch"), Verb::Watch),
        (format!("{collection}?watch=bogus"), Verb::Watch),
        (format!("{collection}/m1?watch=true"), Verb::Get),
    ] {
        assert_eq!(parse("GET", &target).unwrap().verb, verb, "{target}");
    }
    for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
        assert!(matches!(parse(method, collection), Err(Error::Method(_))), "{method}");
    }
}

#[test]
fn static_documents_are_routed() {
    for (target, document) in [
        ("/apis", Document::Groups),
        ("/apis/proxy.kubectl-mc.dev", Document::Group(Origin::MemberCluster)),
        ("/apis/proxy.kubectl-mc.dev/", Document::Group(Origin::MemberCluster)),
        ("/apis/proxy.kubectl-mc.dev/v1alpha1", Document::Resources(Origin::MemberCluster)),
        ("/openapi/v2", Document::OpenApiV2),
        ("/openapi/v3", Document::OpenApiV3Index),
        ("/openapi/v3/apis/proxy.kubectl-mc.dev/v1alpha1", Document::OpenApiV3(Origin::MemberCluster)),
        ("/version", Document::Version),
    ] {
        assert_eq!(route(target), Route::Discovery(document), "{target}");
    }
}

#[test]
fn too_many_headers_are_refused() {
    let with = |headers: usize| {
        let mut request = Request::builder().uri(format!("{M1}/proxy/api")).header("host", "h");
        for n in 1..headers {
            request = request.header(format!("x-{n}"), "");
        }
        RequestInfo::parse(&request.body(()).unwrap())
    };
    assert!(with(MAX_HEADERS).is_ok());
    assert!(matches!(with(MAX_HEADERS + 1), Err(Error::Framing(_))));
}

#[test]
fn health_and_metrics_paths_are_read_only() {
    for (target, found) in [
        ("/livez", Route::Health(Health::Live)),
        ("/healthz", Route::Health(Health::Live)),
        ("/readyz", Route::Health(Health::Ready)),
        ("/metrics", Route::Metrics),
        ("/apis", Route::Discovery(Document::Groups)),
    ] {
        for method in ["GET", "HEAD"] {
            let info = parse(method, target).unwrap();
            assert_eq!((info.verb, &info.route), (Verb::Get, &found), "{method} {target}");
        }
        for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
            assert!(matches!(parse(method, target), Err(Error::Method(_))), "{method} {target}");
        }
    }
}

#[test]
fn only_member_requests_can_ask_for_an_upgrade() {
    for (target, upgrade) in [
        (format!("{M1}/proxy/api"), Some(Protocol::Spdy)),
        (M1.to_owned(), None),
        ("/version".to_owned(), None),
    ] {
        let request = Request::builder().uri(&target).header("host", "h");
        let request = request.header("connection", "upgrade").header("upgrade", "SPDY/3.1");
        let info = RequestInfo::parse(&request.body(()).unwrap()).unwrap();
        assert_eq!((info.upgrade, info.is_long_running), (upgrade, upgrade.is_some()), "{target}");
    }
}

#[test]
fn discovery_calls_to_a_member_are_recognized() {
    for (rest, discovery) in [
        ("/proxy/api", true),
        ("/proxy/apis", true),
        ("/proxy/apis/apps/v1", true),
        ("/proxy/api/v1", true),
        ("/proxy/version", true),
        ("/proxy/openapi/v3/apis/apps/v1", true),
        ("/proxy/api/v1/pods", false),
        ("/proxy/apis/apps/v1/deployments", false),
        ("/proxy/healthz", false),
    ] {
        assert_eq!(parse("GET", &format!("{M1}{rest}")).unwrap().is_member_discovery(), discovery, "{rest}");
    }
}

#[test]
fn fault_32_request_with_two_lengths_is_refused() {
    for lines in [
        &[("content-length", "3"), ("content-length", "3")][..],
        &[("content-length", "3"), ("transfer-encoding", "chunked")],
        &[("transfer-encoding", "gzip, chunked")],
        &[("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")],
        &[("host", "b")],
    ] {
        let mut request =
            Request::builder().method("POST").header("host", "a").uri(format!("{M1}/proxy/api"));
        for (name, value) in lines {
            request = request.header(*name, *value);
        }
        let parsed = RequestInfo::parse(&request.body(()).unwrap());
        assert!(matches!(parsed, Err(Error::Framing(_))), "{lines:?}");
    }
}

#[test]
fn request_with_one_length_is_accepted() {
    for line in [
        ("content-length", "3"),
        ("transfer-encoding", "chunked"),
        ("transfer-encoding", "Chunked"),
        ("accept", "*/*"),
    ] {
        let request = Request::builder().method("POST").header("host", "a").header(line.0, line.1);
        assert!(
            RequestInfo::parse(&request.uri(format!("{M1}/proxy/api")).body(()).unwrap()).is_ok(),
            "{line:?}"
        );
    }
}

#[test]
fn fault_32_request_without_required_host_is_refused() {
    let request =
        |version| Request::builder().version(version).uri(format!("{M1}/proxy/api")).body(()).unwrap();
    assert!(matches!(RequestInfo::parse(&request(Version::HTTP_11)), Err(Error::Framing(_))));
    assert!(RequestInfo::parse(&request(Version::HTTP_2)).is_ok());
}

#[test]
fn fault_28_absolute_target_is_refused_over_http1() {
    let target = format!("https://m1.example{M1}/proxy/api");
    let request =
        |version| Request::builder().version(version).uri(&target).header("host", "x").body(()).unwrap();
    assert!(matches!(RequestInfo::parse(&request(Version::HTTP_11)), Err(Error::Framing(_))));
    assert!(matches!(RequestInfo::parse(&request(Version::HTTP_10)), Err(Error::Framing(_))));
    assert!(RequestInfo::parse(&request(Version::HTTP_2)).is_ok(), "every target does over HTTP/2");
}

#[test]
fn fault_32_target_with_raw_utf8_is_refused() {
    assert!(matches!(parse("GET", &format!("{M1}/proxy/api/v1/namespaces/é")), Err(Error::Framing(_))));
}

#[test]
fn hub_group_serves_only_the_proxy() {
    let collection = "/apis/aggregated.kubeadmiral.io/v1alpha1/aggregations";
    for (rest, inner) in [("", "/"), ("/", "/"), ("/api/v1/pods", "/api/v1/pods")] {
        let target = format!("{collection}/m1/proxy{rest}");
        let Route::Proxy(Origin::KubeAdmiral, name, path) = route(&target) else { panic!("{rest}") };
        assert_eq!((name.as_str(), path.decoded().as_ref()), ("m1", inner), "{rest}");
    }
    let Route::Proxy(Origin::Karmada, ..) = route("/apis/cluster.karmada.io/v1alpha1/clusters/m1/proxy/x")
    else {
        panic!("the group of Karmada")
    };
    for rest in [
        "",
        "/",
        "/m1",
        "/m1/",
        "/m1/status",
        "/m1/attach",
        "/m1/selfreviews/version",
        "/m1/proxyx",
        "s/m1/proxy",
    ] {
        let request =
            Request::builder().uri(format!("{collection}{rest}")).header("host", "h").body(()).unwrap();
        assert!(matches!(RequestInfo::parse(&request), Err(Error::NotFound(_))), "{rest}");
    }
    for rest in
        ["/M1/proxy", "/m.1/proxy", "//proxy", "/m1/proxy/a/../b", "/m1/proxy/%2e%2e/b", "/%6d1/proxy"]
    {
        let request =
            Request::builder().uri(format!("{collection}{rest}")).header("host", "h").body(()).unwrap();
        assert!(RequestInfo::parse(&request).is_err(), "{rest}");
    }
    for (target, document) in [
        ("/apis/aggregated.kubeadmiral.io", Document::Group(Origin::KubeAdmiral)),
        ("/apis/aggregated.kubeadmiral.io/v1alpha1", Document::Resources(Origin::KubeAdmiral)),
        ("/openapi/v3/apis/aggregated.kubeadmiral.io/v1alpha1", Document::OpenApiV3(Origin::KubeAdmiral)),
    ] {
        assert_eq!(route(target), Route::Discovery(document), "{target}");
    }
}
