//! Writes scripts that the tested programs run. A separate process writes them: if the test's
//! process had the file open for writing, a program that another test starts at that moment would
//! inherit the open file, and running the script would fail with `ETXTBSY`, "Text file busy"
//! (execve(2)).

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Writes an executable file, and creates its folder if there is none.
pub fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::create_dir_all(path.parent().context("no folder")?)?;
    let mut writer = Command::new("sh")
        .args(["-c", "cat >\"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()?;
    writer.stdin.take().context("no standard input")?.write_all(text.as_bytes())?;
    ensure!(writer.wait()?.success(), "{} could not be written", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_runs_while_other_programs_are_started() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let at_once = |number: usize| -> Result<()> {
            for round in 0..200 {
                let path = folder.path().join(format!("{number}/{round}"));
                write(&path, "#!/bin/sh\necho it runs\n")?;
                ensure!(Command::new(&path).output()?.stdout == b"it runs\n");
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let all = [0, 1, 2, 3, 4, 5, 6, 7].map(|number| scope.spawn(move || at_once(number)));
            all.into_iter()
                .try_for_each(|one| one.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?)
        })
    }
}
