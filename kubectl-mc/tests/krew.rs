//! Checks the krew manifest and the archives of `krew/package.sh` against the rules of krew's
//! `internal/index/validation` and of the reviewers of its index.
#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../krew/package.sh");

/// Packs a stand-in for the plugin for each target and reads the manifest.
fn package(out: &Path, targets: &[&str]) -> Value {
    let binary = out.join("stand-in");
    fs::write(&binary, "not really the plugin").unwrap();
    for target in targets {
        let run = Command::new(SCRIPT).arg(target).arg(&binary).env("KREW_OUT", out).output().unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    }
    serde_saphyr::from_str(&fs::read_to_string(out.join("mc.yaml")).unwrap()).unwrap()
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_else(|| panic!("{pointer} is no text in {value}"))
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn manifest_follows_the_rules_of_krew() {
    let out = tempfile::tempdir().unwrap();
    let targets = ["x86_64-unknown-linux-gnu", "aarch64-apple-darwin", "x86_64-pc-windows-msvc"];
    let manifest = package(out.path(), &targets);
    assert!(!manifest.to_string().contains("${"), "something was not filled in: {manifest}");

    assert_eq!(text(&manifest, "/apiVersion"), "krew.googlecontainertools.github.com/v1alpha2");
    assert_eq!(text(&manifest, "/kind"), "Plugin");
    assert_eq!(text(&manifest, "/metadata/name"), "mc", "the file is named so");
    let version = text(&manifest, "/spec/version");
    assert_eq!(version, format!("v{}", env!("CARGO_PKG_VERSION")));
    let short = text(&manifest, "/spec/shortDescription");
    assert!(!short.contains('\n') && short.len() <= 50, "{short}");
    assert!(text(&manifest, "/spec/homepage").starts_with("https://"));
    assert!(!text(&manifest, "/spec/description").is_empty());

    let platforms = manifest.pointer("/spec/platforms").and_then(Value::as_array).unwrap();
    assert_eq!(platforms.len(), targets.len());
    let mut selected = BTreeSet::new();
    for platform in platforms {
        let labels = platform.pointer("/selector/matchLabels").unwrap();
        assert_eq!(keys(labels), BTreeSet::from(["os", "arch"]));
        let (os, arch) = (text(labels, "/os"), text(labels, "/arch"));
        assert!(selected.insert((os, arch)), "{os}/{arch} is there twice");

        let uri = text(platform, "/uri");
        let format = if os == "windows" { "zip" } else { "tar.gz" };
        assert!(
            uri.starts_with("https://")
                && uri.ends_with(&format!("/kubectl-mc_{version}_{os}_{arch}.{format}"))
        );
        let sum = text(platform, "/sha256");
        assert_eq!(sum.len(), 64);
        assert!(sum.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')), "{sum}");
        let archive = out.path().join(uri.rsplit('/').next().unwrap());
        assert_eq!(sum, sha256(&archive));

        let bin = text(platform, "/bin");
        assert_eq!(bin, if os == "windows" { "kubectl-mc.exe" } else { "kubectl-mc" });
        let files = platform["files"].as_array().unwrap();
        let extracted: Vec<_> = files.iter().map(|file| (text(file, "/from"), text(file, "/to"))).collect();
        assert_eq!(extracted, [(bin, "."), ("LICENSE", ".")]);
        let files = if os == "windows" { vec!["LICENSE", bin] } else { vec![bin, "LICENSE", "kmc"] };
        assert_eq!(contents(&archive), files);
    }
    assert_eq!(selected, BTreeSet::from([("linux", "amd64"), ("darwin", "arm64"), ("windows", "amd64")]));
}

#[test]
fn archive_has_kmc_as_a_file_that_runs_the_plugin() {
    let out = tempfile::tempdir().unwrap();
    let binary = out.path().join("stand-in");
    fs::write(&binary, "#!/bin/sh\nprintf '%s|' \"$0\" \"$@\"\n").unwrap();
    let archive =
        run(Command::new(SCRIPT).arg("x86_64-unknown-linux-musl").arg(&binary).env("KREW_OUT", out.path()));
    let archive = archive.lines().next().unwrap();
    // krew refuses anything but files and folders.
    let listed = run(Command::new("tar").arg("-tvzf").arg(archive));
    assert!(listed.lines().all(|line| line.starts_with('-')), "{listed}");

    let [folder, elsewhere] = ["folder of it", "elsewhere"].map(|name| out.path().join(name));
    for folder in [&folder, &elsewhere] {
        fs::create_dir(folder).unwrap();
    }
    run(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(&folder));
    let plugin = folder.join("kubectl-mc").display().to_string();
    let arguments = ["get", "a b", "", "$x"];
    let expected = format!("{plugin}|get|a b||$x|");
    assert_eq!(run(Command::new(folder.join("kmc")).args(arguments)), expected);
    // A link in another folder finds the plugin in PATH.
    std::os::unix::fs::symlink(folder.join("kmc"), elsewhere.join("kmc")).unwrap();
    let path = std::env::join_paths([&*folder, Path::new("/usr/bin"), Path::new("/bin")]).unwrap();
    assert_eq!(run(Command::new(elsewhere.join("kmc")).args(arguments).env("PATH", path)), expected);
}

/// The output of a program, which must succeed.
fn run(command: &mut Command) -> String {
    let run = command.output().unwrap();
    assert!(run.status.success(), "{command:?}: {}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

#[test]
fn same_binary_makes_the_same_archive() {
    for target in ["aarch64-unknown-linux-gnu", "x86_64-pc-windows-msvc"] {
        let sums = [(); 2].map(|()| {
            let out = tempfile::tempdir().unwrap();
            let manifest = package(out.path(), &[target]);
            text(&manifest, "/spec/platforms/0/sha256").to_owned()
        });
        assert_eq!(sums[0], sums[1], "{target}");
    }
}

#[test]
fn platform_unknown_to_krew_is_refused() {
    let out = tempfile::tempdir().unwrap();
    let run =
        Command::new(SCRIPT).arg("riscv64gc-unknown-freebsd").env("KREW_OUT", out.path()).output().unwrap();
    assert!(!run.status.success());
    assert!(
        String::from_utf8_lossy(&run.stderr).contains("krew has no platform for riscv64gc-unknown-freebsd")
    );
}

#[test]
fn release_notes_are_the_changelogs_section() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("krew")).unwrap();
    let script = folder.path().join("krew/notes.sh");
    // bash reads the copy: executing a file that this process has just written may fail (`harness::script`).
    fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/../krew/notes.sh"), &script).unwrap();
    let changelog = "# Changelog\n\n## [Unreleased]\n\n- new\n\n## [1.2.0] - 2026-01-01\n\n- this\n\n## [1.1.0]\n\n- old\n\n[1.2.0]: u\n";
    fs::write(folder.path().join("CHANGELOG.md"), changelog).unwrap();
    for (version, notes) in [("1.2.0", "- this"), ("1.1.0", "- old"), ("1.3.0", "- new")] {
        let run = Command::new("bash").arg(&script).arg(version).output().unwrap();
        let told = String::from_utf8(run.stdout).unwrap();
        assert_eq!(told.trim_end(), format!("# kubectl-mc {version}\n\n{notes}"));
    }
}

fn sha256(path: &PathBuf) -> String {
    let sum = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &fs::read(path).unwrap());
    sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn contents(archive: &PathBuf) -> Vec<String> {
    if archive.extension().is_some_and(|format| format == "zip") {
        let script = "import sys, zipfile; print(*zipfile.ZipFile(sys.argv[1]).namelist(), sep='\\n')";
        return run(Command::new("python3").args(["-c", script]).arg(archive))
            .lines()
            .map(str::to_owned)
            .collect();
    }
    run(Command::new("tar").arg("-tzf").arg(archive)).lines().map(str::to_owned).collect()
}
