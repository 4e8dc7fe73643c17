use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, HeaderValue, Method, header};
use proptest::prelude::*;

use super::*;
use crate::fleet::bodies::tests::requested;
use crate::fleet::bodies::{Body, object_type};

fn m1() -> ClusterName {
    "m1".parse().unwrap()
}

/// A message of fields with a length.
fn message(fields: &[(u32, &[u8])]) -> Vec<u8> {
    let mut message = Vec::new();
    for (number, content) in fields {
        wire::write(*number, content, &mut message);
    }
    message
}

fn enveloped(object: &[u8]) -> Vec<u8> {
    let version = message(&[(1, b"v1"), (2, b"Pod")]);
    [MAGIC, &message(&[(TYPE, &version), (OBJECT, object), (3, b""), (4, b"")])].concat()
}

fn envelope(of: &RequestedObject, text: Vec<u8>) -> Result<Envelope, Error> {
    Envelope::parse(text.into(), object_type(of), of, false)
}

fn sent(of: &RequestedObject, object: &[u8]) -> Result<Vec<u8>, Error> {
    envelope(of, enveloped(object))?.into_members(object_type(of), &m1())
}

fn pods() -> RequestedObject {
    requested("", "fv", "pods", "")
}

#[test]
fn pod_is_renamed_and_other_fields_are_kept() {
    let pod = |namespace: &str, version: &str, node: &str, annotation: Option<&str>| {
        let annotation = annotation.map(|of| {
            message(&[(1, kubectl_mc_api::fleet::names::CLUSTER_ANNOTATION.as_bytes()), (2, of.as_bytes())])
        });
        let other = message(&[(1, b"a"), (2, b"n_m1")]);
        let mut metadata =
            message(&[(1, b"web"), (3, namespace.as_bytes()), (6, version.as_bytes()), (12, &other)]);
        if let Some(annotation) = annotation {
            wire::write(12, &annotation, &mut metadata);
        }
        // A number, as `generation` is.
        metadata.extend_from_slice(&[7 << 3, 0x96, 0x01]);
        let container = message(&[(1, b"c"), (2, b"image_m1")]);
        let spec = message(&[(2, &container), (10, node.as_bytes()), (2, &container)]);
        message(&[(1, &metadata), (2, &spec)])
    };
    let text = sent(&pods(), &pod("fv_m1", "m1.7", "n_m1", Some("m1"))).unwrap();
    assert_eq!(text, enveloped(&pod("fv", "7", "n", None)));
    for other in [
        pod("fv_m2", "7", "n", None),
        pod("fv", "7", "n", None),
        pod("fv_m1", "m2.7", "n", None),
        pod("fv_m1", "7", "n_m2", None),
        pod("fv_m1", "7", "n", Some("m2")),
    ] {
        let error = sent(&pods(), &other).unwrap_err();
        assert!(matches!(error, Error::Refused(_)), "{error}");
    }
}

#[test]
fn binding_of_a_service_account_is_renamed() {
    let of = requested("rbac.authorization.k8s.io", "fv", "rolebindings", "");
    let group = b"rbac.authorization.k8s.io";
    let binding = |namespace: &str, role: &str| {
        let subject = |number, namespace: &str| {
            let subject = message(&[(1, b"ServiceAccount"), (3, b"default"), (4, namespace.as_bytes())]);
            message(&[(number, &subject)])
        };
        let user = message(&[(1, b"User"), (2, group), (3, b"bob_m1")]);
        let role = message(&[(1, group), (2, b"ClusterRole"), (3, role.as_bytes())]);
        let metadata = message(&[(1, b"b"), (3, namespace.as_bytes())]);
        let mut binding = message(&[(1, &metadata)]);
        binding.extend(subject(2, namespace));
        binding.extend(message(&[(2, &user)]));
        binding.extend(subject(2, "other"));
        binding.extend(message(&[(3, &role)]));
        binding
    };
    assert_eq!(sent(&of, &binding("fv_m1", "my_role_m1")).unwrap(), enveloped(&binding("fv", "my_role")));
}

/// `tests/fleet-bodies` writes the table with upstream's types.
#[test]
fn objects_are_sent_as_upstream_encodes_them() {
    let table = include_str!("../../../../tests/fleet-bodies/bodies.tsv");
    for row in table.lines() {
        let [group, resource, subresource, text, json, sent_text, sent_json] =
            row.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let is_cluster_scoped = ["nodes", "persistentvolumes", "clusterrolebindings"].contains(&resource);
        let of = requested(group, if is_cluster_scoped { "" } else { "fv" }, resource, subresource);
        let text = BASE64_STANDARD.decode(text).unwrap();
        let sent = envelope(&of, text).and_then(|envelope| envelope.into_members(object_type(&of), &m1()));
        assert_eq!(sent.unwrap(), BASE64_STANDARD.decode(sent_text).unwrap(), "{row}");
        let mut object: Value = serde_json::from_str(json).unwrap();
        references::to_member(&mut object, object_type(&of), &m1()).unwrap();
        assert_eq!(object, serde_json::from_str::<Value>(sent_json).unwrap());
    }
}

#[test]
fn unknown_type_with_a_suffix_is_refused() {
    let object = |text: &[u8]| message(&[(1, &message(&[(3, b"fv_m1")])), (2, text)]);
    let custom = requested("example.com", "fv", "foos", "");
    assert!(matches!(sent(&custom, &object(b"fv_m1")), Err(Error::UnknownReference(_))));
    assert!(sent(&custom, &object(b"fv")).is_ok());
    // A text that names nothing.
    assert!(sent(&requested("", "fv", "configmaps", ""), &object(b"fv_m1")).is_ok());
    // Types with references that have no schema, and other versions of those that have one.
    let webhooks = requested("admissionregistration.k8s.io", "fv", "validatingwebhookconfigurations", "");
    assert!(matches!(sent(&webhooks, &object(b"fv_m1")), Err(Error::UnknownReference(_))));
    let old = RequestedObject { version: "v1beta1".to_owned(), ..requested("batch", "fv", "cronjobs", "") };
    assert!(matches!(sent(&old, &object(b"fv_m1")), Err(Error::UnknownReference(_))));
}

#[test]
fn types_with_references_in_core_and_rbac_have_a_schema() {
    for (group, resources) in [
        (
            "",
            &["pods", "events", "persistentvolumes", "persistentvolumeclaims", "endpoints", "podtemplates"][..],
        ),
        ("", &["replicationcontrollers", "bindings"]),
        ("rbac.authorization.k8s.io", &["rolebindings", "clusterrolebindings"]),
        ("authorization.k8s.io", &["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
        ("apps", &["deployments", "daemonsets", "statefulsets", "replicasets"]),
        ("batch", &["jobs", "cronjobs"]),
        ("discovery.k8s.io", &["endpointslices"]),
        ("events.k8s.io", &["events"]),
    ] {
        for resource in resources {
            let of = requested(group, "fv", resource, "");
            assert!(object_type(&of).has_references(), "{resource}");
            assert!(schema::of(object_type(&of), &of, false).1, "{resource}");
        }
    }
}

#[test]
fn message_that_go_reads_in_another_way_is_refused() {
    let namespace = message(&[(3, b"fv_m1")]);
    // Go uses the last 32 bits of a number.
    let mut large = vec![0x82 | (1 << 3), 0x80, 0x80, 0x80, 0x80, 0x01];
    large.extend(message(&[(3, b"fv_m2")]));
    for (object, why) in [
        ([message(&[(1, &namespace)]), message(&[(1, &namespace)])].concat(), "metadata twice"),
        (message(&[(1, &message(&[(3, b"fv_m1"), (3, b"fv_m1")]))]), "namespace twice"),
        (large, "a large number"),
        (vec![1 << 3, 1], "metadata as a number"),
        (vec![0, 0], "field 0"),
        (vec![3 << 3 | 3, 3 << 3 | 4], "a group"),
        (message(&[(1, &message(&[(3, b"\xff")]))]), "no text"),
        (message(&[(1, &message(&[(12, &message(&[(1, b"a"), (1, b"b")]))]))]), "two keys"),
        (message(&[(1, &message(&[(12, &message(&[(3, b"a")]))]))]), "an unknown field of an annotation"),
        (vec![1 << 3 | 2, 5, 0], "cut short"),
        ([vec![1 << 3 | 2], vec![0xff; 10]].concat(), "a length of more than 64 bits"),
    ] {
        assert!(matches!(sent(&pods(), &object), Err(Error::Protobuf(_))), "{why}");
    }
    let object = message(&[(1, &namespace)]);
    for (text, why) in [
        (b"k8s".to_vec(), "no magic"),
        ([MAGIC, &message(&[(OBJECT, &object), (OBJECT, &object)])].concat(), "two objects"),
        ([MAGIC, &message(&[(OBJECT, &object), (3, b"gzip")])].concat(), "compressed"),
        ([MAGIC, &message(&[(OBJECT, &object), (5, b"")])].concat(), "an unknown field"),
    ] {
        assert!(matches!(envelope(&pods(), text), Err(Error::Protobuf(_))), "{why}");
    }
}

#[test]
fn parsed_fields_are_bounded() {
    let owners = message(&[(13, b"")]).repeat(MAX_VALUES + 1);
    assert!(matches!(sent(&pods(), &message(&[(1, &owners)])), Err(Error::TooManyValues)));
}

#[test]
fn annotation_without_a_key_is_sent_as_it_is() {
    let object = message(&[(1, &message(&[(3, b"fv_m1"), (12, b"")]))]);
    let expected = message(&[(1, &message(&[(3, b"fv"), (12, b"")]))]);
    assert_eq!(sent(&pods(), &object).unwrap(), enveloped(&expected));
}

#[test]
fn body_in_protobuf_names_its_member() {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/vnd.kubernetes.protobuf"));
    let body = |method, of: &RequestedObject, object: &[u8]| {
        Body::parse(&method, &headers, of, enveloped(object).into()).unwrap()
    };
    let namespace = message(&[(1, &message(&[(1, b"fv_m1")]))]);
    assert_eq!(
        body(Method::POST, &requested("", "", "namespaces", ""), &namespace).named_member(),
        Some(m1())
    );
    let attributes = message(&[(1, b"fv_m1"), (2, b"get"), (5, b"pods")]);
    let review = message(&[(2, &message(&[(1, &attributes)]))]);
    let reviews = requested("authorization.k8s.io", "", "selfsubjectaccessreviews", "");
    assert_eq!(body(Method::POST, &reviews, &review).named_member(), Some(m1()));
    let options = |version: &[u8]| {
        let mut options = vec![1 << 3, 30];
        options.extend(message(&[(2, &message(&[(1, b"u"), (2, version)]))]));
        options
    };
    let deletion = body(Method::DELETE, &pods(), &options(b"m1.7"));
    assert_eq!(deletion.to_member(&m1()).unwrap(), enveloped(&options(b"7")));
}

/// Messages of random fields, and fields that the schema of a pod has.
fn object() -> impl Strategy<Value = Vec<u8>> {
    let text = prop_oneof![
        "[a-z]{1,3}(_m1|_m2)?".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..6)
    ];
    let number = prop::sample::select(vec![1_u32, 2, 3, 4, 6, 10, 11, 12, 13, 17]);
    text.prop_recursive(4, 64, 6, move |inner| {
        prop::collection::vec((number.clone(), inner), 0..6).prop_map(|fields| {
            let fields: Vec<_> =
                fields.iter().map(|(number, content)| (*number, content.as_slice())).collect();
            message(&fields)
        })
    })
}

proptest! {
    #[test]
    fn written_object_has_the_renamed_fields_and_the_other_bytes(
        object in object(),
        resource in prop::sample::select(vec!["pods", "events", "endpoints", "persistentvolumes", "configmaps"]),
    ) {
        let of = requested("", "fv", resource, "");
        let Ok(envelope) = envelope(&of, enveloped(&object)) else { return Ok(()) };
        let mut renamed = envelope.fields().clone();
        let judged = references::to_member(&mut renamed, object_type(&of), &m1());
        let text = envelope.into_members(object_type(&of), &m1());
        prop_assert_eq!(judged.is_ok(), text.is_ok());
        let Ok(text) = text else { return Ok(()) };
        let again = self::envelope(&of, text).unwrap();
        // A list or a map of which nothing is left is not there.
        if let Some(Value::Object(annotations)) = renamed.pointer("/metadata/annotations")
            && annotations.is_empty()
        {
            renamed["metadata"].as_object_mut().unwrap().remove("annotations");
        }
        prop_assert_eq!(again.fields(), &renamed);
    }

    #[test]
    fn object_without_names_is_sent_as_it_is(object in object()) {
        let of = requested("", "", "pods", "");
        if let Ok(text) = sent(&of, &object) && !String::from_utf8_lossy(&object).contains("_m1") {
            prop_assert_eq!(text, enveloped(&object));
        }
    }
}
