//! Implements `kubectl mc use`: sets the default cluster for commands that choose none, or prints it.

use kubectl_mc_api::ClusterName;

use crate::argv::Scanned;
use crate::chosen_cluster::ChosenCluster;
use crate::cli::{Flags, UseArgs};
use crate::cluster::context::ClusterContext;
use crate::cluster::host::Host;
use crate::cluster::inventory::{self, InventoryError, ListFormat};
use crate::env::Env;
use crate::error::{Failure, mc};
use crate::exit::ExitStatus;
use crate::multi::selection::{SelectedCluster, SelectionError};
use crate::printer::Printer;
use crate::settings::{self, Settings};

pub(super) fn run(
    arguments: &UseArgs,
    flags: &Flags,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let UseArgs { name, unset } = arguments;
    let (options, scanned) = (Settings::host_of(flags, env)?, Scanned::default());
    let host = ClusterContext::load(&options, env)?;
    let chosen = ChosenCluster::load(&host, env)?;
    if *unset {
        chosen.choose(None, env)?;
        printer.note_line(&format!("no cluster is chosen for {}", host.context_name()));
        return Ok(ExitStatus::Success);
    }
    let name = match name.as_deref() {
        None if flags.cluster.is_empty() => {
            let Some(name) = &chosen.cluster else { return Err(none("no cluster is chosen", &host)) };
            printer.out_line(name.as_str());
            return Ok(ExitStatus::Success);
        }
        Some("-") => chosen.previous.clone().ok_or_else(|| none("no cluster was chosen before", &host))?,
        argument => settings::cluster_name(argument, flags)?,
    };
    check(&name, &Host::find(&options, &scanned, env)?, printer)?;
    chosen.choose(Some(name.clone()), env)?;
    printer.note_line(&format!("{name} is the cluster of {}", host.context_name()));
    Ok(ExitStatus::Success)
}

/// Refuses a name that the host does not know; accepts it if the host does not respond.
fn check(name: &ClusterName, host: &Host<'_>, printer: &Printer) -> Result<(), Failure> {
    let list = match inventory::list(host, None, ListFormat::Objects) {
        Ok(list) => list,
        Err(InventoryError::NoList { .. }) => return Ok(()),
        Err(error) => {
            printer.note_line(&format!("warning: {name} was not looked up: {error}"));
            return Ok(());
        }
    };
    let known: Vec<_> =
        SelectedCluster::of_list(&list).iter().filter_map(|cluster| cluster.member().cloned()).collect();
    if known.contains(name) {
        Ok(())
    } else {
        Err(SelectionError::Unknown { name: name.clone(), known }.into())
    }
}

fn none(what: &str, host: &ClusterContext) -> Failure {
    Failure::new(format!("{what} for {}", host.context_name())).with_hint(mc("use NAME").after("choose one"))
}
