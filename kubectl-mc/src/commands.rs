//! From the command line to what it does: our own verbs, or kubectl on the chosen clusters.

mod access;
mod clusters;
mod confirm;
mod install;
mod join;
mod kubectl;
mod uninstall;
mod unjoin;

use std::ffi::{OsStr, OsString};

use clap::Parser;

use crate::argv::{self, Scanned};
use crate::cli::{Cli, Command};
use crate::env::Env;
use crate::error::{Explain, Failure};
use crate::exit::ExitStatus;
use crate::native;
use crate::printer::Printer;
use crate::settings::{self, Settings};
use crate::verb::{self, Effect};

/// Runs `kubectl mc <arguments>`.
pub(crate) fn run(arguments: Vec<OsString>, env: &Env, printer: &Printer) -> Result<ExitStatus, Failure> {
    let scanned = argv::scan(arguments.clone());
    if settings::read_only(env)? && verb::effect(&scanned) != Effect::Reads && scanned.verb().is_some() {
        return Err(
            ReadOnly { verb: scanned.verb().unwrap_or_default().to_string_lossy().into_owned() }.into()
        );
    }
    if arguments.is_empty() || scanned.verb().is_some_and(|verb| is_own(verb, &scanned, env)) {
        return own(arguments, env, printer);
    }
    let cli = match Cli::try_parse_from(program(scanned.own.clone())) {
        Ok(cli) => cli,
        Err(error) => return Ok(parser_said(&error, printer)),
    };
    let settings = Settings::resolve(&cli.flags, env)?;
    kubectl::run(scanned, settings, env, printer)
}

/// A verb of our own. Its flags are all ours, so the parser gets every word.
fn own(arguments: Vec<OsString>, env: &Env, printer: &Printer) -> Result<ExitStatus, Failure> {
    let cli = match Cli::try_parse_from(program(arguments)) {
        Ok(cli) => cli,
        Err(error) => return Ok(parser_said(&error, printer)),
    };
    match cli.command {
        Some(Command::Clusters(arguments)) => clusters::run(&arguments, &cli.flags, env, printer),
        Some(Command::Access(arguments)) => access::run(&arguments, &cli.flags, env, printer),
        Some(Command::Join(arguments)) => join::run(&arguments, &cli.flags, env, printer),
        Some(Command::Unjoin(arguments)) => unjoin::run(&arguments, &cli.flags, env, printer),
        Some(Command::Install(arguments)) => install::run(&arguments, &cli.flags, env, printer),
        Some(Command::Uninstall(arguments)) => uninstall::run(&arguments, &cli.flags, env, printer),
        // Only its help comes here: its words are those of kubectl's get.
        Some(Command::Compare) | None => {
            printer.out(&<Cli as clap::CommandFactory>::command().render_help().to_string());
            Ok(ExitStatus::Success)
        }
        Some(Command::Version) => {
            printer.out_line(&format!("{} {}", env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")));
            Ok(ExitStatus::Success)
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("`{verb}` may change something, and {} allows reads only", crate::env::READONLY)]
struct ReadOnly {
    verb: String,
}

impl Explain for ReadOnly {
    fn hint(&self) -> Option<String> {
        // These open a way in, and have no dry run.
        let opens = ["exec", "attach", "cp", "debug", "port-forward", "proxy", "run", "edit"];
        let dry = if opens.contains(&self.verb.as_str()) { "" } else { "--dry-run=server is a read; else " };
        Some(format!("{dry}unset {}", crate::env::READONLY))
    }

    fn status(&self) -> ExitStatus {
        ExitStatus::Usage
    }
}

/// kubectl has `version` and `help` too: they are ours only with no cluster chosen.
fn is_own(verb: &OsStr, scanned: &Scanned, env: &Env) -> bool {
    OWN_VERBS.iter().any(|own| verb == *own)
        || (verb == native::COMPARE && scanned.has("help"))
        || ((verb == "version" || verb == "help") && !is_cluster_chosen(scanned, env))
}

fn is_cluster_chosen(scanned: &Scanned, env: &Env) -> bool {
    let chosen = |word: &OsString| {
        let word = word.to_string_lossy();
        let name = word.split('=').next().unwrap_or_default();
        word.starts_with("-C")
            || ["--cluster", "--cluster-selector", "--all-clusters", "--exclude", "--retry-failed"]
                .contains(&name)
    };
    scanned.own.iter().any(chosen) || env.var(crate::env::CLUSTER).is_some()
}

/// kubectl has none of these.
const OWN_VERBS: &[&str] = &["access", "clusters", "install", "join", "uninstall", "unjoin"];

fn program(arguments: Vec<OsString>) -> impl Iterator<Item = OsString> {
    std::iter::once("kubectl mc".into()).chain(arguments)
}

/// Help and version are answers; everything else the parser says is an error.
fn parser_said(error: &clap::Error, printer: &Printer) -> ExitStatus {
    let text = error.render().to_string();
    if error.use_stderr() {
        printer.note(&text);
        ExitStatus::Usage
    } else {
        printer.out(&text);
        ExitStatus::Success
    }
}
