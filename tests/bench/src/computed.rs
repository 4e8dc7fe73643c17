//! Runs a program that measures a computation without a cluster. It is built for release and prints its own
//! table.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

pub(crate) fn measure(title: &str, program: &Path) -> Result<()> {
    let output = Command::new(program).output();
    let output = output.with_context(|| {
        let build = "cargo build --release --package kubectl-mc-api --examples";
        format!("cannot start {}, which this builds: {build}", program.display())
    })?;
    ensure!(output.status.success(), "{}: {output:?}", program.display());
    let table = String::from_utf8(output.stdout)?;
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "### {title}\n\n{table}")?;
    Ok(stdout.flush()?)
}
