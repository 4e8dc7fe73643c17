//! The `mc-sidecar` program: arguments, configuration, server, exit code.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use kubectl_mc_api::manifests::CRD;
use sidecar::connection::tls;
use sidecar::programs::agent;
use sidecar::programs::args::{Check, Cli, Command};
use sidecar::programs::check;
use sidecar::programs::config::Config;
use sidecar::programs::log;
use sidecar::programs::serve::Bound;
use sidecar::server::shutdown;
use sidecar::workers::Workers;
use tokio::runtime::Builder;

fn main() -> ExitCode {
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(help) if !help.use_stderr() => return printed(help.print()),
        Err(error) => {
            // A failure to print cannot be reported.
            let _ = error.print();
            return ExitCode::from(BAD_CONFIGURATION);
        }
    };
    match command {
        Command::Serve(serve) => match Config::try_from(*serve).map_err(Into::into).and_then(run) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error, BAD_CONFIGURATION),
        },
        Command::Agent(agent) => {
            match agent::config::Config::try_from(*agent).map_err(Into::into).and_then(run_agent) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => fail(&error, BAD_CONFIGURATION),
            }
        }
        Command::Crds => printed(std::io::stdout().lock().write_all(CRD.as_bytes())),
        Command::Check(check) => match start_check(check) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error, 1),
        },
    }
}

/// Returns memory after a burst, from its own thread. The C library's allocator keeps nearly all of it,
/// because long-lived allocations lie in between (docs/dev/decisions/0010-jemalloc.md).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Serves until a signal. Errors occur only at the start: a file, an address, the host's kubeconfig.
fn run(config: Config) -> anyhow::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(serve(config));
    // A lookup of a name may block one of its threads for long, and cannot be interrupted.
    runtime.shutdown_background();
    served
}

async fn serve(config: Config) -> anyhow::Result<()> {
    let log_level = log::start(config.log_format);
    tls::install_provider();
    raise_open_files();
    let shutdown = shutdown::on_signal()?;
    let workers = Workers::start().context("the threads that serve cannot be started")?;
    Bound::build(config, log_level).await?.run(workers, shutdown).await;
    Ok(())
}

/// Runs the agent until a signal. One thread is enough: it copies bytes, and encrypts them once.
#[tokio::main(flavor = "current_thread")]
async fn run_agent(config: agent::config::Config) -> anyhow::Result<()> {
    log::start(config.log_format);
    tls::install_provider();
    raise_open_files();
    agent::run(config, shutdown::on_signal()?).await
}

#[tokio::main(flavor = "current_thread")]
async fn start_check(options: Check) -> anyhow::Result<()> {
    tls::install_provider();
    check::run(options).await
}

/// If the pipe closes (`| head -1`), printing stops quietly.
fn printed(printed: io::Result<()>) -> ExitCode {
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => fail(&error.into(), 1),
    }
}

/// Raises the limit on open files to the hard limit, because each connection is a file.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(error = %error, "cannot raise the limit of open files");
    }
}

fn fail(error: &anyhow::Error, code: u8) -> ExitCode {
    // A failure to print cannot be reported.
    let _ = writeln!(std::io::stderr().lock(), "error: {error:#}");
    ExitCode::from(code)
}

/// EX_USAGE of sysexits.h
const BAD_CONFIGURATION: u8 = 64;
