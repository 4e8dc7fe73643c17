//! `mc-sidecar`: arguments, configuration, server, exit code.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use sidecar::app::Bound;
use sidecar::args::{Check, Cli, Command};
use sidecar::config::Config;
use sidecar::server::{shutdown, tls};
use sidecar::workers::Workers;
use sidecar::{check, crds, log};

fn main() -> ExitCode {
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(help) if !help.use_stderr() => return printed(help.print().map_err(Into::into)),
        Err(error) => {
            // Nobody is left to tell if this fails.
            let _ = error.print();
            return ExitCode::from(BAD_CONFIGURATION);
        }
    };
    match command {
        Command::Serve(serve) => match Config::try_from(*serve).map_err(Into::into).and_then(run) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error, BAD_CONFIGURATION),
        },
        Command::Crds => printed(crds::yaml().and_then(|yaml| {
            std::io::stdout().lock().write_all(yaml.as_bytes())?;
            Ok(())
        })),
        Command::Check(check) => printed(start_check(check)),
    }
}

/// Gives memory back after a burst, by a thread of its own: the C library's keeps nearly all of it, because what
/// lives longer lies in between (docs/dev/decisions/0010-jemalloc.md).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Serves until a signal. What fails, fails before: a file, an address, the host's kubeconfig.
#[tokio::main(flavor = "current_thread")]
async fn run(config: Config) -> anyhow::Result<()> {
    log::start(config.log_format);
    tls::install_provider();
    raise_open_files();
    let shutdown = shutdown::on_signal()?;
    let workers = Workers::start().context("the threads that serve cannot be started")?;
    Bound::build(config).await?.run(workers, shutdown).await;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn start_check(options: Check) -> anyhow::Result<()> {
    tls::install_provider();
    check::run(options).await
}

fn printed(printed: anyhow::Result<()>) -> ExitCode {
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error, 1),
    }
}

/// Connections are files: take as many as the machine grants.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(error = %error, "cannot raise the limit of open files");
    }
}

fn fail(error: &anyhow::Error, code: u8) -> ExitCode {
    // Nobody is left to tell if this fails.
    let _ = writeln!(std::io::stderr().lock(), "error: {error:#}");
    ExitCode::from(code)
}

/// EX_USAGE of sysexits.h
const BAD_CONFIGURATION: u8 = 64;
