//! Tests `access explain` against a fake host and a fake member.

use serde_json::{Value, json};

use crate::bed::{Answer, Bed, Ran, status};

/// A read-only caller: the host refuses every POST to the member, and the member lets them list
/// pods.
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
                    resource("pods/exec", "Pod", true),
                    resource("nodes", "Node", false),
                ];
                ok(json!({"resources": all})).sent_by_member()
            }
            "/apis" => {
                let apps = json!({"name": "apps", "preferredVersion": {"groupVersion": "apps/v1"}});
                ok(json!({"groups": [apps]})).sent_by_member()
            }
            "/apis/apps/v1" => {
                let deployments = json!({"name": "deployments", "singularName": "deployment", "kind": "Deployment",
                    "shortNames": ["deploy"], "namespaced": true});
                ok(json!({"resources": [deployments]})).sent_by_member()
            }
            "/api/v1/namespaces/ns/pods?limit=1"
            | "/api/v1/pods?limit=1"
            | "/api/v1/namespaces/shop/pods?limit=1"
            | "/api/v1/namespaces/shop/pods/web" => ok(json!({"items": []})).sent_by_member(),
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
    let ran = explain(&["--as=eve", "--as-group=dev", "get", "podz"]);
    assert!(ran.out.contains("host authorization    no") && !ran.out.contains("access grant"), "{ran:?}");
}

/// A caller to whom host and member allow everything except the paths in `refused`.
fn bed_of_an_editor(hidden: bool) -> Bed {
    Bed::serving(move |path| {
        let created = |body: Value| Answer::from((201, "application/json", body.to_string()));
        let ok = |body: Value| Answer::from((200, "application/json", body.to_string()));
        let resource = |name: &str, kind: &str| json!({"name": name, "singularName": kind.to_lowercase(), "kind": kind, "shortNames": [], "namespaced": true});
        let Some((_, member)) = path.split_once("/clusters/m1/proxy") else {
            return match path {
                path if path.ends_with("/selfsubjectreviews") => {
                    created(json!({"status": {"userInfo": {"username": "jane", "groups": ["dev"]}}}))
                }
                path if path.ends_with("accessreviews") => created(json!({"status": {"allowed": true}})),
                path if path.ends_with("/clusters/m1") && !hidden => {
                    ok(json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}))
                }
                _ => status(404, "sidecar", "clusters \"m1\" not found"),
            };
        };
        match member {
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" => {
                created(json!({"status": {"allowed": true}})).sent_by_member()
            }
            "/api/v1" => ok(json!({"resources": [resource("pods", "Pod")]})).sent_by_member(),
            "/apis" => {
                let apps = json!({"name": "apps", "preferredVersion": {"groupVersion": "apps/v1"}});
                ok(json!({"groups": [apps]})).sent_by_member()
            }
            "/apis/apps/v1" => {
                ok(json!({"resources": [resource("deployments", "Deployment")]})).sent_by_member()
            }
            _ => status(404, "member", "not found").sent_by_member(),
        }
    })
}

#[test]
fn explain_takes_the_words_of_kubectl() {
    let bed = bed_of_an_editor(false);
    for (words, host) in [
        (&["exec", "web"][..], "create"),
        (&["exec", "deployment/web"], "create"),
        (&["attach", "web"], "create"),
        (&["logs", "web"], "get"),
        (&["port-forward", "web", "8080:80"], "create"),
        (&["cp", "shop/web:/etc/hosts", "."], "create"),
        (&["scale", "deployment", "web"], "patch"),
        (&["rollout", "restart", "deployment/web"], "patch"),
        (&["rollout", "status", "deployment", "web"], "get"),
        (&["set", "image", "deployment/web", "web=nginx"], "patch"),
        (&["label", "pod", "web", "a=b"], "patch"),
        (&["annotate", "pod/web", "a=b"], "patch"),
        (&["edit", "deployment", "web"], "patch"),
        (&["apply", "deployment/web"], "patch"),
        (&["describe", "pod", "web"], "get"),
        (&["top", "pod", "web"], "get"),
        (&["run", "web"], "create"),
    ] {
        let ran = bed.run(&[&["access", "explain", "-C", "m1"], words].concat());
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{words:?}: {ran:?}");
        let line = format!("host authorization    yes  {host} clusters/proxy of m1\n");
        assert!(ran.out.contains(&line), "{words:?}: {ran:?}");
    }
    // The namespace is the one of the path, of -n, or of the context, as in kubectl.
    let question = |words: &[&str]| {
        let ran = bed.run(&[&["access", "explain", "-C", "m1"], words].concat());
        ran.out.lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(question(&["cp", "shop/web:/etc/hosts", "."]), "May jane cp pods web in shop on m1?");
    assert_eq!(question(&["exec", "web"]), "May jane exec web in ns on m1?");
    assert_eq!(question(&["get", "pods", "-n", "shop"]), "May jane get pods in shop on m1?");
    assert_eq!(question(&["get", "pods", "-A"]), "May jane get pods on m1?");
    let ran = bed.run(&["access", "explain", "-C", "m1", "rollout", "retsart", "deploy/web"]);
    let text = "error: unknown verb: \"rollout retsart\"\nhint: did you mean rollout restart?\n";
    assert_eq!((ran.code, ran.err.as_str()), (Some(2), text));
}

#[test]
fn exec_without_its_right_names_the_right() {
    // This caller is read-only: the host refuses the upgrade, and the member was not asked.
    let ran = explain(&["exec", "web", "-n", "shop"]);
    assert!(!ran.out.contains("serves no resource"), "{ran:?}");
    assert!(ran.out.contains("member authorization  ?    the request does not reach the member"), "{ran:?}");
}

#[test]
fn refusal_without_known_groups_is_unknown() {
    let ran = explain(&["--as=eve", "get", "pods", "-n", "shop"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let unknown = "host authorization    ?    by the name alone, may not get clusters/proxy of m1; the groups of eve are unknown\n\
                   \x20                          fix: repeat with --as-group=GROUP for each group of eve \
                   (--as-group=system:authenticated if there is none)\n";
    assert!(ran.out.contains(unknown), "{ran:?}");
    assert!(
        ran.out.contains("member authorization  ?    by the name alone, nothing on m1 allows it"),
        "{ran:?}"
    );
    assert!(!ran.out.contains("access grant"), "{ran:?}");
    // If all groups are given, a refusal counts.
    let ran = explain(&["--as=eve", "--as-group=system:authenticated", "get", "pods", "-n", "shop"]);
    assert!(ran.out.contains("host authorization    no   may not get"), "{ran:?}");
    assert!(ran.out.contains("access grant view --user=eve -n shop -C m1"), "{ran:?}");
}

#[test]
fn hidden_cluster_may_be_registered() {
    let ran = bed_of_an_editor(true).run(&["access", "explain", "-C", "m1", "get", "pods"]);
    assert!(
        ran.out.contains("sidecar               no   m1 is not registered, or not visible to you\n"),
        "{ran:?}"
    );
}
