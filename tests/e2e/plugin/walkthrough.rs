//! `docs/tutorials/walkthrough.md` works as written: its commands run unchanged, and their output matches the
//! page.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use harness::bed::{bed, member};

#[test]
fn every_command_of_the_page_prints_the_shown_output() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the package is in a workspace")?;
    let Page { commands, shown } =
        Page::parse(&std::fs::read_to_string(root.join("docs/tutorials/walkthrough.md"))?);
    ensure!(!commands.is_empty() && !shown.is_empty(), "the page has no commands or shows nothing");
    let home = tempfile::tempdir()?;
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &commands])
        .current_dir(root)
        .env("HOME", home.path())
        .env("HOST", &bed()?.host.kubeconfig)
        .env("MEMBER", &member("m2")?.kubeconfig)
        .env("PATH", path()?)
        .env_remove("KUBECONFIG")
        .output()?;
    let printed = String::from_utf8(output.stdout)? + &String::from_utf8(output.stderr)?;
    ensure!(output.status.success(), "{}:\n{printed}", output.status);
    for line in shown {
        ensure!(printed.contains(&line), "the page shows {line:?}, but this was printed:\n{printed}");
    }
    Ok(())
}

/// The commands of the page, and the lines of output that it shows.
#[derive(Default)]
struct Page {
    commands: String,
    shown: Vec<String>,
}

impl Page {
    fn parse(markdown: &str) -> Self {
        let mut page = Self::default();
        let mut block = None;
        for line in markdown.lines() {
            match (block, line) {
                (None, _) => block = line.strip_prefix("```"),
                (Some(_), "```") => block = None,
                (Some("sh"), _) => page.commands.extend([line, "\n"]),
                // The reader sets the values before the first command.
                (Some(_), _) if page.commands.is_empty() => {}
                (Some(_), _) => page.shown.push(line.to_owned()),
            }
        }
        page
    }
}

fn path() -> Result<std::ffi::OsString> {
    let plugin = Path::new(env!("CARGO_BIN_EXE_kubectl-mc")).parent().context("the plugin is in a folder")?;
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = [plugin.to_owned(), bed()?.bin.clone()]
        .into_iter()
        .chain(std::env::split_paths(&inherited))
        .collect();
    Ok(std::env::join_paths(folders)?)
}
