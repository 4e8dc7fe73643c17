//! Implements `--dry-run=clusters`: prints the targets, with a command to copy for each.

use crate::argv::Scanned;
use crate::cluster::cluster_id::ClusterId;
use crate::cluster::reach::Reach;
use crate::multi::options::Options;
use crate::multi::selection::SelectedClusters;
use crate::next_command::{quoted, shown};
use crate::tabwriter::TabWriter;

/// A table of the targets, with the batch of each if there are batches.
pub(crate) fn show(
    scanned: &Scanned,
    reach: &Reach,
    targets: &SelectedClusters,
    options: &Options,
) -> String {
    let mut writer = TabWriter::default();
    let sizes = options.batches.as_ref().map(|batches| batches.sizes(targets.len())).unwrap_or_default();
    let batches = sizes.iter().enumerate().flat_map(|(at, size)| std::iter::repeat_n(at + 1, *size));
    let mut batches = batches.map(|batch| format!("{batch}\t"));
    writer.line(&format!("{}CLUSTER\tREADY\tCOMMAND", if sizes.is_empty() { "" } else { "BATCH\t" }));
    for target in targets.iter() {
        let words = shown(scanned.kubectl.iter().map(|word| word.as_os_str()));
        let kubectl_mc = program(reach, &target.name);
        let (name, ready, cluster) =
            (&target.name, target.ready(), quoted(format!("--cluster={}", target.name.as_term()).as_ref()));
        let batch = batches.next().unwrap_or_default();
        writer.line(&format!("{batch}{name}\t{ready}\t{kubectl_mc} {cluster} {words}"));
    }
    writer.flush()
}

/// The plugin with the flags that select the cluster's host or file.
pub(super) fn program(reach: &Reach, cluster: &ClusterId) -> String {
    reach.of(cluster).map_or_else(
        |_| "kubectl mc".to_owned(),
        |by| match cluster {
            ClusterId::Member(_) => by.kubectl_mc(),
            // For a context, the context is the cluster itself and not a host.
            ClusterId::Context(_) => by.kubectl_mc_file(),
        },
    )
}
