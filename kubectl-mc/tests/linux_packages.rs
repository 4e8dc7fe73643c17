//! Unpacks the packages of a release for Debian and for RPM, with the tools of these systems.
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Each architecture as in the names of files and in packages for Debian, and as in packages for RPM.
const ARCHITECTURES: [(&str, &str); 2] = [("amd64", "x86_64"), ("arm64", "aarch64")];
const FILES: [&str; 10] = [
    "usr/bin/kmc",
    "usr/bin/kubectl-mc",
    "usr/bin/kubectl_complete-mc",
    "usr/share/bash-completion/completions/kmc",
    "usr/share/bash-completion/completions/kubectl-mc",
    "usr/share/fish/vendor_completions.d/kmc.fish",
    "usr/share/fish/vendor_completions.d/kubectl-mc.fish",
    "usr/share/man/man1/kubectl-mc-clusters.1.gz",
    "usr/share/man/man1/kubectl-mc.1.gz",
    "LICENSE",
];

#[test]
#[ignore = "`make release-test` runs it on the files of `make release`"]
fn packages_of_a_release_contain_the_program_of_the_archive() -> Result<()> {
    for (architecture, _) in ARCHITECTURES {
        let expected = fs::read(unpacked(&file(architecture, "tar.gz")?)?.path().join("kubectl-mc"))?;
        for format in ["deb", "rpm"] {
            let package = file(architecture, format)?;
            let program = fs::read(unpacked(&package)?.path().join("usr/bin/kubectl-mc"))?;
            ensure!(program == expected, "{} has another program", package.display());
        }
    }
    Ok(())
}

#[test]
#[ignore = "`make release-test` runs it on the files of `make release`"]
fn packages_of_a_release_contain_pages_and_completions() -> Result<()> {
    let own = [
        ("deb", "usr/share/zsh/vendor-completions/_kubectl-mc", "usr/share/doc/kubectl-mc/copyright"),
        ("rpm", "usr/share/zsh/site-functions/_kubectl-mc", "usr/share/licenses/kubectl-mc/LICENSE"),
    ];
    for (architecture, _) in ARCHITECTURES {
        for (format, zsh, license) in own {
            let package = file(architecture, format)?;
            let root = unpacked(&package)?;
            for name in FILES.map(|name| if name == "LICENSE" { license } else { name }).iter().chain([&zsh])
            {
                let size = fs::metadata(root.path().join(name)).map_or(0, |found| found.len());
                ensure!(size > 0, "{} has no {name}", package.display());
            }
        }
    }
    Ok(())
}

#[test]
#[ignore = "`make release-test` runs it on the files of `make release`"]
fn packages_of_a_release_need_no_other_package() -> Result<()> {
    for (debian, rpm) in ARCHITECTURES {
        let deb = said(Command::new("dpkg-deb").arg("--info").arg(file(debian, "deb")?))?;
        for line in
            ["Package: kubectl-mc", &format!("Version: {VERSION}-1"), &format!("Architecture: {debian}")]
        {
            ensure!(deb.lines().any(|found| found.trim() == line), "no line {line:?} in:\n{deb}");
        }
        let needs = deb.lines().filter_map(|line| line.trim().strip_prefix("Depends:"));
        ensure!(needs.clone().all(|needs| needs.trim().is_empty()), "{deb}");

        let package = file(debian, "rpm")?;
        let query = |words: &[&str]| said(Command::new("rpm").arg("-qp").args(words).arg(&package));
        let name = query(&["--queryformat", "%{NAME} %{VERSION} %{ARCH}"])?;
        ensure!(name == format!("kubectl-mc {VERSION} {rpm}"), "{name}");
        let needs = query(&["--requires"])?;
        let others = needs.lines().filter(|need| *need != "/bin/sh" && !need.starts_with("rpmlib("));
        ensure!(others.count() == 0, "{needs}");
    }
    Ok(())
}

#[test]
#[ignore = "`make release-test` runs it on the files of `make release`"]
fn completion_of_a_package_of_a_release_answers() -> Result<()> {
    let architecture = if cfg!(target_arch = "x86_64") { "amd64" } else { "arm64" };
    for format in ["deb", "rpm"] {
        let root = unpacked(&file(architecture, format)?)?;
        let bin = root.path().join("usr/bin");
        let path = format!("{}:/usr/bin:/bin", bin.display());
        let answer = said(
            Command::new(bin.join("kubectl_complete-mc"))
                .args(["complet"])
                .env_clear()
                .env("PATH", path)
                .env("HOME", root.path()),
        )?;
        ensure!(answer.starts_with("completion"), "{format}: {answer}");
    }
    Ok(())
}

/// A file of the release.
fn file(architecture: &str, format: &str) -> Result<PathBuf> {
    let dist = std::env::var_os("RELEASE_DIST").context("RELEASE_DIST names no folder of a release")?;
    Ok(Path::new(&dist).join(format!("kubectl-mc_v{VERSION}_linux_{architecture}.{format}")))
}

fn unpacked(package: &Path) -> Result<TempDir> {
    let folder = tempfile::tempdir()?;
    let format = package.extension().and_then(|format| format.to_str());
    if format == Some("deb") {
        said(Command::new("dpkg-deb").arg("--extract").arg(package).arg(folder.path()))?;
        return Ok(folder);
    }
    let mut archive = package.to_owned();
    if format == Some("rpm") {
        archive = folder.path().join("archive.tgz");
        let mut convert = Command::new("rpm2archive");
        convert.arg("-").stdin(File::open(package)?).stdout(File::create(&archive)?).stderr(Stdio::inherit());
        ensure!(convert.status()?.success(), "rpm2archive cannot read {}", package.display());
    }
    said(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(folder.path()))?;
    Ok(folder)
}

/// The standard output of a program, which must succeed.
fn said(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}
