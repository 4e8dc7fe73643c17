//! `testbed`: brings a real Kubernetes up for a command, and takes it down whatever happens.

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

/// No command ends with this by itself: what failed is the bed.
const FAILED: u8 = 125;
