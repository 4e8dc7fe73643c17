//! Resolves flags, environment and configuration once. Commands only use the result.

mod cluster_choice;
mod cluster_names;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

pub(crate) use cluster_choice::{ClusterChoice, cluster_choice, no_cluster, takes_no_retry};
pub(crate) use cluster_names::{ClusterNamesError, cluster_name, new_cluster_name};

use crate::cli::{DryRun, Flags, HubChoice, RouteChoice};
use crate::cluster::cluster_id::CONTEXT_PREFIX;
use crate::cluster::context::HostOptions;
use crate::config_file::{self, ClusterSet, ConfigFile};
use crate::env::{self, Env};
use crate::error::{Context, Failure};
use crate::multi::selection::{Choice, ContextFilter, FieldFilter, Kind};
use crate::multi::{self, Batches, Rollout};

/// The choice of clusters and host, and the options for several clusters.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Settings {
    /// The clusters of the command; `None` if there is no choice.
    pub(crate) choice: Option<Choice>,
    /// The kind of clusters if there is no choice.
    pub(crate) from: Kind,
    /// Whether to use the clusters that failed in the last command.
    pub(crate) retry_failed: bool,
    /// The sets that a choice may reference.
    pub(crate) sets: BTreeMap<String, ClusterSet>,
    pub(crate) host: HostOptions,
    pub(crate) fleet: multi::Options,
    pub(crate) route: RouteChoice,
    /// Whether only to show the targets.
    pub(crate) show_clusters: bool,
}

impl Settings {
    pub(crate) fn resolve(flags: &Flags, env: &Env) -> Result<Self, Failure> {
        let file = ConfigFile::load(env)?;
        Ok(Self {
            choice: choice(flags, env)?,
            from: if flags.chooses_contexts() { Kind::Contexts } else { Kind::Members },
            retry_failed: flags.retry_failed,
            host: host(flags, env, &file)?,
            fleet: fleet(flags, &file)?,
            route: route(flags.route, env, file.defaults.route)?,
            sets: file.sets,
            show_clusters: flags.dry_run == Some(DryRun::Clusters),
        })
    }

    /// The options for the host alone.
    pub(crate) fn host_of(flags: &Flags, env: &Env) -> Result<HostOptions, Failure> {
        host(flags, env, &ConfigFile::load(env)?)
    }
}

/// The clusters that the flags choose, else those of the variable.
fn choice(flags: &Flags, env: &Env) -> Result<Option<Choice>, Failure> {
    let Flags { cluster, cluster_selector, r#where, all_clusters, exclude, context_selector, .. } = flags;
    let of_contexts = flags.chooses_contexts();
    let chooses_all = cluster_selector.is_some() || !r#where.is_empty() || *all_clusters;
    let by_flags = !cluster.is_empty() || chooses_all || of_contexts || flags.retry_failed;
    let (terms, origin) = if by_flags {
        (cluster.clone(), "--cluster")
    } else {
        (text(env, env::CLUSTER)?.into_iter().collect(), env::CLUSTER)
    };
    check_contradictions(flags, &terms)?;
    let choice = if of_contexts {
        let filter = context_selector.as_deref().map(ContextFilter::parse).transpose();
        let filter = filter.context(|| "--context-selector")?;
        Choice::parse_contexts(&terms, exclude, filter, *all_clusters)
    } else {
        Choice::parse(&terms, exclude, cluster_selector.as_deref(), *all_clusters)
    };
    let choice = choice.context(|| origin)?;
    Ok(Choice::filtered(choice, FieldFilter::parse(r#where).context(|| "--where")?))
}

/// Refuses mutually exclusive flags; `terms` are the names and patterns of clusters.
fn check_contradictions(flags: &Flags, terms: &[String]) -> Result<(), Failure> {
    let Flags { cluster, cluster_selector, r#where, all_clusters, exclude, retry_failed, .. } = flags;
    let of_contexts = flags.chooses_contexts();
    let chooses_all = cluster_selector.is_some() || !r#where.is_empty() || *all_clusters;
    if *all_clusters && !cluster.is_empty() {
        return Err(contradiction("--all-clusters", "--cluster"));
    }
    if *retry_failed && (!cluster.is_empty() || chooses_all || !exclude.is_empty() || of_contexts) {
        return Err(contradiction("--retry-failed", "another choice of clusters"));
    }
    if of_contexts && (cluster_selector.is_some() || !r#where.is_empty()) {
        let other = if cluster_selector.is_some() { "--cluster-selector" } else { "--where" };
        return Err(contradiction("--contexts", other));
    }
    if of_contexts && flags.context.as_ref().is_some_and(|context| !context.is_empty()) {
        return Err(contradiction("--contexts", "--context"));
    }
    if !flags.kubeconfig_dir.is_empty() {
        let is_of_contexts = |term: &str| {
            let term = term.trim_start_matches('!');
            term.starts_with(CONTEXT_PREFIX) || term.starts_with('@')
        };
        let of_terms = terms.iter().any(|terms| terms.split(',').any(is_of_contexts));
        if !of_contexts && !of_terms && !retry_failed {
            return Err(dirs_without_contexts());
        }
        if of_contexts && flags.kubeconfig.as_ref().is_some_and(|file| !file.is_empty()) {
            return Err(contradiction("--kubeconfig-dir", "--kubeconfig"));
        }
    }
    Ok(())
}

/// The options for several clusters.
fn fleet(flags: &Flags, file: &ConfigFile) -> Result<multi::Options, Failure> {
    let defaults = &file.defaults;
    Ok(multi::Options {
        concurrency: flags.cluster_concurrency.or(defaults.cluster_concurrency),
        timeout: flags.cluster_timeout.or(defaults.cluster_timeout),
        batches: flags.batch.as_deref().map(Batches::parse).transpose().context(|| "--batch")?,
        pause_on_failure: flags.pause_on_failure,
        rollout: Rollout {
            wait: (flags.batch_wait || flags.no_batch_wait).then_some(flags.batch_wait),
            timeout: flags.batch_timeout.unwrap_or_else(|| Rollout::default().timeout),
            check: flags.batch_check.as_deref().map(check).transpose()?,
            pause: flags.batch_pause.unwrap_or_default(),
        },
        yes: flags.yes,
        keep: flags.keep,
        color: flags.color.or(defaults.color).unwrap_or_default(),
    })
}

/// The arguments of kubectl in the command of a check.
fn check(command: &str) -> Result<Vec<OsString>, Failure> {
    let mut words = shlex::split(command).unwrap_or_default().into_iter();
    let program = words.next();
    let words: Vec<OsString> = words.map(OsString::from).collect();
    match program.as_deref() {
        Some("kubectl") if !words.is_empty() => Ok(words),
        _ => Err(Failure::usage(format!("--batch-check: {command:?} is no command of kubectl")).with_hint(
            "for example: --batch-check='kubectl get --raw /readyz'; it runs on each cluster of the batch",
        )),
    }
}

/// Whether commands that may change something are refused.
pub(crate) fn read_only(env: &Env) -> Result<bool, Failure> {
    Ok(text(env, env::READONLY)?.is_some_and(|value| !matches!(&*value, "0" | "false")))
}

/// The environment with the log level of `-v`.
pub(crate) fn with_log_level(level: Option<&OsStr>, env: &Env) -> Result<Env, Failure> {
    let origin = if level.is_some() { "-v" } else { env::LOG };
    let env = level.map_or_else(|| env.clone(), |level| env.with(env::LOG, level));
    match text(&env, env::LOG)? {
        Some(level) if level.parse::<u8>().is_err() => {
            Err(Failure::usage(format!("invalid log level {level:?} of {origin}: expected a number")))
        }
        _ => Ok(env),
    }
}

fn host(flags: &Flags, env: &Env, file: &ConfigFile) -> Result<HostOptions, Failure> {
    // An empty flag counts as absent, as in kubectl.
    let context = match flags.context.clone().filter(|name| !name.is_empty()) {
        Some(context) => Some(context),
        None => text(env, env::CONTEXT)?,
    };
    let kubeconfig = flags.kubeconfig.clone().filter(|file| !file.is_empty()).map(PathBuf::from);
    let hub = hub(flags.hub.clone(), env, file.hub.clone())?;
    let kubeconfig_dirs = kubeconfig_dirs(flags, env, file);
    Ok(HostOptions { kubeconfig, context: context.or_else(|| file.host.clone()), hub, kubeconfig_dirs })
}

/// The folders of the flag, else those of the configuration, unless a flag names another kubeconfig.
fn kubeconfig_dirs(flags: &Flags, env: &Env, file: &ConfigFile) -> Vec<PathBuf> {
    let below_home = |path: &Path| {
        let rest = path.strip_prefix("~").ok()?;
        Some(env.home()?.join(rest))
    };
    let given: Vec<_> = flags.kubeconfig_dir.iter().filter(|dir| !dir.is_empty()).map(Path::new).collect();
    if !given.is_empty() {
        return given.iter().map(|dir| below_home(dir).unwrap_or_else(|| (*dir).to_owned())).collect();
    }
    if flags.kubeconfig.as_ref().is_some_and(|file| !file.is_empty()) {
        return Vec::new();
    }
    let folder = config_file::path(env).and_then(|path| Some(path.parent()?.to_owned())).unwrap_or_default();
    let dirs = file.defaults.kubeconfig_dir.iter().map(Path::new);
    dirs.map(|dir| below_home(dir).unwrap_or_else(|| folder.join(dir))).collect()
}

fn hub(flag: Option<HubChoice>, env: &Env, of_file: Option<HubChoice>) -> Result<HubChoice, Failure> {
    let of_env =
        match text(env, env::HUB)? {
            Some(value) => Some(value.parse().map_err(|reason: String| {
                Failure::usage(format!("invalid {} {value:?}: {reason}", env::HUB))
            })?),
            None => None,
        };
    Ok(flag.or(of_env).or(of_file).unwrap_or_default())
}

fn route(flag: Option<RouteChoice>, env: &Env, of_file: Option<RouteChoice>) -> Result<RouteChoice, Failure> {
    let of_env = match text(env, env::ROUTE)? {
        Some(value) => {
            let parsed = <RouteChoice as clap::ValueEnum>::from_str(&value, false);
            Some(parsed.map_err(|_| {
                let name = env::ROUTE;
                Failure::usage(format!("invalid {name} {value:?}: expected auto, host or direct"))
            })?)
        }
        None => None,
    };
    Ok(flag.or(of_env).or(of_file).unwrap_or_default())
}

fn text(env: &Env, name: &'static str) -> Result<Option<String>, Failure> {
    let Some(value) = env.var(name) else { return Ok(None) };
    value
        .to_owned()
        .into_string()
        .map(Some)
        .map_err(|value| Failure::usage(format!("{name} is not UTF-8: {value:?}")))
}

/// The failure of a command that gets folders for contexts but does not select contexts.
pub(crate) fn dirs_without_contexts() -> Failure {
    Failure::usage("--kubeconfig-dir names files of contexts, and no context is chosen")
        .with_hint("add --contexts, or choose by -C context:NAME")
}

fn contradiction(one: &str, other: &str) -> Failure {
    let failure = Failure::usage(format!("{one} and {other} contradict each other"));
    match (one, other) {
        ("--contexts", "--context") => {
            failure.with_hint("name the context by -C NAME; --context names a host")
        }
        ("--kubeconfig-dir", _) => failure.with_hint("name the file as one of --kubeconfig-dir too"),
        ("--contexts", _) => {
            failure.with_hint("--context-selector chooses contexts by server, user and namespace")
        }
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::ExitStatus;

    fn flags(clusters: &[&str]) -> Flags {
        Flags { cluster: clusters.iter().map(|&c| c.to_owned()).collect(), ..Flags::default() }
    }

    fn env(variables: &[(&str, &str)]) -> Env {
        variables.iter().copied().collect()
    }

    #[test]
    fn flag_overrides_its_variable() {
        let env = env(&[(env::CLUSTER, "m2"), (env::CONTEXT, "from-env")]);
        let cluster = |flags: &Flags| {
            let choice = Settings::resolve(flags, &env).unwrap().choice.unwrap();
            choice.exact().unwrap().to_string()
        };
        assert_eq!(cluster(&flags(&["m1"])), "m1");
        assert_eq!(cluster(&flags(&[])), "m2");
        let context = |context: Option<&str>| {
            let flags = Flags { context: context.map(str::to_owned), ..Flags::default() };
            Settings::resolve(&flags, &env).unwrap().host.context
        };
        assert_eq!(context(Some("flag")).as_deref(), Some("flag"));
        assert_eq!(context(None).as_deref(), Some("from-env"));
    }

    #[test]
    fn defaults_choose_no_cluster() {
        assert_eq!(Settings::resolve(&flags(&[]), &env(&[(env::CLUSTER, "")])).unwrap(), Settings::default());
    }

    #[test]
    fn filter_overrides_the_variable() {
        let filtered = Flags { r#where: vec!["ready=True".to_owned()], ..Flags::default() };
        let choice = |env: &Env| Settings::resolve(&filtered, env).unwrap().choice;
        assert_eq!(choice(&env(&[(env::CLUSTER, "m1")])), choice(&env(&[])));
        assert!(choice(&env(&[])).is_some());
    }

    #[test]
    fn variable_accepts_the_whole_grammar() {
        let settings = Settings::resolve(&flags(&[]), &env(&[(env::CLUSTER, "eu-*,!eu-9")])).unwrap();
        assert_eq!(settings.choice, Choice::parse(&["eu-*,!eu-9"], &[], None, false).unwrap());
    }

    #[test]
    fn configuration_supplies_defaults() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("kubectl-mc")).unwrap();
        let text = "host: of-file\ndefaults: {clusterConcurrency: 3, clusterTimeout: 5s, color: never}\n";
        std::fs::write(folder.path().join("kubectl-mc/config.yaml"), text).unwrap();
        let file = (env::XDG_CONFIG_HOME, folder.path().to_str().unwrap());
        let settings = Settings::resolve(&flags(&[]), &env(&[file])).unwrap();
        assert_eq!(settings.host.context.as_deref(), Some("of-file"));
        assert_eq!(settings.fleet.timeout, Some(std::time::Duration::from_secs(5)));
        assert_eq!(settings.fleet.concurrency.map(std::num::NonZero::get), Some(3));
        assert_eq!(settings.fleet.color, crate::cli::Color::Never);
        let host = Settings::host_of(&flags(&[]), &env(&[file, (env::CONTEXT, "of-env")])).unwrap();
        assert_eq!(host.context.as_deref(), Some("of-env"));
    }

    #[test]
    fn conflicting_choices_are_refused() {
        let all = Flags { all_clusters: true, ..flags(&["m1"]) };
        let retry = Flags { retry_failed: true, ..flags(&["m1"]) };
        let filtered = vec!["ready=True".to_owned()];
        let filtered = Flags { retry_failed: true, r#where: filtered, ..Flags::default() };
        for flags in [all, retry, filtered] {
            let error = Settings::resolve(&flags, &env(&[])).unwrap_err();
            assert!(error.to_string().ends_with(" contradict each other"), "{flags:?}: {error}");
            assert_eq!(error.status, ExitStatus::Usage);
        }
    }

    #[test]
    fn fault_81_invalid_cluster_name_is_refused_by_name() {
        for name in ["", "..", "../m2", "m1/proxy", "M1", "m.1"] {
            let error = Settings::resolve(&flags(&[name]), &env(&[])).unwrap_err();
            let text = error.to_string();
            assert!(text.starts_with(&format!("--cluster: invalid cluster name {name:?}: ")), "{text}");
        }
    }
}
