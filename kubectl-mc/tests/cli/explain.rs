//! Tests `access explain` against a fake host and a fake member.

use serde_json::{Value, json};

use crate::bed::{Answer, Bed, Ran, status};

/// A caller who may only read: the host refuses every POST to the member, and the member lets them list pods.
fn bed() -> Bed {
    Bed::serving(|path| {
        let ok = |body: Value| Answer::from((200, "application/json", body.to_string()));
        let created = |body: Value| Answer::from((201, "application/json", body.to_string()));
        let refused = json!({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "not for you"});
        let refused = || Answer::from((403, "application/json", refused.to_string())).of("member");
        let Some((_, member)) = path.split_once("/clusters/m1/proxy") else {
            return match path {
                path if path.ends_with("/selfsubjectreviews") => {
                    created(json!({"status": {"userInfo": {"username": "jane", "groups": ["dev"]}}}))
                }
                path if path.ends_with("reviews") => {
                    created(json!({"status": {"allowed": path.ends_with("/selfsubjectaccessreviews")}}))
                }
                path if path.ends_with("/clusters/m1") => {
                    let yes = |kind: &str| json!({"type": kind, "status": "True"});
                    ok(json!({"status": {"conditions": [yes("Ready"), yes("AuthSynced")]}}))
                }
                _ => Answer::from((403, "application/json", "{}".to_owned())),
            };
        };
        match member {
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" => {
                status(403, "host authorization", "may not create clusters/proxy")
            }
            "/apis/authorization.k8s.io/v1/subjectaccessreviews" => {
                created(json!({"status": {"allowed": false}})).sent_by_member()
            }
            "/api/v1" => {
                let resource = |name: &str, kind: &str, namespaced: bool| json!({"name": name, "singularName": kind.to_lowercase(), "kind": kind, "namespaced": namespaced});
                let all = [
                    resource("pods", "Pod", true),
                    resource("pods/log", "Pod", true),
                    resource("nodes", "Node", false),
                ];
                ok(json!({"resources": all})).sent_by_member()
            }
            "/apis" => ok(json!({"groups": []})).sent_by_member(),
            "/api/v1/namespaces/shop/pods?limit=1" | "/api/v1/namespaces/shop/pods/web" => {
                ok(json!({"items": []})).sent_by_member()
            }
            _ => refused(),
        }
    })
}

fn explain(words: &[&str]) -> Ran {
    bed().run(&[&["access", "explain", "-C", "m1"], words].concat())
}

#[test]
fn reader_gets_an_explanation_without_as() {
    for words in [&["get", "pods", "-n", "shop"][..], &["get", "pod/web", "-n", "shop"]] {
        let ran = explain(words);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
        assert!(ran.out.contains("member impersonation  yes  m1 accepted the impersonation\n"), "{ran:?}");
        assert!(ran.out.ends_with("member authorization  yes  allowed\n"), "{ran:?}");
    }
}

#[test]
fn fix_is_a_role_that_includes_the_right() {
    let ran = explain(&["get", "nodes", "-n", "shop"]);
    let fix = "fix: kubectl mc --context=host -C m1 create clusterrole read-nodes --verb=get,list,watch --resource=nodes \
               && kubectl mc --context=host access grant read-nodes --user=jane -C m1\n";
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.out.contains("member authorization  no   nothing on m1 allows it: not for you\n"), "{ran:?}");
    assert!(ran.out.ends_with(fix), "{ran:?}");
    let ran = explain(&["get", "secrets/x", "-n", "shop"]);
    assert!(ran.out.contains("m1 serves no resource \"secrets/x\""), "{ran:?}");
    let ran = explain(&["logs", "pod/other", "-n", "shop"]);
    assert!(
        ran.out.ends_with("fix: kubectl mc --context=host access grant view --user=jane -n shop -C m1\n"),
        "{ran:?}"
    );
}

#[test]
fn on_demand_access_counts_as_allowed() {
    let ran = explain(&["--as=eve", "--as-group=dev", "get", "pods", "-n", "shop"]);
    let line = "member impersonation  yes  on-demand access: the first request lets the sidecar impersonate \
                user \"eve\", group \"dev\"\n";
    assert!(ran.out.contains(line), "{ran:?}");
}

#[test]
fn unknown_verb_and_resource_are_named() {
    let (code, text) = (Some(2), "error: unknown verb: \"gett\"\nhint: did you mean get?\n");
    let ran = explain(&["gett", "pods"]);
    assert_eq!((ran.code, ran.err.as_str()), (code, text));
    let ran = explain(&["get", "podz"]);
    let expected = "member authorization  no   m1 serves no resource \"podz\"\n";
    assert!(
        ran.out.contains(expected)
            && ran.out.ends_with("fix: kubectl mc --context=host -C m1 api-resources\n"),
        "{ran:?}"
    );
    // A grant on the host would not help either.
    let ran = explain(&["--as=eve", "get", "podz"]);
    assert!(ran.out.contains("host authorization    no") && !ran.out.contains("access grant"), "{ran:?}");
}
