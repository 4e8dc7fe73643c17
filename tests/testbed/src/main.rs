//! `testbed`: starts a real Kubernetes for a command, and takes it down whatever happens.

mod cli;
mod commands;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match commands::run(cli::Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "testbed: error: {error:#}");
            ExitCode::from(FAILED)
        }
    }
}

/// No command returns this itself, so it means that the bed failed.
const FAILED: u8 = 125;
