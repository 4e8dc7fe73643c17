//! Installs the plugin with krew itself: with its validator and its `install`, both built from its
//! Go module, with an index in a folder and archives from a local server.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, ensure};

/// A folder with krew, an index with one release, and a server for its archives.
struct Krew {
    folder: tempfile::TempDir,
    validator: PathBuf,
    url: String,
}

impl Krew {
    fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let [krew, validator, kubectl] = testbed::programs::build_krew()?;
        for made in ["bin", "home", "krew", "dist"] {
            fs::create_dir(folder.path().join(made))?;
        }
        symlink(krew, folder.path().join("bin/kubectl-krew"))?;
        symlink(kubectl, folder.path().join("bin/kubectl"))?;
        let url = serve(folder.path().join("dist"))?;
        Ok(Self { folder, validator, url })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A program with its own environment: kubectl, krew and the plugins that krew installed are in
    /// its `PATH`.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        let path = [self.path("krew/bin"), self.path("bin"), "/usr/bin".into(), "/bin".into()];
        command
            .env_clear()
            .env("PATH", std::env::join_paths(path).unwrap_or_default())
            .env("HOME", self.path("home"))
            .env("KREW_ROOT", self.path("krew"))
            // The check would send a request to the Internet.
            .env("KREW_NO_UPGRADE_CHECK", "1")
            .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_NAME"), "t")))
            .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_EMAIL"), "t@example.com")));
        command
    }

    fn kubectl(&self, words: &[&str]) -> Result<String> {
        succeed(self.command(self.path("bin/kubectl")).args(words))
    }

    /// Packs `program` for a rustc target.
    fn package(&self, target: &str, program: &Path) -> Result<()> {
        let mut script = Command::new(script("package.sh"));
        script.arg(target).arg(program).env("KREW_OUT", self.path("dist")).env("RELEASE_URL", &self.url);
        succeed(&mut script).map(drop)
    }

    fn publish(&self) -> Result<()> {
        let index = self.path("index");
        succeed(self.command(script("index.sh")).arg(self.path("dist/mc.yaml")).arg(&index)).map(drop)
    }

    /// Runs the installation commands of README.md, then the plugin and its completion.
    fn install_from_the_index(&self) -> Result<()> {
        let index = format!("file://{}", self.path("index").display());
        self.kubectl(&["krew", "index", "add", "kubectl-mc", &index])?;
        let told = self.kubectl(&["krew", "install", "kubectl-mc/mc"])?;
        ensure!(
            told.contains("kubectl mc clusters") && told.contains("kubectl mc completion install"),
            "{told}"
        );
        ensure!(self.kubectl(&["mc", "version", "--client"])?.contains(env!("CARGO_PKG_VERSION")));
        self.kubectl(&["mc", "completion", "install"])?;
        let completed = self.kubectl(&["__complete", "mc", "doct"])?;
        ensure!(completed.contains("doctor"), "{completed}");
        Ok(())
    }
}

#[test]
fn krew_validator_installs_every_platform() -> Result<()> {
    let krew = Krew::new()?;
    let stand_in = krew.path("stand-in");
    fs::write(&stand_in, "not really the plugin")?;
    let targets = [
        "x86_64-unknown-linux-musl",
        "aarch64-unknown-linux-musl",
        "x86_64-apple-darwin",
        "aarch64-apple-darwin",
        "x86_64-pc-windows-msvc",
        "aarch64-pc-windows-msvc",
    ];
    for target in targets {
        krew.package(target, &stand_in)?;
    }
    let said = succeed(krew.command(&krew.validator).arg("-manifest").arg(krew.path("dist/mc.yaml")))?;
    ensure!(said.contains("all 6 spec.platforms installed fine"), "{said}");
    Ok(())
}

#[test]
fn krew_installs_upgrades_and_removes_the_plugin() -> Result<()> {
    let krew = Krew::new()?;
    let target = if cfg!(target_os = "macos") { "apple-darwin" } else { "unknown-linux-musl" };
    let program = krew.path("program");
    fs::copy(env!("CARGO_BIN_EXE_kubectl-mc"), &program)?;
    // Packing debug information takes a long time.
    succeed(Command::new("strip").arg(&program))?;
    krew.package(&format!("{}-{target}", std::env::consts::ARCH), &program)?;
    krew.publish()?;
    krew.install_from_the_index()?;
    let installed = krew.path(concat!("krew/store/mc/v", env!("CARGO_PKG_VERSION")));
    ensure!(names(&installed)? == ["LICENSE", "kubectl-mc"], "{:?}", names(&installed));
    // Another program finds this installation through the receipt that krew wrote. Without a
    // kubeconfig it fails.
    let found = krew.command(env!("CARGO_BIN_EXE_kubectl-mc")).arg("doctor").output()?;
    let found = String::from_utf8_lossy(&found.stdout).into_owned();
    let named = concat!("this plugin v", env!("CARGO_PKG_VERSION"), " of krew's index \"kubectl-mc\"");
    ensure!(found.contains(named) && found.contains("fix: kubectl krew uninstall mc\n"), "{found}");

    // The next release, whose archive is the same.
    let manifest = krew.path("dist/mc.yaml");
    let next = fs::read_to_string(&manifest)?
        .replace(concat!("version: v", env!("CARGO_PKG_VERSION")), "version: v999.0.0");
    fs::write(&manifest, next)?;
    krew.publish()?;
    let completes = || krew.kubectl(&["__complete", "mc", "doct"]);
    let told = krew.kubectl(&["krew", "upgrade", "mc"])?;
    ensure!(
        fs::read_link(krew.path("krew/bin/kubectl-mc"))?.to_string_lossy().contains("v999.0.0"),
        "{told}"
    );
    ensure!(completes()?.contains("doctor"), "{}", completes()?);

    krew.kubectl(&["mc", "completion", "uninstall"])?;
    krew.kubectl(&["krew", "uninstall", "mc"])?;
    let left = names(&krew.path("krew/bin"))?;
    ensure!(left.is_empty(), "{left:?}");
    Ok(())
}

#[test]
#[ignore = "`make release-test` runs it on the files of `make release`"]
fn krew_installs_the_archives_of_a_release() -> Result<()> {
    let dist = std::env::var_os("RELEASE_DIST").context("RELEASE_DIST names no folder of a release")?;
    let dist = Path::new(&dist);
    let krew = Krew::new()?;
    succeed(Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(dist))?;
    let sums = fs::read_to_string(dist.join("SHA256SUMS"))?;
    let manifest = fs::read_to_string(dist.join("mc.yaml"))?;
    let value: serde_json::Value = serde_saphyr::from_str(&manifest)?;
    let platforms = value.pointer("/spec/platforms").and_then(serde_json::Value::as_array);
    let platforms = platforms.context("the manifest has no platforms")?;
    let mut published = None;
    for platform in platforms {
        let text = |key: &str| platform[key].as_str().with_context(|| format!("{key} of {platform}"));
        let (folder, name) = text("uri")?.rsplit_once('/').context("a URI without a path")?;
        // The manifest and SHA256SUMS must have the same checksum of each archive.
        let line = format!("{}  {name}\n", text("sha256")?);
        ensure!(sums.contains(&line), "{name} of mc.yaml is not that of SHA256SUMS:\n{sums}");
        fs::copy(dist.join(name), krew.path("dist").join(name))?;
        ensure!(*published.get_or_insert(folder) == folder, "the archives are in several places");
    }
    // The archives stay as they are; only the URL from which they are fetched changes.
    let manifest = manifest.replace(published.context("no archive")?, &krew.url);
    fs::write(krew.path("dist/mc.yaml"), manifest)?;
    let said = succeed(krew.command(&krew.validator).arg("-manifest").arg(krew.path("dist/mc.yaml")))?;
    ensure!(said.contains(&format!("all {} spec.platforms installed fine", platforms.len())), "{said}");
    krew.publish()?;
    krew.install_from_the_index()
}

/// The names of the files in a folder, sorted.
fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = entries.collect::<Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../krew").join(name)
}

/// The output of a program, which must succeed.
fn succeed(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    ensure!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    Ok(said)
}

/// Serves the files of a folder to krew, as long as the process lives.
fn serve(folder: PathBuf) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // A client that disconnects is not an error.
            let _ = answer(client, &folder);
        }
    });
    Ok(url)
}

fn answer(mut client: TcpStream, folder: &Path) -> Result<()> {
    let mut lines = BufReader::new(client.try_clone()?).lines();
    let asked = lines.next().context("no request")??;
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let name = asked.split(['/', ' ']).nth(2).unwrap_or_default();
    match fs::read(folder.join(name)) {
        Ok(file) => {
            let length = file.len();
            write!(client, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n")?;
            client.write_all(&file)?;
        }
        Err(_) => {
            client.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?
        }
    }
    Ok(())
}
