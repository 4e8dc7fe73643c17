//! Tests `kubectl mc completion install`, which installs the program that kubectl runs to complete the
//! plugin.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use super::{bed, put_in_path};
use crate::bed::{Bed, Ran};

const NAME: &str = "bin/kubectl_complete-mc";

/// Runs the plugin with only the bed's folder in `PATH`.
fn run(bed: &Bed, words: &[&str]) -> Ran {
    let mut command = bed.command(words);
    command.env("PATH", bed.path("bin")).env("SHELL", "/bin/zsh").output().unwrap().into()
}

#[test]
fn completion_is_installed_beside_the_plugin_once() {
    let bed = bed();
    put_in_path(&bed);
    let file = bed.path(NAME).display().to_string();
    let dry = run(&bed, &["completion", "install", "--dry-run"]);
    assert_eq!(dry, Ran::new(0, &format!("{file} would be installed (dry run)\n"), ""));
    assert!(!bed.path(NAME).exists());

    let hint = "hint: kubectl's own completion must be on; in ~/.zshrc, after compinit: source <(kubectl completion zsh)\n";
    let installed = run(&bed, &["completion", "install"]);
    assert_eq!(installed, Ran::new(0, &format!("{file} installed\n"), hint));
    let hint = "hint: kubectl's own completion must be on; in ~/.config/fish/config.fish: kubectl completion fish | source\n";
    let again = run(&bed, &["completion", "install", "fish"]);
    assert_eq!(again, Ran::new(0, &format!("{file} is installed\n"), hint));

    // The plugin acts as the completion program because of the name by which it is called.
    let answer = Command::new(bed.path(NAME))
        .args(["use", "us"])
        .env_clear()
        .env("HOME", bed.path("home"))
        .env("KUBECONFIG", bed.path("kubeconfig"))
        .output()
        .unwrap();
    assert_eq!(Ran::from(answer), Ran::new(0, "us-1\n:4\n", ""));
    // The link is relative, so it points to the new plugin after an update.
    assert_eq!(fs::read_link(bed.path(NAME)).unwrap().to_str(), Some("kubectl-mc"));

    let dry = run(&bed, &["completion", "uninstall", "--dry-run"]);
    assert_eq!(dry, Ran::new(0, &format!("{file} would be removed (dry run)\n"), ""));
    let removed = run(&bed, &["completion", "uninstall"]);
    assert_eq!(removed, Ran::new(0, &format!("{file} removed\n"), ""));
    assert!(bed.path(NAME).symlink_metadata().is_err());
    let again = run(&bed, &["completion", "uninstall"]);
    assert_eq!(again, Ran::new(0, "kubectl_complete-mc is not installed\n", ""));
}

#[test]
fn foreign_file_is_kept() {
    let bed = bed();
    put_in_path(&bed);
    bed.script(NAME, "#!/bin/sh\n");
    let ran = run(&bed, &["completion", "install"]);
    let (code, said) = ran.failed();
    assert!(code == 1 && said.contains("was not installed by kubectl-mc"), "{said}");
    assert_eq!(run(&bed, &["completion", "uninstall"]).out, "kubectl_complete-mc is not installed\n");
    assert_eq!(bed.read(NAME), "#!/bin/sh\n");
}

#[test]
fn script_of_a_package_is_installed() {
    let bed = bed();
    put_in_path(&bed);
    bed.script(NAME, include_str!("../../../../krew/kubectl_complete-mc"));
    let ran = run(&bed, &["completion", "install", "fish"]);
    assert_eq!((ran.code, ran.out), (Some(0), format!("{} is installed\n", bed.path(NAME).display())));
}

#[test]
fn link_to_a_plugin_elsewhere_names_its_path() {
    let bed = bed();
    // The program is started by a path that is not in PATH.
    assert_eq!(run(&bed, &["completion", "install"]).code, Some(0));
    assert_eq!(fs::read_link(bed.path(NAME)).unwrap().to_str(), Some(env!("CARGO_BIN_EXE_kubectl-mc")));
    // The plugin removes its link even if the link is broken.
    fs::remove_file(bed.path(NAME)).unwrap();
    symlink("gone/kubectl-mc", bed.path(NAME)).unwrap();
    assert_eq!(
        run(&bed, &["completion", "uninstall"]).out,
        format!("{} removed\n", bed.path(NAME).display())
    );
}

#[test]
fn path_without_a_folder_is_an_error() {
    let bed = bed();
    let ran = bed.run_with("PATH", bed.path("nowhere"), &["completion", "install"]);
    let (code, said) = ran.failed();
    assert!(code == 1 && said.contains("hint: add a folder of your own to PATH"), "{said}");
}
