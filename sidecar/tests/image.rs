//! Tests the sidecar's image that `make image-test` builds: its configuration and its files, that its static
//! programs run, and that its SBOMs are correct. `PLATFORMS` lists the platforms to test.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

#[test]
fn image_runs_the_program_as_an_unprivileged_user() -> Result<()> {
    for image in images()? {
        let config = &image.config["config"];
        for (what, wanted) in [
            ("Entrypoint", json!(["/mc-sidecar"])),
            ("User", json!("65532:65532")),
            ("ExposedPorts", json!({"10250/tcp": {}})),
            ("Cmd", Value::Null),
        ] {
            ensure!(config[what] == wanted, "{what} is {} and not {wanted}", config[what]);
        }
        let folder = config["WorkingDir"].as_str().unwrap_or("/");
        ensure!(folder == "/", "it starts in {folder}");
    }
    Ok(())
}

#[test]
fn image_has_only_the_program_and_the_ca_certificates() -> Result<()> {
    for image in images()? {
        let mut found = BTreeSet::new();
        for layer in &image.layers {
            let list = tar(&["--numeric-owner", "-tvf"], layer, &[])?;
            for line in list.lines() {
                let words: Vec<_> = line.split_whitespace().collect();
                ensure!(words[1] == "0/0", "not root's own: {line}");
                found.insert(format!("{} {}", words[0], words[5].trim_matches('/')));
            }
        }
        let folders = ["etc", "etc/ssl", "etc/ssl/certs"].map(|folder| format!("drwxr-xr-x {folder}"));
        let mut wanted = BTreeSet::from(folders);
        wanted.insert("-rw-r--r-- etc/ssl/certs/ca-certificates.crt".to_owned());
        wanted.insert("-rwxr-xr-x mc-sidecar".to_owned());
        same(&wanted, &found, &format!("of the files for {}", image.architecture))?;
    }
    Ok(())
}

#[test]
fn compressed_image_stays_below_the_size_limit() -> Result<()> {
    for image in images()? {
        let sizes = image.layers.iter().map(|layer| Ok(fs::metadata(layer)?.len()));
        let size = sizes.sum::<Result<u64>>()?;
        ensure!(size < LARGEST, "for {} it is {size} bytes, and {LARGEST} are too many", image.architecture);
    }
    Ok(())
}

#[test]
fn program_is_static_and_built_for_its_platform() -> Result<()> {
    for image in images()? {
        let program = image.program()?;
        let elf = run(Command::new("readelf").args(["-hldW"]).arg(&program))?;
        let machine = if image.architecture == "arm64" { "AArch64" } else { "X86-64" };
        let told = elf.lines().find(|line| line.trim_start().starts_with("Machine:")).unwrap_or_default();
        ensure!(told.contains(machine), "the program for {} is for {told}", image.architecture);
        let needs = |line: &&str| line.contains("interpreter:") || line.contains("(NEEDED)");
        let needs: Vec<_> = elf.lines().filter(needs).map(str::trim).collect();
        ensure!(needs.is_empty(), "the program for {} is not static: {needs:?}", image.architecture);
    }
    Ok(())
}

#[test]
fn program_contains_no_paths_of_the_build_machine() -> Result<()> {
    let home = env::var("CARGO_HOME").or_else(|_| env::var("HOME").map(|home| format!("{home}/.cargo")))?;
    for image in images()? {
        let program = fs::read(image.program()?)?;
        let at = |path: &str| program.windows(path.len()).position(|bytes| bytes == path.as_bytes());
        for path in [home.as_str(), env!("CARGO_MANIFEST_DIR").trim_end_matches("/sidecar")] {
            if let Some(at) = at(path) {
                let told = String::from_utf8_lossy(&program[at..program.len().min(at + 120)]);
                anyhow::bail!("the program for {} has {told:?}", image.architecture);
            }
        }
    }
    Ok(())
}

#[test]
fn program_of_the_image_runs() -> Result<()> {
    for image in images()? {
        let crds = image.run(&["crds"])?;
        ensure!(crds.status.success(), "{crds:?}");
        let kept = fs::read(root().join("sidecar/deploy/crd.yaml"))?;
        ensure!(
            crds.stdout == kept,
            "for {} what `mc-sidecar crds` prints is not sidecar/deploy/crd.yaml",
            image.architecture
        );

        let wrong = image.run(&["serve", "--goaway-chance=0.5"])?;
        let told = String::from_utf8_lossy(&wrong.stderr);
        ensure!(wrong.status.code() == Some(64), "wrong flags do not end it with 64: {wrong:?}");
        ensure!(told == "error: --goaway-chance: it is less than 0 or more than 0.02\n", "{told}");
    }
    Ok(())
}

#[test]
fn sbom_names_exactly_the_linked_crates() -> Result<()> {
    for image in images()? {
        let linked = linked(image.target())?;
        ensure!(linked.len() > 100, "these are all: {linked:?}");
        let file = root().join(format!("target/image/mc-sidecar-{}.cdx.json", image.architecture));
        let list: Value = serde_json::from_slice(&fs::read(&file)?)?;
        same(&linked, &components(&list, "required")?, "of the file")?;

        // Scanners read the embedded list in the same way. The reader refuses an incomplete list.
        let embedded = auditable_info::audit_info_from_file(&image.program()?, Default::default())?;
        let embedded = serde_json::to_value(embedded)?;
        let packages = embedded["packages"].as_array().context("no packages")?;
        let (root, packages): (Vec<_>, Vec<_>) = packages.iter().partition(|package| package["root"] == true);
        let program = BTreeSet::from([format!("sidecar@{}", env!("CARGO_PKG_VERSION"))]);
        same(&program, &names(&root)?, "of roots in the program")?;
        let (build, runtime): (Vec<_>, Vec<_>) =
            packages.into_iter().partition(|package| package["kind"] == "build");
        same(&linked, &names(&runtime)?, "in the program")?;
        same(&components(&list, "excluded")?, &names(&build)?, "of what ran when it was built")?;
    }
    Ok(())
}

#[test]
fn sbom_is_complete() -> Result<()> {
    for image in images()? {
        let file = root().join(format!("target/image/mc-sidecar-{}.cdx.json", image.architecture));
        let list: Value = serde_json::from_slice(&fs::read(&file)?)?;
        ensure!(list["bomFormat"] == "CycloneDX" && list["specVersion"] == "1.6", "{}", file.display());
        ensure!(list["metadata"]["component"]["name"] == "mc-sidecar", "{}", list["metadata"]);
        let components = list["components"].as_array().context("no components")?;
        let mut known = BTreeSet::from([text(&list["metadata"]["component"]["bom-ref"])?]);
        for component in components {
            ensure!(known.insert(text(&component["bom-ref"])?), "twice: {component}");
            let purl = text(&component["purl"])?;
            if purl.starts_with("pkg:cargo/") {
                ensure!(component["licenses"][0]["expression"].is_string(), "no licence: {component}");
                let registered = !purl.contains("?vcs_url=");
                let hashed = component["hashes"][0]["content"].is_string();
                ensure!(
                    hashed == registered,
                    "a hash is what registries' crates have, and no others: {component}"
                );
            }
        }
        for dependency in list["dependencies"].as_array().context("no dependencies")? {
            for name in dependency["dependsOn"].as_array().into_iter().flatten().chain([&dependency["ref"]]) {
                ensure!(known.contains(text(name)?), "{name} is nowhere");
            }
        }
        // Components that are not crates: Rust's own library, the linked C libraries, and the CA
        // certificates.
        for name in ["rust-std", "libc6-dev", "libgcc-", "ca-certificates"] {
            ensure!(known.iter().any(|known| known.starts_with(name)), "no {name} in {known:?}");
        }
    }
    Ok(())
}

/// The image of one platform. The archive is unpacked, but its layers are not.
struct Image {
    architecture: String,
    config: Value,
    layers: Vec<PathBuf>,
    dir: TempDir,
}

/// The images of the requested platforms; the archive must have no others.
fn images() -> Result<Vec<Image>> {
    let archive = root().join("target/image/mc-sidecar.tar");
    ensure!(archive.is_file(), "no image: `make image-test` makes it");
    let platforms = env::var("PLATFORMS").unwrap_or_else(|_| format!("linux/{}", own_architecture()));
    let wanted: Vec<_> = platforms.split(',').collect();
    let mut images = Vec::new();
    for platform in &wanted {
        let dir = tempfile::tempdir()?;
        tar(&["-xf"], &archive, &["-C", &dir.path().display().to_string()])?;
        let index = fs::read(dir.path().join("index.json"))?;
        let list = blob(dir.path(), &serde_json::from_slice::<Value>(&index)?["manifests"][0])?;
        let entries = list["manifests"].as_array().context("no list of platforms")?;
        ensure!(entries.len() == wanted.len(), "{list}");
        let architecture = platform.trim_start_matches("linux/");
        let of_platform = |entry: &&Value| {
            entry["platform"]["os"] == "linux" && entry["platform"]["architecture"] == architecture
        };
        let manifest = blob(dir.path(), entries.iter().find(of_platform).context(architecture.to_owned())?)?;
        let config = blob(dir.path(), &manifest["config"])?;
        ensure!(config["os"] == "linux" && config["architecture"] == architecture, "{config}");
        let layers = manifest["layers"].as_array().context("no layers")?;
        let layers = layers.iter().map(|layer| path(dir.path(), layer)).collect::<Result<_>>()?;
        images.push(Image { architecture: architecture.to_owned(), config, layers, dir });
    }
    Ok(images)
}

impl Image {
    fn program(&self) -> Result<PathBuf> {
        let program = self.dir.path().join("mc-sidecar");
        for layer in &self.layers {
            tar(&["-xf"], layer, &["-C", &self.dir.path().display().to_string()])?;
        }
        Ok(program)
    }

    fn run(&self, arguments: &[&str]) -> Result<Output> {
        let program = self.program()?;
        let mut command = if self.architecture == own_architecture() {
            Command::new(program)
        } else {
            let machine = self.target().split('-').next().unwrap_or_default();
            let mut emulator = Command::new(format!("qemu-{machine}-static"));
            emulator.arg(program);
            emulator
        };
        command.args(arguments).env_clear();
        command.output().with_context(|| format!("cannot start: {command:?}"))
    }

    fn target(&self) -> &'static str {
        if self.architecture == "arm64" { "aarch64-unknown-linux-gnu" } else { "x86_64-unknown-linux-gnu" }
    }
}

/// The crates that cargo reports as built for the target. The build is up to date, so nothing is compiled.
fn linked(target: &str) -> Result<BTreeSet<String>> {
    let mut make = Command::new("make");
    make.args(["--silent", "program", &format!("PLATFORM={target}"), "MESSAGES=json"]);
    // The environment that cargo sets for a test must not reach another cargo.
    make.current_dir(root()).env_clear();
    make.envs(env::vars_os().filter(|(name, _)| KEPT.iter().any(|kept| name == kept)));
    let mut linked = BTreeSet::new();
    for line in run(&mut make)?.lines() {
        let message: Value = serde_json::from_str(line)?;
        let files = message["filenames"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let library = |file: &str| file.contains(&format!("/{target}/")) && file.ends_with(".rlib");
        if message["reason"] == "compiler-artifact" && files.into_iter().any(library) {
            // registry+URL#NAME@VERSION, or path+file:///…/NAME#VERSION
            let id = text(&message["package_id"])?;
            let (place, package) = id.split_once('#').context(id.to_owned())?;
            let folder = place.rsplit('/').next().unwrap_or_default();
            linked.insert(if package.contains('@') {
                package.to_owned()
            } else {
                format!("{folder}@{package}")
            });
        }
    }
    // The program's own library is not listed.
    linked.retain(|crate_| !crate_.starts_with("sidecar@"));
    Ok(linked)
}

/// The names and versions of the crates in a scope.
fn components(list: &Value, scope: &str) -> Result<BTreeSet<String>> {
    let all = list["components"].as_array().context("no components")?;
    let of_cargo = |purl: &str| purl.starts_with("pkg:cargo/");
    let crates = all.iter().filter(|component| component["scope"] == scope);
    names(&crates.filter(|component| component["purl"].as_str().is_some_and(of_cargo)).collect::<Vec<_>>())
}

/// NAME@VERSION
fn names(packages: &[&Value]) -> Result<BTreeSet<String>> {
    let name = |package: &&Value| Ok(format!("{}@{}", text(&package["name"])?, text(&package["version"])?));
    packages.iter().map(name).collect()
}

fn same(wanted: &BTreeSet<String>, found: &BTreeSet<String>, list: &str) -> Result<()> {
    let more: Vec<_> = found.difference(wanted).collect();
    let missing: Vec<_> = wanted.difference(found).collect();
    ensure!(
        more.is_empty() && missing.is_empty(),
        "the list {list} has too much: {more:?}; and misses {missing:?}"
    );
    Ok(())
}

fn text(value: &Value) -> Result<&str> {
    value.as_str().with_context(|| format!("no text: {value}"))
}

fn path(dir: &Path, descriptor: &Value) -> Result<PathBuf> {
    Ok(dir.join("blobs").join(text(&descriptor["digest"])?.replace(':', "/")))
}

fn blob(dir: &Path, descriptor: &Value) -> Result<Value> {
    Ok(serde_json::from_slice(&fs::read(path(dir, descriptor)?)?)?)
}

fn own_architecture() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn tar(flags: &[&str], archive: &Path, more: &[&str]) -> Result<String> {
    run(Command::new("tar").args(flags).arg(archive).args(more))
}

fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start: {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// The environment variables that cargo needs to find its tools and its build directory.
const KEPT: [&str; 7] =
    ["PATH", "HOME", "CARGO_HOME", "RUSTUP_HOME", "CARGO_TARGET_DIR", "CARGO_BUILD_BUILD_DIR", "PROFILE"];

/// The maximum compressed size of an image, in bytes.
const LARGEST: u64 = 8 << 20;
