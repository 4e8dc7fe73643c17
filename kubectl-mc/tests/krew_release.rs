//! Runs the scripts that a release adds to `make release`: `krew/merge.sh` on stand-ins for the programs of all
//! platforms, and `krew/publish.sh` with stand-ins for the programs that push and sign.
#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const DESKTOPS: [(&str, &str); 3] = [
    ("aarch64-apple-darwin", "kubectl-mc"),
    ("x86_64-apple-darwin", "kubectl-mc"),
    ("x86_64-pc-windows-msvc", "kubectl-mc.exe"),
];

#[test]
fn merged_release_has_every_platform() {
    let release = Release::new();
    release.merge().unwrap();
    let manifest = release.read("mc.yaml");
    let sums = release.read("SHA256SUMS");
    for platform in ["darwin_amd64", "darwin_arm64", "linux_amd64", "linux_arm64", "windows_amd64"] {
        let archive = format!("kubectl-mc_v{VERSION}_{platform}.{}", format_of(platform));
        assert!(manifest.contains(&archive) && sums.contains(&archive), "{archive}:\n{manifest}\n{sums}");
    }
    let components = release.read(&format!("kubectl-mc_v{VERSION}_windows_amd64.cdx.json"));
    assert!(components.contains("windows-sys") && !components.contains("pkg:deb/"), "{components}");
    assert!(sums.contains(&format!("kubectl-mc_v{VERSION}_darwin_arm64.cdx.json")), "{sums}");
    // The folder contains nothing else, so each file has a checksum.
    run(Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(release.dist()))
        .unwrap();
    assert_eq!(sums.lines().count() + 1, fs::read_dir(release.dist()).unwrap().count(), "{sums}");
}

#[test]
fn package_managers_get_the_archives_of_the_release() {
    let release = Release::new();
    release.merge().unwrap();
    let url = format!("https://github.com/kubectl-mc/kubectl-mc/releases/download/v{VERSION}");
    let sums = release.read("SHA256SUMS");
    let sum =
        |archive: &str| sums.lines().find_map(|line| line.strip_suffix(&format!("  {archive}"))).unwrap();

    let formula = release.read("kubectl-mc.rb");
    for platform in ["darwin_amd64", "darwin_arm64", "linux_amd64", "linux_arm64"] {
        let archive = format!("kubectl-mc_v{VERSION}_{platform}.tar.gz");
        let lines = format!("      url \"{url}/{archive}\"\n      sha256 \"{}\"\n", sum(&archive));
        assert!(formula.contains(&lines), "{lines}{formula}");
    }
    let archive = format!("kubectl-mc_v{VERSION}_windows_amd64.zip");
    let scoop: serde_json::Value = serde_json::from_str(&release.read("kubectl-mc.json")).unwrap();
    let expected = serde_json::json!({"64bit": {"url": format!("{url}/{archive}"), "hash": sum(&archive)}});
    assert_eq!((&scoop["architecture"], &scoop["version"]), (&expected, &VERSION.into()), "{scoop}");

    let winget: serde_json::Value =
        serde_saphyr::from_str(&release.read("kubectl-mc.winget.installer.yaml")).unwrap();
    let expected = serde_json::json!([{
        "Architecture": "x64",
        "InstallerUrl": format!("{url}/{archive}"),
        "InstallerSha256": sum(&archive).to_uppercase(),
    }]);
    assert_eq!((&winget["Installers"], &winget["PackageVersion"]), (&expected, &VERSION.into()), "{winget}");
}

#[test]
fn changed_file_of_a_release_is_not_merged() {
    let release = Release::new();
    fs::write(release.dist().join(format!("kubectl-mc_v{VERSION}_linux_amd64.tar.gz")), "changed").unwrap();
    let said = release.merge().unwrap_err();
    assert!(said.contains("linux_amd64.tar.gz: FAILED"), "{said}");
}

#[test]
fn everything_that_is_published_is_signed() {
    let release = Release::new();
    release.merge().unwrap();
    let image = r#"{"manifests": [{"digest": "sha256:image"}]}"#;
    fs::write(release.path("index.json"), image).unwrap();
    let archive = release.dist().join(format!("mc-sidecar_v{VERSION}_image.tar"));
    run(Command::new("tar").arg("-cf").arg(&archive).arg("-C").arg(release.path("")).arg("./index.json"))
        .unwrap();
    for architecture in ["amd64", "arm64"] {
        fs::write(release.dist().join(format!("mc-sidecar_v{VERSION}_linux_{architecture}.cdx.json")), "{}")
            .unwrap();
    }
    let (outputs, log) = release.publish("Digest: sha256:chart").unwrap();
    let expected = "image=ghcr.io/o/mc-sidecar\nimage-digest=sha256:image\n\
                    mc-sidecar=ghcr.io/o/charts/mc-sidecar\nmc-sidecar-digest=sha256:chart\n\
                    mc-agent=ghcr.io/o/charts/mc-agent\nmc-agent-digest=sha256:chart\n";
    assert_eq!(outputs, expected);

    let count = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    assert_eq!(
        count(&format!("skopeo copy --all --preserve-digests oci-archive:{}", archive.display())),
        1,
        "{log}"
    );
    for name in ["mc-sidecar@sha256:image", "charts/mc-sidecar@sha256:chart", "charts/mc-agent@sha256:chart"]
    {
        assert_eq!(count(&format!("cosign sign --yes ghcr.io/o/{name}")), 1, "{name}:\n{log}");
        let attested = |line: &&str| line.starts_with("cosign attest --") && line.ends_with(name);
        assert_eq!(log.lines().filter(attested).count(), 2, "{name} has not two SBOMs:\n{log}");
    }
    for file in fs::read_dir(release.dist()).unwrap() {
        let file = file.unwrap().path();
        let signed = |line: &&str| {
            line.starts_with("cosign sign-blob --yes ") && line.ends_with(&format!(" {}", file.display()))
        };
        assert_eq!(log.lines().filter(signed).count(), 1, "{} is not signed:\n{log}", file.display());
    }
    let desktops = DESKTOPS.map(|(target, _)| {
        let (arch, os) = platform(target);
        format!("{os}_{arch}.{}", format_of(os))
    });
    let linux = ["linux_amd64.tar.gz", "linux_amd64.deb", "linux_arm64.deb"].map(str::to_owned);
    for archive in desktops.into_iter().chain(linux) {
        let archive = format!("/kubectl-mc_v{VERSION}_{archive}");
        let attested = |line: &&str| line.starts_with("cosign attest-blob ") && line.ends_with(&archive);
        assert_eq!(log.lines().filter(attested).count(), 1, "{archive} has no SBOM:\n{log}");
    }
}

#[test]
fn chart_without_a_digest_stops_the_publication() {
    let release = Release::new();
    let archive = release.dist().join(format!("mc-sidecar_v{VERSION}_image.tar"));
    fs::write(release.path("index.json"), r#"{"manifests": [{"digest": "sha256:image"}]}"#).unwrap();
    run(Command::new("tar").arg("-cf").arg(&archive).arg("-C").arg(release.path("")).arg("./index.json"))
        .unwrap();
    let said = release.publish("Pushed: somewhere").unwrap_err();
    assert!(said.contains("helm has named no digest of mc-sidecar"), "{said}");
}

/// A folder with the files of `make release` that the scripts read, made of stand-ins for the programs.
struct Release(tempfile::TempDir);

impl Release {
    fn new() -> Self {
        let release = Self(tempfile::tempdir().unwrap());
        fs::create_dir(release.dist()).unwrap();
        fs::write(release.path("stand-in"), "not really the plugin").unwrap();
        for target in ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"] {
            let mut package = script("package.sh");
            package.arg(target).arg(release.path("stand-in")).env("KREW_OUT", release.dist());
            run(&mut package).unwrap();
            let (arch, os) = platform(target);
            let archive = release.dist().join(format!("kubectl-mc_v{VERSION}_{os}_{arch}"));
            fs::remove_file(
                archive.with_file_name(format!("kubectl-mc_v{VERSION}_{os}_{arch}.tar.gz.sha256")),
            )
            .unwrap();
            fs::write(format!("{}.cdx.json", archive.display()), "{}").unwrap();
            fs::write(format!("{}.deb", archive.display()), "not really a package").unwrap();
        }
        run(script("sums.sh").arg(release.dist())).unwrap();
        for (target, program) in DESKTOPS {
            let folder = release.path("programs").join(format!("program-{target}"));
            fs::create_dir_all(&folder).unwrap();
            fs::copy(release.path("stand-in"), folder.join(program)).unwrap();
        }
        release
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn dist(&self) -> PathBuf {
        self.path("dist")
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.dist().join(name)).unwrap()
    }

    fn merge(&self) -> Result<String, String> {
        run(script("merge.sh").arg(self.dist()).arg(self.path("programs")))
    }

    /// Publishes with programs that only record their calls; returns the outputs and the calls.
    fn publish(&self, answer_of_helm: &str) -> Result<(String, String), String> {
        let (bin, log) = (self.path("bin"), self.path("log"));
        fs::create_dir(&bin).unwrap();
        for program in ["cosign", "skopeo", "helm"] {
            let text = format!(
                "#!/bin/sh\necho {program} \"$@\" >>'{}'\n[ {program} != helm ] || echo '{answer_of_helm}' >&2\n",
                log.display()
            );
            let file = bin.join(program);
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let mut publish = script("publish.sh");
        publish.arg(self.dist()).arg("ghcr.io/o").arg(self.path("signatures")).env("PATH", path);
        let outputs = run(&mut publish)?;
        Ok((outputs, fs::read_to_string(log).unwrap()))
    }
}

/// The names of a target in the archive's name.
fn platform(target: &str) -> (&str, &str) {
    let arch = if target.starts_with("x86_64-") { "amd64" } else { "arm64" };
    let os = ["linux", "darwin", "windows"].into_iter().find(|os| target.contains(os));
    (arch, os.unwrap_or_else(|| panic!("{target} is of no known system")))
}

fn format_of(platform: &str) -> &'static str {
    if platform.starts_with("windows") { "zip" } else { "tar.gz" }
}

fn script(name: &str) -> Command {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../krew").join(name))
}

/// The standard output of a program, or all output of a failed one.
fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().unwrap();
    if output.status.success() {
        return Ok(String::from_utf8(output.stdout).unwrap());
    }
    Err(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}
