//! Prints the warnings of members (`Warning` headers of Kubernetes, code 299) and those about them,
//! each once per cluster.

use std::collections::HashSet;
use std::convert::Infallible;

use tokio::sync::mpsc;

use crate::cluster::cluster_id::ClusterId;
use crate::printer::Printer;
use crate::server_text::ServerText;

pub(super) type Warning = (ClusterId, ServerText);

/// The warnings of a command.
pub(super) struct Warnings {
    received: mpsc::UnboundedReceiver<Warning>,
    printed: HashSet<Warning>,
    /// The width of the cluster's name before a warning; `None` for one cluster, where the name is
    /// omitted.
    width: Option<usize>,
}

impl Warnings {
    pub(super) fn channel(width: Option<usize>) -> (mpsc::UnboundedSender<Warning>, Self) {
        let (sender, received) = mpsc::unbounded_channel();
        (sender, Self { received, printed: HashSet::new(), width })
    }

    /// Prints the warnings received so far.
    pub(super) fn print_received(&mut self, printer: &Printer) {
        while let Ok(warning) = self.received.try_recv() {
            self.print(warning, printer);
        }
    }

    /// Prints each warning when it is received, while work runs that may last for hours.
    pub(super) async fn print_all(&mut self, printer: &Printer) -> Infallible {
        while let Some(warning) = self.received.recv().await {
            self.print(warning, printer);
        }
        std::future::pending().await
    }

    fn print(&mut self, warning: Warning, printer: &Printer) {
        if self.printed.insert(warning.clone()) {
            let (cluster, text) = warning;
            let prefix = self.width.map(|width| format!("{:width$} | ", cluster.as_str()));
            printer.note_line(&format!("{}Warning: {text}", prefix.unwrap_or_default()));
        }
    }
}
