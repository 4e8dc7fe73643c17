//! `--dry-run=clusters`: prints the targets, and for each the command, ready to be pasted.

use crate::argv::Scanned;
use crate::cluster::context::ClusterContext;
use crate::multi::selection::{Readiness, SelectedClusters};
use crate::next_command::quoted;
use crate::tabwriter::TabWriter;

/// A table of the targets.
pub(crate) fn show(scanned: &Scanned, host: &ClusterContext, targets: &SelectedClusters) -> String {
    let mut writer = TabWriter::default();
    writer.line("CLUSTER\tREADY\tCOMMAND");
    for target in targets.iter() {
        let ready = match target.listed.as_ref().map(|listed| &listed.ready) {
            Some(Readiness::Ready) => "True",
            Some(Readiness::NotReady(_)) => "False",
            Some(Readiness::Unknown) | None => "Unknown",
        };
        let words: Vec<_> = scanned.kubectl.iter().map(|word| quoted(word)).collect();
        let (kubectl_mc, name) = (host.kubectl_mc(), &target.name);
        writer.line(&format!("{name}\t{ready}\t{kubectl_mc} --cluster={name} {}", words.join(" ")));
    }
    writer.flush()
}
