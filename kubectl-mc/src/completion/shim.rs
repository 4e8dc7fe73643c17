//! Installs `kubectl_complete-mc`, the program that kubectl runs to complete `kubectl mc`. It is a
//! link to this program, next to it, so an update of the plugin also updates the completion.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::cli::{Shell, ShimArgs};
use crate::env::{self, Env};
use crate::error::{Context, Failure, mc};
use crate::printer::Printer;

/// The name that kubectl looks for in `PATH`.
pub(super) const NAME: &str = "kubectl_complete-mc";

/// Installs the link next to the plugin, or else in the first writable folder of `PATH`.
pub(crate) fn install(arguments: &ShimArgs, env: &Env, printer: &Printer) -> Result<(), Failure> {
    let plugin = plugin(env)?;
    let installed: Vec<_> = in_path(env).collect();
    if let Some(first) = installed.first() {
        if !is_ours(first) {
            return Err(Failure::new(format!("{} was not installed by kubectl-mc", first.display()))
                .with_hint(mc("completion install").after("remove it, then run")));
        }
        printer.out_line(&format!("{} is installed", first.display()));
        next_step(arguments, env, printer);
        return Ok(());
    }
    let beside =
        plugin.parent().map(Path::to_owned).filter(|folder| folders(env).any(|other| other == *folder));
    let candidates: Vec<_> = beside.into_iter().chain(folders(env)).collect();
    let mut failure = None;
    for folder in &candidates {
        let file = folder.join(FILE);
        if arguments.dry_run {
            if is_writable(folder) {
                printer.out_line(&format!("{} would be installed (dry run)", file.display()));
                return Ok(());
            }
            continue;
        }
        match write(&file, &plugin) {
            Ok(()) => {
                printer.out_line(&format!("{} installed", file.display()));
                next_step(arguments, env, printer);
                return Ok(());
            }
            Err(error) => {
                let text = format!("cannot write {}", file.display());
                failure.get_or_insert_with(|| Failure::new(text).because(&error));
            }
        }
    }
    let failure = failure.unwrap_or_else(|| Failure::new("PATH has no folder that can be written"));
    Err(failure
        .with_hint("add a folder of your own to PATH, as in PATH=$HOME/.local/bin:$PATH, and try again"))
}

/// Removes the link from every folder of `PATH`.
pub(crate) fn uninstall(dry_run: bool, env: &Env, printer: &Printer) -> Result<(), Failure> {
    let ours: Vec<_> = in_path(env).filter(|file| is_ours(file)).collect();
    if ours.is_empty() {
        printer.out_line(&format!("{NAME} is not installed"));
    }
    for file in ours {
        if dry_run {
            printer.out_line(&format!("{} would be removed (dry run)", file.display()));
            continue;
        }
        fs::remove_file(&file).context(|| format!("cannot remove {}", file.display()))?;
        printer.out_line(&format!("{} removed", file.display()));
    }
    Ok(())
}

/// Prints how to enable kubectl's own completion, without which kubectl does not run the link.
fn next_step(arguments: &ShimArgs, env: &Env, printer: &Printer) {
    let name = env.var(env::SHELL).map(Path::new).and_then(Path::file_name).and_then(OsStr::to_str);
    let of_user = name.and_then(|name| <Shell as clap::ValueEnum>::from_str(name, true).ok());
    let (place, line) = match arguments.shell.or(of_user) {
        Some(Shell::Bash) => ("~/.bashrc, after bash-completion", "source <(kubectl completion bash)"),
        Some(Shell::Zsh) => ("~/.zshrc, after compinit", "source <(kubectl completion zsh)"),
        Some(Shell::Fish) => ("~/.config/fish/config.fish", "kubectl completion fish | source"),
        Some(Shell::Powershell) => {
            ("$PROFILE", "kubectl completion powershell | Out-String | Invoke-Expression")
        }
        None => {
            printer.note_line(
                "hint: kubectl's own completion must be on; `kubectl completion --help` shows how",
            );
            return;
        }
    };
    printer.note_line(&format!("hint: kubectl's own completion must be on; in {place}: {line}"));
}

/// The path at which kubectl finds the plugin, so that a link survives an update, or else this program.
fn plugin(env: &Env) -> Result<PathBuf, Failure> {
    let program = std::env::current_exe().context(|| "cannot find this program")?;
    let real = program.canonicalize().unwrap_or_else(|_| program.clone());
    let names = [format!("kubectl-mc{}", std::env::consts::EXE_SUFFIX)];
    let mut found =
        folders(env).flat_map(|folder| names.iter().map(move |name| folder.join(name)).collect::<Vec<_>>());
    Ok(found.find(|path| path.canonicalize().is_ok_and(|path| path == real)).unwrap_or(program))
}

/// The absolute folders of `PATH`.
fn folders(env: &Env) -> impl Iterator<Item = PathBuf> {
    let path = env.var(env::PATH).unwrap_or_default().to_owned();
    let folders: Vec<_> = std::env::split_paths(&path).filter(|folder| folder.is_absolute()).collect();
    folders.into_iter()
}

/// Every file of that name in `PATH`, including broken links.
fn in_path(env: &Env) -> impl Iterator<Item = PathBuf> {
    folders(env).map(|folder| folder.join(FILE)).filter(|file| file.symlink_metadata().is_ok())
}

/// Creates a link to the plugin. The link is relative within a folder, so that the folder may move.
#[cfg(unix)]
fn write(file: &Path, plugin: &Path) -> io::Result<()> {
    let is_beside = file.parent() == plugin.parent();
    let target = if is_beside { plugin.file_name().map_or(plugin, Path::new) } else { plugin };
    std::os::unix::fs::symlink(target, file)
}

/// Whether the file is a link to the plugin, or the script of a package.
#[cfg(unix)]
fn is_ours(file: &Path) -> bool {
    match fs::read_link(file) {
        Ok(target) => target.file_name() == Some(OsStr::new("kubectl-mc")),
        Err(_) => is_script(file),
    }
}

fn is_script(file: &Path) -> bool {
    fs::read_to_string(file)
        .is_ok_and(|text| text.contains("kubectl-mc") && text.contains(super::answer::VERB))
}

#[cfg(unix)]
fn is_writable(folder: &Path) -> bool {
    folder.is_dir() && rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok()
}

/// On other systems, a link needs special rights, so this is a script.
#[cfg(not(unix))]
fn write(file: &Path, plugin: &Path) -> io::Result<()> {
    fs::write(file, format!("@\"{}\" {} %*\r\n", plugin.display(), super::answer::VERB))
}

#[cfg(not(unix))]
fn is_ours(file: &Path) -> bool {
    is_script(file)
}

#[cfg(not(unix))]
fn is_writable(folder: &Path) -> bool {
    folder.is_dir()
}

#[cfg(windows)]
const FILE: &str = "kubectl_complete-mc.cmd";
#[cfg(not(windows))]
const FILE: &str = NAME;
