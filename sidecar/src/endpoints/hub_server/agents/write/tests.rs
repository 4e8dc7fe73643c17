use super::*;

/// The Cluster of agent m1, as Karmada's server sends it.
fn stored() -> Value {
    let reference = |name: &str| json!({"namespace": NAMESPACE, "name": name});
    json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {
            "name": "m1", "uid": "u", "resourceVersion": "7", "generation": 2,
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"env": "a"},
            "finalizers": ["karmada.io/cluster-controller"],
        },
        "spec": {
            "syncMode": "Pull", "id": "i", "apiEndpoint": "https://m1.example:6443",
            "secretRef": reference("m1"), "impersonatorSecretRef": reference("m1-impersonator"),
            "taints": [{"key": "k", "effect": "NoSchedule"}], "region": "r",
            // A field of a later version.
            "unheardOf": {"a": [1]},
        },
        "status": {"kubernetesVersion": "v1.36.0"},
    })
}

fn written(part: Part, method: Method, media_type: &'static str, body: &str) -> Result<Write, Refused> {
    let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(media_type))]);
    Write::read(part, &method, &headers, body.as_bytes())
}

/// The document that is sent instead of an update or a merge patch.
fn judged(part: Part, method: Method, document: &Value) -> Result<Value, Refused> {
    let media_type = if method == Method::PATCH { MERGE_PATCH } else { JSON };
    let write = written(part, method, media_type, &document.to_string())?;
    Ok(match write.judge("m1", NAMESPACE, &stored())? {
        Judged::Sent(sent) => serde_json::from_slice(&sent).unwrap(),
        Judged::Conflict => "conflict".into(),
    })
}

fn put(change: impl Fn(&mut Value)) -> Result<Value, Refused> {
    let mut document = stored();
    change(&mut document);
    judged(Part::Object, Method::PUT, &document)
}

fn patch(document: &Value) -> Result<Value, Refused> {
    judged(Part::Object, Method::PATCH, document)
}

fn created(document: &Value) -> Result<Value, Refused> {
    let write = written(Part::New, Method::POST, JSON, &document.to_string())?;
    Ok(serde_json::from_slice(&write.judge_new("m1", NAMESPACE)?).unwrap())
}

/// Fields that an agent must not set: the field that the refusal names, and a document that
/// contains it.
fn redirecting() -> Vec<(&'static str, Value)> {
    let of_m2 = json!({"namespace": NAMESPACE, "name": "m2"});
    vec![
        ("spec.secretRef", json!({"spec": {"secretRef": of_m2}})),
        ("spec.secretRef", json!({"spec": {"secretRef": {"namespace": "kube-system", "name": "m1"}}})),
        (
            "spec.secretRef",
            json!({"spec": {"secretRef": {"namespace": NAMESPACE, "name": "m1", "Name": "m2"}}}),
        ),
        (
            "spec.impersonatorSecretRef",
            json!({"spec": {"impersonatorSecretRef": {"namespace": NAMESPACE, "name": "m1"}}}),
        ),
        ("spec.apiEndpoint", json!({"spec": {"apiEndpoint": "https://evil.example"}})),
        ("spec.apiendpoint", json!({"spec": {"apiendpoint": "https://evil.example"}})),
        ("spec.proxyURL", json!({"spec": {"proxyURL": "http://evil.example"}})),
        ("spec.proxyHeader", json!({"spec": {"proxyHeader": {"a": "b"}}})),
        ("spec.insecureSkipTLSVerification", json!({"spec": {"insecureSkipTLSVerification": true}})),
        ("spec.id", json!({"spec": {"id": "of-m2"}})),
        ("spec.syncMode", json!({"spec": {"syncMode": "Push"}})),
        ("spec.taints", json!({"spec": {"taints": []}})),
        ("spec.unheardOf", json!({"spec": {"unheardOf": {"a": [2]}}})),
        ("spec.another", json!({"spec": {"another": "x"}})),
        ("Spec", json!({"Spec": {"secretRef": of_m2}})),
        ("kind", json!({"kind": "Other"})),
        ("metadata.name", json!({"metadata": {"name": "m2"}})),
        ("metadata.labels", json!({"metadata": {"labels": {"env": "b"}}})),
        ("metadata.annotations", json!({"metadata": {"annotations": {"a": "b"}}})),
        ("metadata.finalizers", json!({"metadata": {"finalizers": []}})),
        ("metadata.ownerReferences", json!({"metadata": {"ownerReferences": [{"uid": "x"}]}})),
        ("metadata.Labels", json!({"metadata": {"Labels": {"env": "b"}}})),
    ]
}

#[test]
fn redirecting_write_is_refused() {
    for (field, document) in redirecting() {
        for refused in [
            patch(&document),
            put(|whole| {
                for (key, value) in document.as_object().unwrap() {
                    match value.as_object() {
                        Some(fields) if whole[key].is_object() => {
                            whole[key].as_object_mut().unwrap().extend(fields.clone());
                        }
                        _ => whole[key] = value.clone(),
                    }
                }
            }),
        ] {
            let refused = refused.unwrap_err();
            let named = match &refused {
                Refused::Kept { field, .. } => field.clone(),
                Refused::Reference { field, .. } => format!("spec.{field}"),
                _ => panic!("{field}: {refused:?}"),
            };
            assert_eq!(named, field, "{document}");
        }
    }
}

#[test]
fn field_left_out_of_an_update_is_refused() {
    for (field, kind) in [
        ("labels", "metadata"),
        ("finalizers", "metadata"),
        ("taints", "spec"),
        ("apiEndpoint", "spec"),
        ("unheardOf", "spec"),
    ] {
        let refused = put(|whole| drop(whole[kind].as_object_mut().unwrap().remove(field)));
        assert_eq!(
            refused,
            Err(Refused::Kept { field: format!("{kind}.{field}"), cluster: "m1".to_owned() })
        );
    }
    assert!(matches!(patch(&json!({"spec": null})), Err(Refused::Kept { .. } | Refused::Reference { .. })));
    assert!(matches!(patch(&json!({"spec": {"secretRef": null}})), Err(Refused::Reference { .. })));
}

#[test]
fn agent_changes_what_its_flags_say() {
    let changes = json!({"provider": "p", "region": null, "zones": ["a", "b"]});
    let sent = patch(&json!({"spec": changes})).unwrap();
    assert_eq!(sent, json!({"metadata": {"resourceVersion": "7"}, "spec": changes}));
    let sent = put(|whole| whole["spec"]["zones"] = json!(["a"])).unwrap();
    let mut expected = stored();
    expected["spec"]["zones"] = json!(["a"]);
    expected.as_object_mut().unwrap().remove("status");
    assert_eq!(sent, expected);
}

#[test]
fn zero_values_change_nothing() {
    let sent = put(|whole| {
        whole["spec"]["proxyURL"] = "".into();
        whole["spec"]["insecureSkipTLSVerification"] = false.into();
        whole["spec"]["zones"] = json!([]);
        whole["metadata"]["annotations"] = json!({});
        whole["metadata"]["creationTimestamp"] = Value::Null;
        for key in ["apiVersion", "kind"] {
            whole.as_object_mut().unwrap().remove(key);
        }
    });
    let mut expected = stored();
    expected.as_object_mut().unwrap().remove("status");
    assert_eq!(sent, Ok(expected));
}

#[test]
fn only_the_status_of_a_status_update_is_sent() {
    for (_, document) in redirecting() {
        let mut whole = stored();
        merge_patch::apply(&mut whole, &document);
        whole["status"] = json!({"kubernetesVersion": "v2"});
        whole["metadata"]["name"] = "m1".into();
        let mut expected = stored();
        expected["status"] = whole["status"].clone();
        assert_eq!(judged(Part::Status, Method::PUT, &whole), Ok(expected), "{document}");
        let mut document = document;
        document["status"] = whole["status"].clone();
        let sent = json!({"metadata": {"resourceVersion": "7"}, "status": whole["status"]});
        assert_eq!(judged(Part::Status, Method::PATCH, &document), Ok(sent), "{document}");
    }
    // Karmada's server would take it for an empty spec.
    let sent = judged(Part::Status, Method::PUT, &json!({"status": {}})).unwrap();
    assert_eq!(sent["spec"], stored()["spec"]);
}

#[test]
fn write_applies_to_the_compared_version_only() {
    for part in [Part::Object, Part::Status] {
        for method in [Method::PUT, Method::PATCH] {
            let sent = |metadata: Value| {
                let mut document = if method == Method::PUT { stored() } else { json!({}) };
                for (key, value) in metadata.as_object().unwrap() {
                    document["metadata"][key] = value.clone();
                }
                judged(part, method.clone(), &document)
            };
            for same in [
                json!({}),
                json!({"resourceVersion": "7"}),
                json!({"resourceVersion": "0", "uid": "u"}),
                json!({"resourceVersion": null}),
            ] {
                assert_eq!(sent(same.clone()).unwrap()["metadata"]["resourceVersion"], "7", "{same}");
            }
            for other in
                [json!({"resourceVersion": "6"}), json!({"resourceVersion": "8"}), json!({"uid": "v"})]
            {
                assert_eq!(sent(other.clone()), Ok("conflict".into()), "{other}");
            }
            assert_eq!(sent(json!({"resourceVersion": 7})), Err(Refused::NotJson));
        }
    }
    // Without a version, a write would apply to any.
    let write = written(Part::Status, Method::PUT, JSON, "{}").unwrap();
    let mut unversioned = stored();
    unversioned["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    assert_eq!(write.judge("m1", NAMESPACE, &unversioned), Ok(Judged::Conflict));
}

#[test]
fn agent_registers_its_own_cluster() {
    let mut spec = stored()["spec"].clone();
    for field in ["taints", "unheardOf"] {
        spec.as_object_mut().unwrap().remove(field);
    }
    spec["proxyURL"] = "http://proxy.example".into();
    spec["insecureSkipTLSVerification"] = true.into();
    let document = json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        // This is how Go writes it.
        "metadata": {"name": "m1", "creationTimestamp": null}, "spec": spec, "status": {},
    });
    let sent = created(&document).unwrap();
    assert_eq!((&sent["spec"], &sent["metadata"]), (&spec, &json!({"name": "m1"})));
    assert!(sent["status"].is_null() && sent["kind"] == "Cluster", "{sent}");
    for metadata in [json!({"name": "m2"}), json!({"generateName": "m1"}), json!({"Name": "m1"}), Value::Null]
    {
        let refused = created(&json!({"metadata": metadata, "spec": spec}));
        assert!(matches!(refused, Err(Refused::Another { .. })), "{refused:?}");
    }
}

#[test]
fn registration_redirects_nothing() {
    let allowed = [
        "spec.apiEndpoint",
        "spec.proxyURL",
        "spec.insecureSkipTLSVerification",
        "spec.id",
        "spec.taints",
        "metadata.name",
        "metadata.finalizers",
        "kind",
    ];
    for (field, document) in redirecting().into_iter().filter(|(field, _)| !allowed.contains(field)) {
        let mut whole = json!({"metadata": {"name": "m1"}});
        merge_patch::apply(&mut whole, &document);
        let refused = created(&whole).unwrap_err();
        let named = match &refused {
            Refused::Registration { field } => field.clone(),
            Refused::Reference { field, .. } => format!("spec.{field}"),
            _ => panic!("{field}: {refused:?}"),
        };
        assert_eq!(named, field);
    }
    for spec in
        [json!({"apiEndpoint": "http://m1.example"}), json!({"apiEndpoint": 1}), json!({"taints": [{}]})]
    {
        let refused = created(&json!({"metadata": {"name": "m1"}, "spec": spec}));
        assert!(matches!(refused, Err(Refused::Registration { .. })), "{refused:?}");
    }
    let finalizers = json!({"metadata": {"name": "m1", "finalizers": ["x"]}});
    assert!(matches!(created(&finalizers), Err(Refused::Registration { .. })));
}

#[test]
fn only_the_checked_document_is_sent() {
    // Go merges the values of a repeated key, but the check would have seen only the last one.
    let twice = r#"{"metadata":{"name":"m1"},"spec":{"secretRef":{"name":"m2"},"apiEndpoint":"https://evil"},"spec":{}}"#;
    let write = written(Part::New, Method::POST, JSON, twice).unwrap();
    let sent: Value = serde_json::from_slice(&write.judge_new("m1", NAMESPACE).unwrap()).unwrap();
    assert_eq!(sent, json!({"metadata": {"name": "m1"}, "spec": {}}));
}

#[test]
fn other_media_types_are_refused() {
    let read = |part, method, media_type| written(part, method, media_type, "{}").map(drop);
    for media_type in [
        "application/json-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
        "application/apply-patch+cbor",
        "application/json",
        "application/yaml",
        "",
    ] {
        assert_eq!(read(Part::Status, Method::PATCH, media_type), Err(Refused::NotJson), "{media_type}");
    }
    for media_type in
        ["application/yaml", "application/vnd.kubernetes.protobuf", "application/cbor", MERGE_PATCH]
    {
        assert_eq!(read(Part::Status, Method::PUT, media_type), Err(Refused::NotJson), "{media_type}");
        assert_eq!(read(Part::New, Method::POST, media_type), Err(Refused::NotJson), "{media_type}");
    }
    assert_eq!(read(Part::Object, Method::PATCH, "Application/Merge-Patch+JSON; charset=utf-8"), Ok(()));
    assert!(Write::read(Part::Object, &Method::PUT, &HeaderMap::new(), b"{}").is_ok());
    assert!(Write::read(Part::Object, &Method::PATCH, &HeaderMap::new(), b"{}").is_err());
}

#[test]
fn body_that_is_no_json_object_is_refused() {
    for body in [
        "spec: {secretRef: {name: m2}}",
        "k8s\0\n",
        "",
        "[]",
        "1",
        "null",
        r#"[{"op": "add", "path": "x/spec/apiEndpoint"}]"#,
    ] {
        assert_eq!(
            written(Part::Object, Method::PUT, JSON, body).map(drop),
            Err(Refused::NotJson),
            "{body:?}"
        );
    }
    for part in ["metadata", "spec"] {
        let refused = put(|whole| whole[part] = "x".into());
        assert_eq!(refused, Err(Refused::NotJson), "{part}");
        let refused = created(&json!({"metadata": {"name": "m1"}, "spec": ["x"]}));
        assert_eq!(refused, Err(Refused::NotJson), "{part}");
    }
}

#[test]
fn write_of_too_many_values_is_refused() {
    let document = format!("[{}{{}}]", "{},".repeat(MAX_VALUES));
    assert_eq!(written(Part::Object, Method::PUT, JSON, &document).err(), Some(Refused::TooLarge));
}

const NAMESPACE: &str = "karmada-cluster";
