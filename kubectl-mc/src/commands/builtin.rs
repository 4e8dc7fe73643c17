//! Defines the table of the plugin's own verbs: name, help, effect on a cluster and function. The parser, the
//! read-only mode and the choice between the plugin and kubectl all read it.

mod error;
mod scope;

use std::ffi::OsStr;

use clap::{Arg, ArgMatches, Args, Command, CommandFactory, FromArgMatches};

use self::scope::{Clusters, Hubs};
use super::{clusters, completion, overview, use_cluster, version};
use crate::access;
use crate::argv::Scanned;
pub(super) use crate::argv::{COMPARE, TAIL};
use crate::audit;
use crate::authz;
use crate::cli::{
    self, AccessArgs, AuditArgs, AuthzArgs, Cli, ClustersArgs, CompareArgs, CompletionArgs, DoctorArgs,
    EnvArgs, Flags, HubApiArgs, InstallArgs, JoinArgs, KubeconfigArgs, ListenArgs, LoginArgs, LogoutArgs,
    ShellArgs, TailArgs, UninstallArgs, UnjoinArgs, UseArgs, VersionArgs,
};
use crate::cluster::context::ClusterContext;
use crate::doctor;
use crate::env::Env;
use crate::error::{Context, Failure};
use crate::exit::ExitStatus;
use crate::hub_api;
use crate::install;
use crate::join;
use crate::kubeconfig;
use crate::kubectl::verb::{self, Effect};
use crate::listen;
use crate::login;
use crate::printer::Printer;
use crate::settings::{Settings, dirs_without_contexts};

/// A verb of the plugin.
pub(super) struct BuiltinVerb {
    name: &'static str,
    about: &'static str,
    /// Adds the verb's own flags and examples.
    arguments: fn(Command) -> Command,
    clusters: Clusters,
    effect: fn(&Scanned) -> Effect,
    hubs: Hubs,
    run: fn(&ArgMatches, &Flags, &Env, &Printer) -> Result<ExitStatus, Failure>,
}

/// All verbs, in the order of the help.
const VERBS: &[BuiltinVerb] = &[
    BuiltinVerb {
        name: "clusters",
        about: "List the clusters behind the host",
        arguments: ClustersArgs::augment_args,
        clusters: Clusters::Where,
        effect: |_| Effect::Reads,
        hubs: Hubs::Any,
        run: |matches, flags, env, printer| clusters::run(&read(matches)?, flags, env, printer),
    },
    BuiltinVerb {
        name: "use",
        about: "Choose the cluster of commands that choose none, or print it",
        arguments: UseArgs::augment_args,
        clusters: Clusters::ByName,
        effect: |_| Effect::Reads,
        hubs: Hubs::Any,
        run: |matches, flags, env, printer| use_cluster::run(&read(matches)?, flags, env, printer),
    },
    BuiltinVerb {
        name: "kubeconfig",
        about: "Print a kubeconfig with a context for each cluster, or add them to yours",
        arguments: KubeconfigArgs::augment_args,
        clusters: Clusters::Choice,
        effect: |_| Effect::Reads,
        hubs: Hubs::Any,
        run: |matches, flags, env, printer| kubeconfig::run(&read(matches)?, flags, env, printer),
    },
    BuiltinVerb {
        name: "env",
        about: "Print the environment with which other tools use a cluster",
        arguments: EnvArgs::augment_args,
        clusters: Clusters::Tool,
        effect: |_| Effect::Reads,
        hubs: Hubs::Any,
        run: |matches, flags, env, printer| kubeconfig::environment(&read(matches)?, flags, env, printer),
    },
    BuiltinVerb {
        name: "shell",
        about: "Start a shell, or run a command, in which other tools use a cluster",
        arguments: ShellArgs::augment_args,
        clusters: Clusters::Tool,
        effect: |_| Effect::Opens,
        hubs: Hubs::Any,
        run: |matches, flags, env, printer| kubeconfig::shell(&read(matches)?, flags, env, printer),
    },
    BuiltinVerb {
        name: "listen",
        about: "Serve clusters on a local port, for tools that drop a server's path",
        arguments: ListenArgs::augment_args,
        clusters: Clusters::Tool,
        effect: |_| Effect::Opens,
        hubs: Hubs::Any,
        run: |matches, flags, env, printer| listen::run(&read(matches)?, flags, env, printer),
    },
    BuiltinVerb {
        name: "login",
        about: "Store a credential for the host in the keyring, and use it",
        arguments: LoginArgs::augment_args,
        clusters: Clusters::None,
        effect: |_| Effect::Reads,
        hubs: Hubs::None,
        run: |matches, flags, env, printer| login::run(&read(matches)?, flags, env, printer),
    },
    BuiltinVerb {
        name: "logout",
        about: "Remove the credential that login stored",
        arguments: LogoutArgs::augment_args,
        clusters: Clusters::None,
        effect: |_| Effect::Reads,
        hubs: Hubs::None,
        run: |matches, flags, env, printer| {
            let LogoutArgs {} = read(matches)?;
            login::logout(flags, env, printer)
        },
    },
    BuiltinVerb {
        name: ACCESS,
        about: "Explain, grant, revoke and list access to clusters",
        arguments: AccessArgs::augment_args,
        clusters: Clusters::ByName,
        effect: |scanned| {
            let word = scanned.word_after_verb();
            if word.is_some_and(|word| word == "grant" || word == "revoke") {
                writes_unless_shown(scanned)
            } else {
                Effect::Reads
            }
        },
        hubs: Hubs::Own,
        run: |matches, flags, env, printer| access::run(&read(matches)?, flags, env, printer),
    },
    BuiltinVerb {
        name: COMPARE,
        about: "Compare objects between clusters, field by field",
        arguments: CompareArgs::augment_args,
        clusters: Clusters::Any,
        effect: |_| Effect::Reads,
        // Only its help is handled here: its arguments are those of `kubectl get`.
        hubs: Hubs::Any,
        run: |_, _, _, printer| Ok(help(printer)),
    },
    BuiltinVerb {
        name: TAIL,
        about: "Show the logs of all pods that match, and follow them",
        arguments: TailArgs::augment_args,
        clusters: Clusters::Lines,
        effect: |_| Effect::Reads,
        // Only its help is handled here: its arguments are parsed like those of `kubectl logs`.
        hubs: Hubs::Any,
        run: |_, _, _, printer| Ok(help(printer)),
    },
    BuiltinVerb {
        name: "join",
        about: "Make a cluster a member of the host",
        arguments: JoinArgs::augment_args,
        clusters: Clusters::ByName,
        effect: writes_unless_shown,
        hubs: Hubs::Own,
        run: |matches, flags, env, printer| join::command::run(&read(matches)?, flags, env, printer),
    },
    BuiltinVerb {
        name: "unjoin",
        about: "Remove a member from the host",
        arguments: UnjoinArgs::augment_args,
        clusters: Clusters::ByName,
        effect: writes_unless_shown,
        hubs: Hubs::Own,
        run: |matches, flags, env, printer| join::unjoin::run(&read(matches)?, flags, env, printer),
    },
    BuiltinVerb {
        name: INSTALL,
        about: "Install the sidecar on the host, or upgrade it",
        arguments: InstallArgs::augment_args,
        clusters: Clusters::None,
        effect: writes_unless_shown,
        hubs: Hubs::None,
        run: |matches, flags, env, printer| {
            let recorded = install::command::recorded(matches);
            install::command::run(&read(matches)?, recorded, flags, env, printer)
        },
    },
    BuiltinVerb {
        name: UNINSTALL,
        about: "Remove the sidecar from the host",
        arguments: UninstallArgs::augment_args,
        clusters: Clusters::None,
        effect: writes_unless_shown,
        hubs: Hubs::None,
        run: |matches, flags, env, printer| install::uninstall::run(&read(matches)?, flags, env, printer),
    },
    BuiltinVerb {
        name: "doctor",
        about: "Check this machine, the host and the clusters, and print a fix for each problem",
        arguments: DoctorArgs::augment_args,
        clusters: Clusters::Any,
        effect: |_| Effect::Reads,
        hubs: Hubs::Any,
        run: |matches, flags, env, printer| doctor::run(&read(matches)?, flags, env, printer),
    },
    BuiltinVerb {
        name: "audit",
        about: "Show one request by its Audit-ID, from the audit events of the sidecar",
        arguments: AuditArgs::augment_args,
        clusters: Clusters::None,
        effect: |_| Effect::Reads,
        hubs: Hubs::Own,
        run: |matches, flags, env, printer| audit::run(&read(matches)?, flags, env, printer),
    },
    BuiltinVerb {
        name: "authz",
        about: "Keep the agents of Karmada on this host to their own clusters",
        arguments: AuthzArgs::augment_args,
        clusters: Clusters::None,
        effect: |scanned| match scanned.word_after_verb() {
            Some(word) if word == "apply" || word == "token" || word == "remove" => {
                writes_unless_shown(scanned)
            }
            _ => Effect::Reads,
        },
        hubs: Hubs::None,
        run: |matches, flags, env, printer| authz::run(&read(matches)?, flags, env, printer),
    },
    BuiltinVerb {
        name: "hub-api",
        about: "Put the sidecar in front of Karmada's own API server, or remove it from there",
        arguments: HubApiArgs::augment_args,
        clusters: Clusters::None,
        effect: writes_unless_shown,
        hubs: Hubs::None,
        run: |matches, flags, env, printer| hub_api::run(&read(matches)?, flags, env, printer),
    },
    BuiltinVerb {
        name: "completion",
        about: "Print the completion of a shell, or install it for kubectl",
        arguments: CompletionArgs::augment_args,
        clusters: Clusters::None,
        effect: |_| Effect::Reads,
        hubs: Hubs::None,
        run: |matches, _, env, printer| completion::run(&read(matches)?, env, printer),
    },
    BuiltinVerb {
        name: VERSION,
        about: "Print the versions of the plugin and of the sidecar",
        arguments: VersionArgs::augment_args,
        clusters: Clusters::None,
        effect: |_| Effect::Reads,
        hubs: Hubs::Any,
        run: |matches, flags, env, printer| version::run(&read(matches)?, flags, env, printer),
    },
];

/// The effect of a command on a cluster, for verbs of the plugin and of kubectl.
pub(super) fn effect(scanned: &Scanned) -> Effect {
    match scanned.verb().and_then(find) {
        Some(verb) => (verb.effect)(scanned),
        None => verb::effect(scanned),
    }
}

/// Whether the plugin runs the command itself. kubectl has `version` and `help` too: the plugin handles them
/// if no cluster is chosen, and also the help of its own verbs.
pub(super) fn runs_here(scanned: &Scanned, is_cluster_chosen: bool) -> bool {
    let Some(verb) = scanned.verb() else { return false };
    if verb == COMPARE || verb == TAIL {
        return scanned.has("help");
    }
    if verb == "help" {
        let topic = scanned.word_after_verb();
        return topic.map_or(!is_cluster_chosen, |topic| find(topic).is_some());
    }
    if verb == VERSION {
        return !is_cluster_chosen;
    }
    find(verb).is_some()
}

/// The parser of the plugin's flags and verbs.
pub(super) fn parser() -> Command {
    let root = Cli::command();
    let inherited = |clusters: Clusters, hubs: Hubs| -> Vec<_> {
        let flags = root.get_arguments().filter(|flag| flag.is_global_set()).cloned();
        flags.map(|flag| scope::adapted(flag, clusters, hubs)).collect()
    };
    let verbs = VERBS.iter().map(|verb| {
        let command = (verb.arguments)(Command::new(verb.name)).about(verb.about);
        // The help of the subcommands shows their flags.
        let below: Vec<_> = command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
        below.into_iter().fold(with(command, &inherited(verb.clusters, verb.hubs)), |command, name| {
            let clusters = match (verb.name, &*name) {
                (ACCESS, "grant" | "revoke" | "list") => Clusters::Choice,
                _ => verb.clusters,
            };
            command.mut_subcommand(name, |below| with(below, &inherited(clusters, verb.hubs)))
        })
    });
    root.clone().subcommands(verbs)
}

/// Runs the parsed verb; without one, prints the help.
pub(super) fn run(
    matches: &ArgMatches,
    flags: &Flags,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let Some((name, matches)) = matches.subcommand() else { return Ok(overview::print(names(), printer)) };
    let Some(verb) = find(OsStr::new(name)) else { return Ok(help(printer)) };
    let is_refused = match verb.clusters {
        Clusters::None => flags.chooses_clusters(),
        Clusters::Where => flags.chooses_besides_where() && !flags.chooses_contexts(),
        Clusters::ByName | Clusters::Choice | Clusters::Tool | Clusters::Any | Clusters::Lines => false,
    };
    if is_refused {
        return Err(error::no_choice(verb.name));
    }
    if flags.chooses_contexts() && !verb.clusters.has_contexts() {
        return Err(error::no_contexts(verb.name));
    }
    let takes_terms = matches!(verb.clusters, Clusters::Tool | Clusters::Any | Clusters::Lines);
    if !flags.kubeconfig_dir.is_empty() && !flags.chooses_contexts() && !takes_terms {
        return Err(dirs_without_contexts());
    }
    if let Some(flag) = flags.of_kubectl_only() {
        return Err(error::of_kubectl(verb.name, flag));
    }
    let flags = verb.hubs.check(verb.name, flags.clone(), env)?;
    let status = (verb.run)(matches, &flags, env, printer)?;
    if [INSTALL, UNINSTALL].contains(&verb.name)
        && let Ok(host) = Settings::host_of(&flags, env)
        && let Ok(host) = ClusterContext::load(&host, env)
    {
        host.hub.forget(env);
    }
    Ok(status)
}

/// The flags of the plugin, before or after the verb.
pub(super) fn flags(matches: &ArgMatches) -> Result<Flags, Failure> {
    read(matches)
}

/// Whether the verb belongs to the plugin.
pub(super) fn is_verb(scanned: &Scanned) -> bool {
    scanned.verb().and_then(find).is_some()
}

/// The names of the plugin's verbs.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    VERBS.iter().map(|verb| verb.name)
}

fn find(name: &OsStr) -> Option<&'static BuiltinVerb> {
    VERBS.iter().find(|verb| name == verb.name)
}

fn writes_unless_shown(scanned: &Scanned) -> Effect {
    let is_shown = ["dry-run", "print", "diff", "help"].iter().any(|flag| scanned.has(flag));
    if is_shown || scanned.value("output").is_some() { Effect::Reads } else { Effect::Writes }
}

/// Adds the flags that the verb does not define itself.
fn with(command: Command, flags: &[Arg]) -> Command {
    let own: Vec<_> = command.get_arguments().map(|flag| flag.get_id().clone()).collect();
    command.args(flags.iter().filter(|flag| !own.contains(flag.get_id())))
}

fn help(printer: &Printer) -> ExitStatus {
    printer.out(&cli::wrap(&parser().render_help().to_string()));
    ExitStatus::Success
}

fn read<A: FromArgMatches>(matches: &ArgMatches) -> Result<A, Failure> {
    A::from_arg_matches(matches).context(|| "cannot read the arguments")
}

const ACCESS: &str = "access";
const INSTALL: &str = "install";
const UNINSTALL: &str = "uninstall";
const VERSION: &str = "version";

#[cfg(test)]
mod tests;
