//! Runs a command line: a verb of the plugin, or kubectl on the chosen clusters.

mod builtin;
mod clusters;
mod completion;
mod kubectl;
mod man;
mod misspelled;
mod overview;
mod use_cluster;
mod version;

use std::ffi::OsString;

use clap::ArgMatches;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::argv::{self, Scanned};
use crate::cli::{self, Flags};
use crate::cluster::context::Piped;
use crate::env::Env;
use crate::error::Failure;
use crate::exit::ExitStatus;
use crate::kubectl::kuberc::{self, Kuberc};
use crate::kubectl::verb::Effect;
use crate::next_command::GivenFlags;
use crate::printer::Printer;
use crate::settings::{self, Settings};

/// Runs `kubectl mc <arguments>`. The commands in a hint address the same host.
pub(crate) fn run(arguments: Vec<OsString>, env: &Env, printer: &Printer) -> Result<ExitStatus, Failure> {
    if arguments.first().is_some_and(|word| word == crate::completion::VERB) {
        return Ok(completion::respond(arguments, builtin::parser(), env, printer));
    }
    if arguments.first().is_some_and(|word| word == man::VERB) {
        return man::write(&arguments);
    }
    if arguments.first().is_some_and(|word| word == crate::login::CREDENTIAL) {
        return crate::login::credential(&arguments, env, printer);
    }
    let scanned = argv::scan(arguments.clone());
    let given = GivenFlags::of_words(if builtin::is_verb(&scanned) { &arguments } else { &scanned.own });
    let env = settings::with_log_level(scanned.value("v"), env)?;
    // Its copies are deleted when the command has ended.
    let piped = Piped::take(&arguments, &env)?;
    let (arguments, scanned, env) = match &piped {
        Some(piped) => (piped.words.clone(), argv::scan(piped.words.clone()), piped.env.clone()),
        None => (arguments, scanned, env),
    };
    let scanned = with_alias(scanned, &env);
    let ran = match Parsed::of(arguments, scanned, &env) {
        Ok(Parsed::Said(error, scanned)) => Ok(parser_said(&error, &scanned, printer)),
        Ok(Parsed::Command(command)) => command.run(&env, printer),
        Err(failure) => Err(failure),
    };
    ran.map_err(|mut failure| {
        failure.hint = failure.hint.map(|hint| hint.with_flags(&given));
        failure
    })
}

/// The command line, in which an alias from the user's kuberc counts as a kubectl verb.
fn with_alias(mut scanned: Scanned, env: &Env) -> Scanned {
    let is_known = scanned.verb().is_none() || scanned.verb_is_builtin() || builtin::is_verb(&scanned);
    if !is_known && Kuberc::load(&scanned, env).is_some_and(|kuberc| kuberc.expanded(&scanned).is_some()) {
        scanned.mark_alias();
    }
    scanned
}

/// The result of the parser.
enum Parsed {
    Command(Box<Command>),
    /// The help, the version, or an invalid flag.
    Said(clap::Error, Scanned),
}

/// A parsed and permitted command.
struct Command {
    /// The matches of a verb of the plugin; `None` if kubectl runs the command.
    builtin: Option<ArgMatches>,
    scanned: Scanned,
    flags: Flags,
}

impl Parsed {
    fn of(arguments: Vec<OsString>, scanned: Scanned, env: &Env) -> Result<Self, Failure> {
        misspelled::check(&scanned, env)?;
        let effect = || builtin::effect(&kuberc::meant(&scanned, env));
        if settings::read_only(env)? && scanned.verb().is_some() && effect() != Effect::Reads {
            return Err(read_only(&scanned.verb().unwrap_or_default().to_string_lossy()));
        }
        // After a verb of the plugin, all flags belong to the plugin, so its parser gets every word.
        let runs_here =
            arguments.is_empty() || builtin::runs_here(&scanned, is_cluster_chosen(&scanned, env));
        let words = if runs_here { arguments } else { scanned.own.clone() };
        let matches = match builtin::parser().try_get_matches_from(program(words)) {
            Ok(matches) => matches,
            Err(error) => return Ok(Self::Said(error, scanned)),
        };
        let flags = builtin::flags(&matches)?;
        let builtin = runs_here.then_some(matches);
        Ok(Self::Command(Box::new(Command { builtin, scanned, flags })))
    }
}

impl Command {
    fn run(&self, env: &Env, printer: &Printer) -> Result<ExitStatus, Failure> {
        match &self.builtin {
            Some(matches) => builtin::run(matches, &self.flags, env, printer),
            None => kubectl::run(&self.scanned, &Settings::resolve(&self.flags, env)?, env, printer),
        }
    }
}

fn read_only(verb: &str) -> Failure {
    // These commands open connections into a cluster, and have no dry run.
    let opens = ["exec", "attach", "cp", "debug", "port-forward", "proxy", "run", "edit", "shell", "listen"];
    let dry = if opens.contains(&verb) { "" } else { "use --dry-run=server, or " };
    let variable = crate::env::READONLY;
    Failure::usage(format!("refusing `{verb}`: {variable} allows only commands that read"))
        .with_hint(format!("{dry}unset {variable}"))
}

fn is_cluster_chosen(scanned: &Scanned, env: &Env) -> bool {
    scanned.own.iter().any(|word| argv::is_choice(word)) || env.var(crate::env::CLUSTER).is_some()
}

fn program(arguments: Vec<OsString>) -> impl Iterator<Item = OsString> {
    std::iter::once("kubectl mc".into()).chain(arguments)
}

/// Help and version succeed; every other message of the parser is an error.
fn parser_said(error: &clap::Error, scanned: &Scanned, printer: &Printer) -> ExitStatus {
    if error.kind() == ErrorKind::DisplayVersion {
        printer.out_line(&version::client_line());
        return ExitStatus::Success;
    }
    let text = error.render().to_string();
    if error.use_stderr() {
        printer.note(&text);
        let unknown =
            error.get(ContextKind::InvalidArg).filter(|_| error.kind() == ErrorKind::UnknownArgument);
        let is_shell = matches!(unknown, Some(ContextValue::String(flag)) if flag == "--shell");
        if is_shell && scanned.verb().is_some_and(|verb| verb == "completion") {
            printer.note_line(
                "hint: name the shell as an argument, for example: kubectl mc completion install bash",
            );
        }
        ExitStatus::Usage
    } else {
        printer.out(&cli::wrap(&text));
        ExitStatus::Success
    }
}
