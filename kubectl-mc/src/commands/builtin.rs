//! The table of the plugin's own verbs: the name, the help, the effect on a cluster and the function of each.
//! The parser, the read-only mode and the choice between the plugin and kubectl all read this table.

use std::ffi::OsStr;

use clap::{ArgMatches, Args, Command, CommandFactory, FromArgMatches};

use super::clusters;
use crate::access;
use crate::argv::Scanned;
use crate::cli::{
    AccessArgs, Cli, ClustersArgs, CompareArgs, Flags, InstallArgs, JoinArgs, UninstallArgs, UnjoinArgs,
};
use crate::env::Env;
use crate::error::{Explain, Failure};
use crate::exit::ExitStatus;
use crate::install;
use crate::join;
use crate::kubectl::verb::{self, Effect};
pub(super) use crate::multi::direct::COMPARE;
use crate::printer::Printer;

/// One verb of the plugin.
pub(super) struct BuiltinVerb {
    name: &'static str,
    about: &'static str,
    /// Adds the verb's own flags and examples.
    arguments: fn(Command) -> Command,
    /// Whether the flags that choose clusters mean something to it.
    clusters: fn(&ArgMatches) -> bool,
    effect: fn(&Scanned) -> Effect,
    run: fn(&ArgMatches, &Flags, &Env, &Printer) -> Result<ExitStatus, Failure>,
}

/// All of them, in the order of the help.
const VERBS: &[BuiltinVerb] = &[
    BuiltinVerb {
        name: "clusters",
        about: "List the clusters behind the host",
        arguments: ClustersArgs::augment_args,
        clusters: |_| false,
        effect: |_| Effect::Reads,
        run: |matches, flags, env, printer| clusters::run(&read(matches)?, flags, env, printer),
    },
    BuiltinVerb {
        name: "access",
        about: "Explain, grant and revoke access to a cluster",
        arguments: AccessArgs::augment_args,
        clusters: |matches| matches.subcommand_name() != Some(DIFF),
        effect: |scanned| {
            let word = scanned.word_after_verb();
            if word.is_some_and(|word| word == "grant" || word == "revoke") {
                writes_unless_shown(scanned)
            } else {
                Effect::Reads
            }
        },
        run: |matches, flags, env, printer| access::run(&read(matches)?, flags, env, printer),
    },
    BuiltinVerb {
        name: COMPARE,
        about: "Compare objects between clusters, field by field",
        arguments: CompareArgs::augment_args,
        clusters: |_| true,
        effect: |_| Effect::Reads,
        // Only its help comes here: its words are those of `kubectl get`.
        run: |_, _, _, printer| Ok(help(printer)),
    },
    BuiltinVerb {
        name: "join",
        about: "Make a cluster a member of the host",
        arguments: JoinArgs::augment_args,
        clusters: |_| false,
        effect: writes_unless_shown,
        run: |matches, flags, env, printer| join::command::run(&read(matches)?, flags, env, printer),
    },
    BuiltinVerb {
        name: "unjoin",
        about: "Remove a member from the host",
        arguments: UnjoinArgs::augment_args,
        clusters: |_| false,
        effect: writes_unless_shown,
        run: |matches, flags, env, printer| join::unjoin::run(&read(matches)?, flags, env, printer),
    },
    BuiltinVerb {
        name: "install",
        about: "Install the sidecar on the host, or upgrade it",
        arguments: InstallArgs::augment_args,
        clusters: |_| false,
        effect: writes_unless_shown,
        run: |matches, flags, env, printer| install::command::run(&read(matches)?, flags, env, printer),
    },
    BuiltinVerb {
        name: "uninstall",
        about: "Remove the sidecar from the host",
        arguments: UninstallArgs::augment_args,
        clusters: |_| false,
        effect: writes_unless_shown,
        run: |matches, flags, env, printer| install::uninstall::run(&read(matches)?, flags, env, printer),
    },
    BuiltinVerb {
        name: VERSION,
        about: "Print the version of this plugin (with a cluster chosen: kubectl's version)",
        arguments: |command| command,
        clusters: |_| true,
        effect: |_| Effect::Reads,
        run: |_, _, _, printer| {
            printer.out_line(&format!("{} {}", env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")));
            Ok(ExitStatus::Success)
        },
    },
];

/// What a command does to a cluster, be it the plugin's own or kubectl's.
pub(super) fn effect(scanned: &Scanned) -> Effect {
    match scanned.verb().and_then(find) {
        Some(verb) => (verb.effect)(scanned),
        None => verb::effect(scanned),
    }
}

/// Whether the plugin runs the command itself. kubectl has `version` and `help` too: they are the plugin's only
/// with no cluster chosen.
pub(super) fn runs_here(scanned: &Scanned, is_cluster_chosen: bool) -> bool {
    let Some(verb) = scanned.verb() else { return false };
    if verb == COMPARE {
        return scanned.has("help");
    }
    if verb == VERSION || verb == "help" {
        return !is_cluster_chosen;
    }
    find(verb).is_some()
}

/// The parser of the plugin's flags and verbs.
pub(super) fn parser() -> Command {
    let root = Cli::command();
    let choice: Vec<_> =
        root.get_arguments().filter(|flag| CHOICE.contains(&flag.get_id().as_str())).cloned().collect();
    let hidden = choice.into_iter().map(|flag| flag.hide(true)).collect::<Vec<_>>();
    root.subcommands(VERBS.iter().map(|verb| {
        let command = (verb.arguments)(Command::new(verb.name)).about(verb.about);
        let takes_clusters = (verb.clusters)(&ArgMatches::default());
        let command = if takes_clusters { command } else { command.args(&hidden) };
        match command.find_subcommand(DIFF) {
            Some(_) => command.mut_subcommand(DIFF, |diff| diff.args(&hidden)),
            None => command,
        }
    }))
}

/// Runs the verb that was parsed; without one, prints the help.
pub(super) fn run(matches: &ArgMatches, env: &Env, printer: &Printer) -> Result<ExitStatus, Failure> {
    let flags = flags(matches)?;
    let Some((name, matches)) = matches.subcommand() else { return Ok(help(printer)) };
    let Some(verb) = find(OsStr::new(name)) else { return Ok(help(printer)) };
    if flags.chooses_clusters() && !(verb.clusters)(matches) {
        return Err(NoChoice { verb: verb.name }.into());
    }
    (verb.run)(matches, &flags, env, printer)
}

/// The flags of the plugin before or after the verb.
pub(super) fn flags(matches: &ArgMatches) -> Result<Flags, Failure> {
    read(matches)
}

fn find(name: &OsStr) -> Option<&'static BuiltinVerb> {
    VERBS.iter().find(|verb| name == verb.name)
}

fn writes_unless_shown(scanned: &Scanned) -> Effect {
    let is_shown = ["dry-run", "print", "diff", "help"].iter().any(|flag| scanned.has(flag));
    if is_shown || scanned.value("output").is_some() { Effect::Reads } else { Effect::Writes }
}

fn help(printer: &Printer) -> ExitStatus {
    printer.out(&parser().render_help().to_string());
    ExitStatus::Success
}

fn read<A: FromArgMatches>(matches: &ArgMatches) -> Result<A, Failure> {
    Ok(A::from_arg_matches(matches).map_err(Unreadable)?)
}

/// The flags that choose clusters, which the help of a verb that takes none does not show.
const CHOICE: &[&str] = &["cluster", "cluster_selector", "all_clusters"];
/// The verb of `access` that names its cluster as an argument.
const DIFF: &str = "diff";
const VERSION: &str = "version";

#[derive(Debug, thiserror::Error)]
#[error("`kubectl mc {verb}` takes no choice of clusters")]
struct NoChoice {
    verb: &'static str,
}

impl Explain for NoChoice {
    fn hint(&self) -> Option<String> {
        Some(match self.verb {
            "clusters" => "--selector=KEY=VALUE narrows the list by labels".to_owned(),
            "install" | "uninstall" => "--context=NAME names another host".to_owned(),
            _ => "name the cluster as an argument".to_owned(),
        })
    }

    fn status(&self) -> ExitStatus {
        ExitStatus::Usage
    }
}

/// The arguments of a verb cannot be read back from the parser: a defect of this program.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the arguments")]
struct Unreadable(#[source] clap::Error);

impl Explain for Unreadable {}

#[cfg(test)]
mod tests;
