//! What it costs the access controller to know who may use which member: the program that measures it
//! is built for release and prints its own table.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

pub(crate) fn measure(program: &Path) -> Result<()> {
    let output = Command::new(program).output();
    let output = output.with_context(|| {
        let build = "cargo build --release --package kubectl-mc-api --example access_cost";
        format!("cannot start {}, which this builds: {build}", program.display())
    })?;
    ensure!(output.status.success(), "{}: {output:?}", program.display());
    let table = String::from_utf8(output.stdout)?;
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "### Access: 1,000 members and 1,000 bindings\n\n{table}")?;
    Ok(stdout.flush()?)
}
