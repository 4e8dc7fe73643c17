//! The numbers of the fields that the table of references has, and of every object's metadata (k8s.io/api and
//! k8s.io/apimachinery: `generated.proto`).

use kubectl_mc_api::fleet::references::Type;

use crate::head::request_info::RequestedObject;

/// Fields of a message: number, name and content.
pub(super) type Schema = &'static [(u32, &'static str, Content)];

/// The content of a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content {
    Text,
    Message(Schema),
    List(Schema),
    /// A map of texts.
    Texts,
}

use Content::{List, Message, Text, Texts};

/// A field of a message.
pub(super) fn field(schema: Schema, number: u32) -> Option<(&'static str, Content)> {
    schema.iter().find(|(of, ..)| *of == number).map(|(_, name, content)| (*name, *content))
}

/// The schema of a request's object, and whether it has all fields that name something.
pub(super) fn of(of: Type, requested: &RequestedObject, is_deletion: bool) -> (Schema, bool) {
    if is_deletion {
        return (DELETE_OPTIONS, true);
    }
    let RequestedObject { group, version, resource, subresource, .. } = requested;
    let schema = match version.as_str() {
        "v1" => known(group, resource, subresource),
        _ => None,
    };
    match schema {
        Some(schema) => (schema, true),
        None => (OBJECT, !of.has_references() && WITHOUT_OTHER_REFERENCES.contains(&group.as_str())),
    }
}

/// The schemas of the types in the table of references.
fn known(group: &str, resource: &str, subresource: &str) -> Option<Schema> {
    Some(match (group, resource, subresource) {
        ("", "pods" | "bindings", "binding") | ("", "bindings", "") => {
            &[METADATA, (2, "target", Message(OBJECT_REFERENCE))]
        }
        ("", "serviceaccounts", "token") => {
            const SPEC: Schema = &[(3, "boundObjectRef", Message(BOUND_OBJECT_REFERENCE))];
            &[METADATA, (2, "spec", Message(SPEC))]
        }
        ("", "pods", "eviction") => &[METADATA, (2, "deleteOptions", Message(DELETE_OPTIONS))],
        (_, _, "scale") => OBJECT,
        ("", "pods", _) => {
            const STATUS: Schema = &[(11, "nominatedNodeName", Text)];
            &[METADATA, (2, "spec", Message(POD_SPEC)), (3, "status", Message(STATUS))]
        }
        ("", "events", _) => &[
            METADATA,
            (2, "involvedObject", Message(OBJECT_REFERENCE)),
            (13, "related", Message(OBJECT_REFERENCE)),
        ],
        ("events.k8s.io", "events", _) => &[
            METADATA,
            (8, "regarding", Message(OBJECT_REFERENCE)),
            (9, "related", Message(OBJECT_REFERENCE)),
        ],
        ("", "persistentvolumes", _) => {
            const SPEC: Schema = &[(4, "claimRef", Message(OBJECT_REFERENCE))];
            &[METADATA, (2, "spec", Message(SPEC))]
        }
        ("", "persistentvolumeclaims", _) => {
            const SOURCE: Schema = &[(4, "namespace", Text)];
            const SPEC: Schema = &[(3, "volumeName", Text), (8, "dataSourceRef", Message(SOURCE))];
            &[METADATA, (2, "spec", Message(SPEC))]
        }
        ("", "endpoints", _) => {
            const ADDRESS: Schema = &[(2, "targetRef", Message(OBJECT_REFERENCE)), (4, "nodeName", Text)];
            const SUBSET: Schema =
                &[(1, "addresses", List(ADDRESS)), (2, "notReadyAddresses", List(ADDRESS))];
            &[METADATA, (2, "subsets", List(SUBSET))]
        }
        ("discovery.k8s.io", "endpointslices", _) => {
            const ENDPOINT: Schema = &[(4, "targetRef", Message(OBJECT_REFERENCE)), (6, "nodeName", Text)];
            &[METADATA, (2, "endpoints", List(ENDPOINT))]
        }
        ("", "podtemplates", _) => &[METADATA, (2, "template", Message(POD_TEMPLATE))],
        ("", "replicationcontrollers", _) | ("apps", "deployments" | "replicasets" | "statefulsets", _) => {
            const SPEC: Schema = &[(3, "template", Message(POD_TEMPLATE))];
            &[METADATA, (2, "spec", Message(SPEC))]
        }
        ("apps", "daemonsets", _) => {
            const SPEC: Schema = &[(2, "template", Message(POD_TEMPLATE))];
            &[METADATA, (2, "spec", Message(SPEC))]
        }
        ("batch", "jobs", _) => &[METADATA, (2, "spec", Message(JOB_SPEC))],
        ("batch", "cronjobs", _) => {
            const TEMPLATE: Schema = &[(2, "spec", Message(JOB_SPEC))];
            const SPEC: Schema = &[(5, "jobTemplate", Message(TEMPLATE))];
            &[METADATA, (2, "spec", Message(SPEC))]
        }
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings", _) => {
            const SUBJECT: Schema = &[(4, "namespace", Text)];
            const ROLE: Schema = &[(1, "apiGroup", Text), (2, "kind", Text), (3, "name", Text)];
            &[METADATA, (2, "subjects", List(SUBJECT)), (3, "roleRef", Message(ROLE))]
        }
        (
            "authorization.k8s.io",
            "selfsubjectaccessreviews" | "subjectaccessreviews" | "localsubjectaccessreviews",
            _,
        ) => {
            const ATTRIBUTES: Schema =
                &[(1, "namespace", Text), (3, "group", Text), (5, "resource", Text), (7, "name", Text)];
            const SPEC: Schema = &[(1, "resourceAttributes", Message(ATTRIBUTES))];
            &[METADATA, (2, "spec", Message(SPEC))]
        }
        ("authorization.k8s.io", "selfsubjectrulesreviews", _) => {
            const SPEC: Schema = &[(1, "namespace", Text)];
            &[METADATA, (2, "spec", Message(SPEC))]
        }
        _ => return None,
    })
}

/// The groups whose other types refer to nothing that is renamed.
const WITHOUT_OTHER_REFERENCES: [&str; 16] = [
    "",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
];

/// The metadata is the first field of every object.
const METADATA: (u32, &str, Content) = (1, "metadata", Message(OBJECT_META));
const OBJECT: Schema = &[METADATA];
const OBJECT_META: Schema = &[
    (1, "name", Text),
    (3, "namespace", Text),
    (6, "resourceVersion", Text),
    (12, "annotations", Texts),
    (13, "ownerReferences", List(OWNER_REFERENCE)),
];
const OWNER_REFERENCE: Schema = &[(1, "kind", Text), (3, "name", Text), (5, "apiVersion", Text)];
const OBJECT_REFERENCE: Schema =
    &[(1, "kind", Text), (2, "namespace", Text), (3, "name", Text), (5, "apiVersion", Text)];
const BOUND_OBJECT_REFERENCE: Schema = &[(1, "kind", Text), (2, "apiVersion", Text), (3, "name", Text)];
const POD_SPEC: Schema = &[(10, "nodeName", Text)];
const POD_TEMPLATE: Schema = &[(2, "spec", Message(POD_SPEC))];
const JOB_SPEC: Schema = &[(6, "template", Message(POD_TEMPLATE))];
const DELETE_OPTIONS: Schema = &[(2, "preconditions", Message(&[(2, "resourceVersion", Text)]))];
