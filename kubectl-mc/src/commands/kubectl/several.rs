//! Any command of kubectl, on several clusters: which, whether it may be, and then how it went.

use std::io::{self, BufReader, IsTerminal};

use kubectl_mc_api::ClusterName;

use crate::argv::Scanned;
use crate::env::{self, Env};
use crate::error::{Explain, Failure};
use crate::exit::ExitStatus;
use crate::fleet::{self, Job};
use crate::host::Host;
use crate::inventory::{self, Form};
use crate::printer::Printer;
use crate::rewrite;
use crate::selection::{self, Choice, List, Target};
use crate::settings::Settings;

pub(super) fn run(
    scanned: Scanned,
    settings: Settings,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let host = Host::load(&settings.host, env)?;
    let mut list = |selector: Option<&str>| {
        let list = inventory::list(&host, &scanned, env, selector, Form::Objects)?;
        Ok(Target::of_list(&list))
    };
    let (choice, picked) = match &settings.choice {
        Some(choice) => (choice.clone(), false),
        None => (ask(&mut list)?, true),
    };
    let targets = choice.resolve(&settings.sets, &mut list)?;
    for target in targets.iter() {
        rewrite::check(&scanned, &target.name)?;
    }
    if settings.show_clusters {
        printer.out(&fleet::show(&scanned, &host, &targets));
        return Ok(ExitStatus::Success);
    }
    if let Some(only) = targets.only().filter(|_| picked) {
        let cluster = only.name.clone();
        return super::one(scanned, cluster, &settings, env);
    }
    let Settings { fleet: options, .. } = &settings;
    fleet::run(&Job { scanned: &scanned, host: &host, targets: &targets, options, env, printer })
}

/// Nothing was chosen: a person is asked, everybody else is told what there is.
fn ask(list: &mut List<'_>) -> Result<Choice, Failure> {
    let all = list(None).unwrap_or_default();
    let asks = !all.is_empty() && io::stdin().is_terminal() && io::stderr().is_terminal();
    if asks {
        let picked = selection::pick(&all, &mut BufReader::new(io::stdin()), &mut io::stderr());
        if let Some(choice) = picked.ok().flatten() {
            return Ok(choice);
        }
    }
    Err(NoCluster { known: all.into_iter().map(|target| target.name).collect() }.into())
}

#[derive(Debug, thiserror::Error)]
#[error("no cluster chosen")]
struct NoCluster {
    known: Vec<ClusterName>,
}

impl Explain for NoCluster {
    fn hint(&self) -> Option<String> {
        Some(format!(
            "choose by --cluster=NAME, --cluster-selector or {}; {}, `kubectl mc --help` says more",
            env::CLUSTER,
            selection::what_there_is(&self.known)
        ))
    }

    fn status(&self) -> ExitStatus {
        ExitStatus::Usage
    }
}
