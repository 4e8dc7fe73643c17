//! Lists the types of `v1` that every Kubernetes version has. kubectl's mapper prefers them to all groups, so
//! their full names need no discovery.

use super::api_resource::ApiResource;

pub(super) fn resource(word: &str) -> Option<ApiResource> {
    let &(kind, plural, namespaced) =
        CORE.iter().find(|(kind, plural, _)| *plural == word || kind.to_lowercase() == word)?;
    Some(ApiResource {
        group: String::new(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        short: Vec::new(),
        categories: Vec::new(),
        namespaced,
    })
}

const CORE: &[(&str, &str, bool)] = &[
    ("ConfigMap", "configmaps", true),
    ("Endpoints", "endpoints", true),
    ("Event", "events", true),
    ("LimitRange", "limitranges", true),
    ("Namespace", "namespaces", false),
    ("Node", "nodes", false),
    ("PersistentVolume", "persistentvolumes", false),
    ("PersistentVolumeClaim", "persistentvolumeclaims", true),
    ("Pod", "pods", true),
    ("PodTemplate", "podtemplates", true),
    ("ReplicationController", "replicationcontrollers", true),
    ("ResourceQuota", "resourcequotas", true),
    ("Secret", "secrets", true),
    ("Service", "services", true),
    ("ServiceAccount", "serviceaccounts", true),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_names_are_known_and_short_ones_are_not() {
        let path = |word| resource(word).map(|resource| resource.path(Some("n")));
        assert_eq!(path("pod").as_deref(), Some("/api/v1/namespaces/n/pods"));
        assert_eq!(path("nodes").as_deref(), Some("/api/v1/nodes"));
        for word in ["po", "all", "deployments", "pods.v1"] {
            assert_eq!(path(word), None, "{word}");
        }
    }
}
