//! The exact exit code, standard output and standard error of one command on several clusters of a real
//! Kubernetes.

use anyhow::Result;
use harness::caller::Caller;
use harness::scene::{EVERY_VERB, Scene};
use harness::tool::Tool;
use insta::assert_snapshot;
use serde_json::json;

use crate::plugin;

#[test]
fn lists_print_as_one_table() -> Result<()> {
    let plugin = fleet("promised-tables")?;
    let all = ["-l", "app=x", "-C", "m1,m2"];
    assert_snapshot!(plugin.run(&[&["get", "configmaps"], &all[..]].concat())?.rendered(), @r"
    exit code: 0
    ----- stdout -----
    CLUSTER   NAME      DATA   AGE
    m1        both      2      AGE
    m1        only-m1   2      AGE
    m2        both      2      AGE
    ----- stderr -----
    ");
    assert_snapshot!(plugin.run(&[&["get", "deployments", "-o", "wide"], &all[..]].concat())?.rendered(), @r"
    exit code: 0
    ----- stdout -----
    CLUSTER   NAME   READY   UP-TO-DATE   AVAILABLE   AGE   CONTAINERS   IMAGES      SELECTOR
    m1        web    0/0     0            0           AGE   main         web:green   app=web
    m2        web    0/0     0            0           AGE   main         web:blue    app=web
    ----- stderr -----
    ");
    assert_snapshot!(plugin.run(&[&["get", "cm,deploy"], &all[..]].concat())?.rendered(), @r"
    exit code: 0
    ----- stdout -----
    CLUSTER   NAME                DATA   AGE
    m1        configmap/both      2      AGE
    m1        configmap/only-m1   2      AGE
    m2        configmap/both      2      AGE

    CLUSTER   NAME                  READY   UP-TO-DATE   AVAILABLE   AGE
    m1        deployment.apps/web   0/0     0            0           AGE
    m2        deployment.apps/web   0/0     0            0           AGE
    ----- stderr -----
    ");
    assert_snapshot!(plugin.run(&[&["get", "cm", "--show-labels", "--no-headers"], &all[..]].concat())?.rendered(), @r"
    exit code: 0
    ----- stdout -----
    m1    both      2     AGE   app=x
    m1    only-m1   2     AGE   app=x
    m2    both      2     AGE   app=x
    ----- stderr -----
    ");
    assert_snapshot!(plugin.run(&["get", "cm", "-l", "app=nobody", "-C", "m1,m2"])?.rendered(), @r"
    exit code: 0
    ----- stdout -----
    ----- stderr -----
    No resources found in e2e-promised-tables namespace.
    ");
    Ok(())
}

#[test]
#[expect(clippy::too_many_lines, reason = "one page of output")]
fn lists_print_as_one_document() -> Result<()> {
    let plugin = fleet("promised-documents")?;
    let all = ["-l", "app=x", "-C", "m1,nowhere,m2"];
    assert_snapshot!(plugin.run(&[&["get", "cm", "-o", "json"], &all[..]].concat())?.rendered(), @r#"
    exit code: 4
    ----- stdout -----
    {
        "apiVersion": "v1",
        "items": [
            {
                "apiVersion": "v1",
                "data": {
                    "colour": "green",
                    "shape": "round"
                },
                "kind": "ConfigMap",
                "metadata": {
                    "annotations": {
                        "fleet.kubectl-mc.dev/cluster": "m1"
                    },
                    "creationTimestamp": "TIME",
                    "labels": {
                        "app": "x"
                    },
                    "name": "both",
                    "namespace": "e2e-promised-documents",
                    "resourceVersion": "VERSION",
                    "uid": "UID"
                }
            },
            {
                "apiVersion": "v1",
                "data": {
                    "colour": "green",
                    "shape": "round"
                },
                "kind": "ConfigMap",
                "metadata": {
                    "annotations": {
                        "fleet.kubectl-mc.dev/cluster": "m1"
                    },
                    "creationTimestamp": "TIME",
                    "labels": {
                        "app": "x"
                    },
                    "name": "only-m1",
                    "namespace": "e2e-promised-documents",
                    "resourceVersion": "VERSION",
                    "uid": "UID"
                }
            },
            {
                "apiVersion": "v1",
                "data": {
                    "colour": "blue",
                    "shape": "round"
                },
                "kind": "ConfigMap",
                "metadata": {
                    "annotations": {
                        "fleet.kubectl-mc.dev/cluster": "m2"
                    },
                    "creationTimestamp": "TIME",
                    "labels": {
                        "app": "x"
                    },
                    "name": "both",
                    "namespace": "e2e-promised-documents",
                    "resourceVersion": "VERSION",
                    "uid": "UID"
                }
            }
        ],
        "kind": "List",
        "metadata": {
            "clusterErrors": [
                {
                    "cause": "unknown",
                    "cluster": "nowhere",
                    "message": "cluster unknown: clusters.proxy.kubectl-mc.dev \"nowhere\" not found"
                }
            ],
            "resourceVersion": ""
        }
    }
    ----- stderr -----
    nowhere | error: cluster unknown: clusters.proxy.kubectl-mc.dev "nowhere" not found
    1 of 3 clusters failed: 1 unknown (nowhere)
    "#);
    assert_snapshot!(plugin.run(&[&["get", "cm", "-o", "yaml"], &all[..]].concat())?.rendered(), @r#"
    exit code: 4
    ----- stdout -----
    apiVersion: v1
    items:
    - apiVersion: v1
      data:
        colour: green
        shape: round
      kind: ConfigMap
      metadata:
        annotations:
          fleet.kubectl-mc.dev/cluster: m1
        creationTimestamp: "TIME"
        labels:
          app: x
        name: both
        namespace: e2e-promised-documents
        resourceVersion: "VERSION"
        uid: UID
    - apiVersion: v1
      data:
        colour: green
        shape: round
      kind: ConfigMap
      metadata:
        annotations:
          fleet.kubectl-mc.dev/cluster: m1
        creationTimestamp: "TIME"
        labels:
          app: x
        name: only-m1
        namespace: e2e-promised-documents
        resourceVersion: "VERSION"
        uid: UID
    - apiVersion: v1
      data:
        colour: blue
        shape: round
      kind: ConfigMap
      metadata:
        annotations:
          fleet.kubectl-mc.dev/cluster: m2
        creationTimestamp: "TIME"
        labels:
          app: x
        name: both
        namespace: e2e-promised-documents
        resourceVersion: "VERSION"
        uid: UID
    kind: List
    metadata:
      clusterErrors:
      - cause: unknown
        cluster: nowhere
        message: "cluster unknown: clusters.proxy.kubectl-mc.dev \"nowhere\" not found"
      resourceVersion: ""
    ----- stderr -----
    nowhere | error: cluster unknown: clusters.proxy.kubectl-mc.dev "nowhere" not found
    1 of 3 clusters failed: 1 unknown (nowhere)
    "#);
    assert_snapshot!(plugin.run(&[&["get", "cm", "-o", "name"], &all[..]].concat())?.rendered(), @r#"
    exit code: 4
    ----- stdout -----
    m1      | configmap/both
    m1      | configmap/only-m1
    m2      | configmap/both
    ----- stderr -----
    nowhere | error: cluster unknown: clusters.proxy.kubectl-mc.dev "nowhere" not found
    1 of 3 clusters failed: 1 unknown (nowhere)
    "#);
    Ok(())
}

#[test]
fn some_all_and_no_failures_have_distinct_exit_codes() -> Result<()> {
    let plugin = fleet("promised-codes")?;
    assert_snapshot!(plugin.run(&["get", "configmap", "both", "only-m1", "-C", "m1,m2"])?.rendered(), @r#"
    exit code: 4
    ----- stdout -----
    CLUSTER   NAME      DATA   AGE
    m1        both      2      AGE
    m1        only-m1   2      AGE
    m2        both      2      AGE
    ----- stderr -----
    m2 | Error from server (NotFound): configmaps "only-m1" not found
    1 of 2 clusters failed: 1 not found (m2)
    "#);
    assert_snapshot!(plugin.run(&["get", "secrets", "-n", "kube-system", "-C", "m1,m2"])?.rendered(), @r#"
    exit code: 5
    ----- stdout -----
    ----- stderr -----
    m1 | Error from server (Forbidden): secrets is forbidden: User "e2e-promised-codes-user" cannot list resource "secrets" in API group "" in the namespace "kube-system"
    m2 | Error from server (Forbidden): secrets is forbidden: User "e2e-promised-codes-user" cannot list resource "secrets" in API group "" in the namespace "kube-system"
    2 of 2 clusters failed: 2 forbidden by the member (m1, m2)
    "#);
    assert_snapshot!(plugin.run(&["get", "nothing-like-it", "-C", "m1,m2"])?.rendered(), @r#"
    exit code: 5
    ----- stdout -----
    ----- stderr -----
    m1 | error: the server doesn't have a resource type "nothing-like-it"
    m2 | error: the server doesn't have a resource type "nothing-like-it"
    2 of 2 clusters failed: 2 no such resource type (m1, m2)
    "#);
    assert_snapshot!(plugin.run(&["delete", "configmap", "both", "-C", "m1,m2"])?.rendered(), @r"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: refusing to change 2 clusters without confirmation: there is no terminal to ask at
    hint: --yes changes them; --dry-run=clusters shows what would be done
    ");
    Ok(())
}

#[test]
fn differences_are_compared_field_by_field() -> Result<()> {
    let plugin = fleet("promised-compare")?;
    assert_snapshot!(plugin.run(&["compare", "get", "cm/both", "cm/only-m1", "deploy/web", "-C", "m1,m2"])?.rendered(), @r"
    exit code: 1
    ----- stdout -----
    ConfigMap e2e-promised-compare/both
    @@ .data.colour @@
    --- m1
    +++ m2
    - green
    + blue

    ConfigMap e2e-promised-compare/only-m1
    @@ (object) @@
    --- m1
    +++ m2
    - there
    + missing

    Deployment.apps e2e-promised-compare/web
    @@ .spec.template.spec.containers[name=main].image @@
    --- m1
    +++ m2
    - web:green
    + web:blue
    ----- stderr -----
    ");
    Ok(())
}

/// A namespace on two members with objects that are equal, that differ, and that exist on one member only.
fn fleet(name: &str) -> Result<Tool> {
    let (one, two) = (Scene::on("m1", name)?, Scene::on("m2", name)?);
    let caller = Caller::certificate(&format!("e2e-{name}-user"), &[])?;
    one.let_in(&caller, &["m1", "m2", "nowhere"], EVERY_VERB)?;
    one.allow(&caller)?;
    two.allow(&caller)?;
    for (scene, colour) in [(&one, "green"), (&two, "blue")] {
        let map = |name: &str| {
            let object = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"app": "x"}},
                "data": {"colour": colour, "shape": "round"},
            });
            scene.api.apply(&format!("/api/v1/namespaces/{}/configmaps/{name}", scene.name), &object)
        };
        map("both")?;
        if scene.member == "m1" {
            map("only-m1")?;
        }
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "labels": {"app": "x"}},
            "spec": {
                "replicas": 0, "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "main", "image": format!("web:{colour}")}]},
                },
            },
        });
        scene.api.apply(&format!("/apis/apps/v1/namespaces/{}/deployments/web", scene.name), &deployment)?;
    }
    Ok(plugin(&caller)?.with(&["--namespace", &one.name]))
}
