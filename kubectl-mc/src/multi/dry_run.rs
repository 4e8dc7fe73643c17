//! Implements `--dry-run=clusters`: prints the targets, and for each the command to copy.

use crate::argv::Scanned;
use crate::cluster::cluster_id::ClusterId;
use crate::cluster::reach::Reach;
use crate::multi::selection::SelectedClusters;
use crate::next_command::{quoted, shown};
use crate::tabwriter::TabWriter;

/// A table of the targets.
pub(crate) fn show(scanned: &Scanned, reach: &Reach, targets: &SelectedClusters) -> String {
    let mut writer = TabWriter::default();
    writer.line("CLUSTER\tREADY\tCOMMAND");
    for target in targets.iter() {
        let words = shown(scanned.kubectl.iter().map(|word| word.as_os_str()));
        let kubectl_mc = reach.of(&target.name).map_or_else(
            |_| "kubectl mc".to_owned(),
            |by| match &target.name {
                ClusterId::Member(_) => by.kubectl_mc(),
                // For a context, the context is the cluster itself and not a host.
                ClusterId::Context(_) => by.kubectl_mc_file(),
            },
        );
        let (name, ready, cluster) =
            (&target.name, target.ready(), quoted(format!("--cluster={}", target.name.as_term()).as_ref()));
        writer.line(&format!("{name}\t{ready}\t{kubectl_mc} {cluster} {words}"));
    }
    writer.flush()
}
