//! Implements `kubectl mc doctor`: checks this machine, the host and the members through the same hops as a
//! command, and prints a command that solves each problem.
//!
//! - [`machine`]: the plugin in `PATH`, kubectl, the configuration; [`krew`]: another plugin `mc` of krew
//! - [`host`]: connection and login, the clock, the sidecar; [`registry`]: lost members; [`mod@hub`]: another project's hub instead
//! - [`contexts`]: with `--contexts`, the kubeconfig and its contexts instead of the host and its
//!   members
//! - [`member`]: the sidecar's report, and a request through every hop; [`streams`]: WebSocket and SPDY
//! - [`report`]: the findings as text and as JSON

mod contexts;
mod host;
mod hub;
mod krew;
mod machine;
mod member;
mod registry;
mod report;
mod requests;
mod streams;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kubectl_mc_api::ClusterName;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use self::machine::KubectlFound;
use self::member::CheckContext;
use self::report::{Finding, Kind, Report, Section};
use crate::argv::Scanned;
use crate::cli::{DataFormat, DoctorArgs, Flags, HubChoice};
use crate::cluster::client;
use crate::cluster::context::{ClusterContext, HostOptions};
use crate::cluster::credential::Login;
use crate::cluster::hub::{self as hub_of_host, OtherHub};
use crate::cluster::inventory::{self, InventoryError, ListFormat};
use crate::cluster::route;
use crate::config_file::{self, ConfigFile};
use crate::env::Env;
use crate::error::{CommandLine, Failure, Hint};
use crate::exit::ExitStatus;
use crate::json;
use crate::kubectl::exec::KubectlError;
use crate::multi::selection::{Choice, FieldFilter, SelectedCluster, members_only};
use crate::next_command::GivenFlags;
use crate::printer::Printer;
use crate::progress::Progress;
use crate::settings::{Settings, takes_no_retry};
use crate::yaml;

pub(crate) fn run(
    arguments: &DoctorArgs,
    flags: &Flags,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let settings = settings(arguments, flags, env)?;
    let of_contexts = flags.chooses_contexts();
    let choice = if of_contexts { Choice::default() } else { choice(arguments, flags)? };
    let given = GivenFlags::new(flags.context.as_deref(), flags.kubeconfig.as_deref().map(Path::new));
    let dirs: Vec<_> = flags.kubeconfig_dir.iter().map(Into::into).collect();
    let given = given.with_dirs(&dirs);
    let kubectl = KubectlFound::find(env);
    let mut doctor = Doctor { arguments, env, printer, given, kubectl, report: Report::default() };
    match of_contexts {
        true => doctor.examine_contexts(&settings)?,
        false => doctor.examine(&choice, &settings)?,
    }
    let Doctor { report, .. } = doctor;
    match arguments.output {
        None => printer.out_line(&report.summary()),
        Some(DataFormat::Json) => printer.out(&(json::text(&report.data(), 0) + "\n")),
        Some(DataFormat::Yaml) => printer.out(&yaml::text(&report.data(), 0)),
    }
    Ok(report.status())
}

/// The choice of the arguments and flags, by default all clusters. The default cluster of other commands does
/// not restrict it.
fn choice(arguments: &DoctorArgs, flags: &Flags) -> Result<Choice, Failure> {
    let Flags { cluster, cluster_selector, r#where, all_clusters, exclude, retry_failed, .. } = flags;
    if *retry_failed {
        return Err(takes_no_retry());
    }
    let terms: Vec<_> = arguments.clusters.iter().chain(cluster).collect();
    let chooses_all = *all_clusters || terms.is_empty();
    let choice = Choice::parse(&terms, exclude, cluster_selector.as_deref(), chooses_all);
    let filter = FieldFilter::parse(r#where)?;
    let choice = Choice::filtered(choice?, filter);
    Ok(choice.unwrap_or_default())
}

/// The settings. Invalid flags and variables are errors. An unreadable configuration file is a finding, and
/// the other checks run without it.
fn settings(arguments: &DoctorArgs, flags: &Flags, env: &Env) -> Result<Settings, Failure> {
    let mut flags = flags.clone();
    flags.cluster.extend(arguments.clusters.iter().cloned());
    match Settings::resolve(&flags, env) {
        Ok(settings) => Ok(settings),
        Err(error) if ConfigFile::load(env).is_ok() => Err(error),
        Err(_) => {
            let kubeconfig = flags.kubeconfig.map(Into::into);
            Ok(Settings {
                host: HostOptions {
                    kubeconfig,
                    context: flags.context,
                    hub: flags.hub.unwrap_or_default(),
                    kubeconfig_dirs: flags.kubeconfig_dir.into_iter().map(Into::into).collect(),
                },
                ..Settings::default()
            })
        }
    }
}

struct Doctor<'a> {
    arguments: &'a DoctorArgs,
    env: &'a Env,
    printer: &'a Printer,
    /// The flags that commands in a fix repeat.
    given: GivenFlags,
    kubectl: Result<KubectlFound, KubectlError>,
    report: Report,
}

impl Doctor<'_> {
    /// Adds one section after another, until a hop blocks the remaining checks.
    fn examine(&mut self, choice: &Choice, settings: &Settings) -> Result<(), Failure> {
        let env = self.env;
        self.add(Section::new(Kind::Machine, "This machine", machine::check(self.kubectl.as_ref(), env)));

        self.host(choice, settings)
    }

    /// Checks the host and its clusters. If the host turns out to be a hub of another project, all checks
    /// restart for that hub.
    fn host(&mut self, choice: &Choice, settings: &Settings) -> Result<(), Failure> {
        let env = self.env;
        let found = match ClusterContext::load(&settings.host, env) {
            Ok(found) => found,
            Err(error) => {
                let failure = Failure::from(error);
                let fix = failure.hint.clone().unwrap_or_else(read_kubeconfig);
                let problem = Finding::problem("context", failure.to_string(), Some(fix));
                self.add(Section::new(Kind::Host, "Host", vec![problem]));
                return Ok(());
            }
        };
        let scanned = Scanned::default();
        let login = Login::new(&found, &scanned, env);
        let name = capitalized(&found.describe());
        let runtime = client::runtime()?;
        let connected =
            login.host().and_then(|host| runtime.block_on(client::connection(host, &scanned, env)));
        let host_client = match connected {
            Ok(client) => client,
            Err(error) => {
                self.add(Section::new(Kind::Host, name, vec![host::unreached(&found, &error)]));
                return Ok(());
            }
        };
        let mut findings = runtime.block_on(host::check(&found, &host_client));
        if let Some(OtherHub(found)) = found.hub.found() {
            hub_of_host::remember(&found, env);
            let host = HostOptions { hub: HubChoice::Found(found), ..settings.host.clone() };
            return self.host(choice, &Settings { host, ..settings.clone() });
        }
        let is_usable = findings.iter().all(|finding| finding.level < report::Level::Problem);

        findings.extend(runtime.block_on(registry::check(&found, &host_client)));
        let wanted = settings.route;
        let now = SystemTime::now();
        let through =
            is_usable.then(|| route::Request { wanted, login: &login, scanned: &scanned, env, now }.choose());
        let through = match through {
            None => None,
            Some(Ok(through)) => {
                let by = through.found();
                if by.is_direct {
                    findings.push(Finding::ok("route", format!("direct: {}", by.server)));
                }
                Some(through)
            }
            Some(Err(failure)) => {
                findings.push(Finding::problem("route", failure.to_string(), failure.hint));
                None
            }
        };
        let clusters = if is_usable { self.clusters(choice, &login, &mut findings) } else { Vec::new() };
        self.add(Section::new(Kind::Host, name, findings));
        let Some(through) = through else { return Ok(()) };

        let members_by = through.host()?;
        let client = runtime.block_on(client::connection(&members_by, &scanned, env));
        let context = CheckContext {
            host: found.clone(),
            host_client,
            client: client?,
            kubectl_minor: self.kubectl.as_ref().ok().and_then(KubectlFound::minor),
            with_streams: !self.arguments.no_streams,
        };
        let concurrency = settings.fleet.concurrency.map_or(CONCURRENCY, std::num::NonZeroUsize::get);
        let limit = settings.fleet.timeout(true);
        let sections = {
            let _step = Progress::new(self.printer).step(&format!("Checking {} clusters", clusters.len()));
            runtime.block_on(members(&context, &clusters, concurrency, limit))
        };
        for section in sections {
            self.add(section);
        }
        Ok(())
    }

    /// The chosen clusters. Without the right to list clusters, exact names are still checked.
    fn clusters(&self, choice: &Choice, login: &Login<'_>, findings: &mut Vec<Finding>) -> Vec<ClusterName> {
        let (env, scanned) = (self.env, Scanned::default());
        let mut unusable = None;
        let list = |selector: Option<&str>| {
            let client = |source| InventoryError::Client { host: login.found().describe(), source };
            let host = login.host().map_err(client)?;
            let list = inventory::list(host, &scanned, env, selector, ListFormat::Objects)?;
            unusable = unusable.take().or_else(|| inventory::unusable(&list));
            Ok(SelectedCluster::of_list(&list))
        };
        let sets = ConfigFile::load(env).map(|file| file.sets).unwrap_or_default();
        let chosen = choice.resolve(&sets, &mut members_only(list));
        findings.extend(
            unusable.map(|unusable| Finding::warning("clusters", unusable, "rename the cluster in its hub")),
        );
        match chosen {
            Ok(clusters) => clusters.iter().filter_map(|cluster| cluster.member().cloned()).collect(),
            Err(error) => {
                let failure = Failure::from(error.in_file(config_file::path(env)));
                let again =
                    || format!("see its requests: {} clusters -v=6", login.found().kubectl_mc()).into();
                let fix = failure.hint.clone().unwrap_or_else(again);
                findings.push(Finding::problem("clusters", failure.to_string(), Some(fix)));
                Vec::new()
            }
        }
    }

    /// Adds a section. Text output shows it immediately.
    fn add(&mut self, section: Section) {
        let section = section.with_flags(&self.given);
        if self.arguments.output.is_none() {
            section.lines().iter().for_each(|line| self.printer.out_line(line));
        }
        self.report.add(section);
    }
}

/// Checks all clusters in parallel; the results are in the chosen order.
async fn members(
    context: &CheckContext,
    clusters: &[ClusterName],
    concurrency: usize,
    limit: Option<Duration>,
) -> Vec<Section> {
    let free = Arc::new(Semaphore::new(concurrency));
    let mut checks = JoinSet::new();
    for (place, name) in clusters.iter().cloned().enumerate() {
        let (context, free) = (context.clone(), Arc::clone(&free));
        checks.spawn(async move {
            let _permit = free.acquire_owned().await;
            let mut findings = Vec::new();
            if within(limit, member::check(&context, &name, &mut findings)).await.is_err() {
                findings.extend(limit.map(|limit| late(limit, &context.host, &name)));
            }
            (place, Section::new(Kind::Cluster, name.as_str(), findings))
        });
    }
    let mut sections = checks.join_all().await;
    sections.sort_by_key(|(place, _)| *place);
    sections.into_iter().map(|(_, section)| section).collect()
}

/// Runs a check until its limit.
async fn within(limit: Option<Duration>, check: impl Future<Output = ()>) -> Result<(), Elapsed> {
    match limit {
        Some(limit) => timeout(limit, check).await,
        None => {
            check.await;
            Ok(())
        }
    }
}

/// The finding for a cluster whose checks timed out.
fn late(limit: Duration, host: &ClusterContext, name: &ClusterName) -> Finding {
    let fix = format!("wait longer: {} doctor {name} --cluster-timeout=DURATION", host.kubectl_mc());
    Finding::problem("request", format!("no answer within {} s", limit.as_secs()), Some(fix))
}

/// Capitalizes the title of a section.
fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn read_kubeconfig() -> Hint {
    CommandLine::new("kubectl config view").after("kubectl reads the same files; see")
}

/// A check mostly waits for the network.
const CONCURRENCY: usize = 64;
