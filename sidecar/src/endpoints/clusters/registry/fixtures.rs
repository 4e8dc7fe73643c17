//! Test members for the view.

use super::*;

pub(in crate::endpoints::clusters) fn member(
    name: &str,
    version: u64,
    labels: &[(&str, &str)],
) -> MemberCluster {
    let mut member = MemberCluster::new(name, Default::default());
    member.metadata.resource_version = Some(version.to_string());
    let labels: BTreeMap<_, _> =
        labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    member.metadata.labels = (!labels.is_empty()).then_some(labels);
    member
}

/// A registry of `m1`, `m2` and `m3`, with the versions 10, 20 and 30.
pub(in crate::endpoints::clusters) fn three() -> (Registry, Writer) {
    let (registry, mut writer) = Registry::new();
    writer.replace(
        vec![
            member("m1", 10, &[("env", "prod")]),
            member("m2", 20, &[("env", "dev")]),
            member("m3", 30, &[]),
        ],
        0,
    );
    (registry, writer)
}
