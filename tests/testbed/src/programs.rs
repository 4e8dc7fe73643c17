//! Builds the programs of Kubernetes from upstream's Go modules (`tests/kubernetes/<version>`). They are kept
//! in `target/kubernetes/<version>`, and built again only when their module changes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::progress;

mod beside;
mod compilation;
mod go;

pub use beside::{
    build_helm, build_krew, build_krew_for_windows, build_kubeconfig_reader, build_kubectl,
    build_kubectl_for_windows, build_prometheus, cert_manager, cert_manager_definitions, collector, informer,
    karmada_agent, karmada_chart, karmadactl, konnectivity, kubectl_for_windows, openid_provider,
    profile_consumer, profile_definition, prometheus,
};
pub(crate) use beside::{build_karmada, karmada_server};
use go::Go;

/// The version of the host, of members without a version, and always of etcd and kubectl.
pub const DEFAULT_VERSION: &str = "v1.36.3";

/// The programs of a control plane.
pub(crate) const CONTROL_PLANE: &[&str] = &["kube-apiserver", "kube-controller-manager"];
/// The programs of a cluster with a node, besides its control plane.
pub(crate) const NODE: &[&str] = &["kube-scheduler", "kubelet", "kube-proxy"];
/// The programs of every bed, in the default version.
pub(crate) const COMMON: &[&str] = &["etcd", "kubectl"];
/// The programs of nodes in the default version: the image that pods and sandboxes run.
pub(crate) const IMAGES: &[&str] = &["agnhost"];

/// Upstream's end-to-end tests, from a separate module, because they have more dependencies than
/// the programs.
const UPSTREAM_TESTS: &str = "e2e.test";
const CONFORMANCE: &str = "conformance";

/// The root of the repository; this crate is only ever used from it.
pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Cargo's target folder.
pub(crate) fn target() -> PathBuf {
    let dir = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    fs::canonicalize(&dir).unwrap_or(dir)
}

/// The path of a program of a version; `KUBEBUILDER_ASSETS` (envtest's variable) takes precedence over our
/// own.
pub(crate) fn path(version: &str, program: &str) -> PathBuf {
    let assets = std::env::var_os("KUBEBUILDER_ASSETS").filter(|_| version == DEFAULT_VERSION);
    let provided = assets.map(|dir| PathBuf::from(dir).join(program)).filter(|path| path.is_file());
    provided.unwrap_or_else(|| folder(version).join(program))
}

/// Builds what `make test` needs in a version: Kubernetes, and for the default version also the
/// other programs.
pub fn build_all(version: &str) -> Result<()> {
    let mut programs = [CONTROL_PLANE, NODE].concat();
    if version == DEFAULT_VERSION {
        programs.extend([COMMON, IMAGES].concat());
    }
    build(version, &programs)?;
    if version == DEFAULT_VERSION {
        beside::build()?;
    }
    Ok(())
}

/// Builds everything that any test uses, in every version that has a module here.
pub fn build_everything() -> Result<()> {
    let mut versions = vec![DEFAULT_VERSION.to_owned()];
    for entry in fs::read_dir(root().join("tests/kubernetes"))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() && name != DEFAULT_VERSION {
            versions.push(name);
        }
    }
    versions[1..].sort_unstable();
    versions.iter().try_for_each(|version| build_all(version))?;
    beside::build_others()?;
    build_upstream_tests().map(drop)
}

/// Builds upstream's end-to-end tests of the default version, which takes minutes, and returns their path.
pub fn build_upstream_tests() -> Result<PathBuf> {
    build_from(&conformance_module(), DEFAULT_VERSION, &[UPSTREAM_TESTS])?;
    Ok(path(DEFAULT_VERSION, UPSTREAM_TESTS))
}

fn kubernetes_module(version: &str) -> PathBuf {
    root().join("tests/kubernetes").join(version)
}

fn conformance_module() -> PathBuf {
    root().join("tests").join(CONFORMANCE)
}

/// Builds the missing ones among these programs.
pub(crate) fn build(version: &str, programs: &[&str]) -> Result<()> {
    build_from(&kubernetes_module(version), version, programs)
}

fn build_from(module: &Path, version: &str, programs: &[&str]) -> Result<()> {
    let stamp = stamp(version, module)?;
    let folder = folder(version);
    fs::create_dir_all(&folder)?;
    // Two beds that start at the same time build only once.
    let lock = File::create(folder.join(".lock"))?;
    lock.lock()?;
    let stamp_file = |program: &str| folder.join(format!(".{program}.stamp"));
    let is_missing = |program: &str| {
        let path = path(version, program);
        let is_built =
            path.is_file() && fs::read_to_string(stamp_file(program)).is_ok_and(|old| old == stamp);
        !is_built && path.starts_with(&folder)
    };
    let missing: Vec<_> = programs.iter().copied().filter(|program| is_missing(program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(", ");
    progress::say(format_args!("building {names} ({version})"));
    progress::step(format_args!("{names} ({version}) built"), || {
        go_build(module, version, &missing, &folder)
    })?;
    for program in missing {
        fs::write(stamp_file(program), &stamp)?;
    }
    Ok(())
}

/// Builds everything in one command: while one thread links a program, others compile. It does not
/// use `-trimpath`, which compiles a replaced module under the version that was required, so that
/// modules would share less.
fn go_build(module: &Path, version: &str, programs: &[&str], folder: &Path) -> Result<()> {
    // Builds into another folder, because a bed may be running the old programs.
    let new = folder.join(".new");
    fs::create_dir_all(&new)?;
    let packages: Vec<_> = programs.iter().map(|program| package(program)).collect();
    let output = match programs {
        [program] => new.join(program),
        _ => new.clone(),
    };
    let flags = ["-mod=readonly", TAGS, "-ldflags", &ldflags(version)].map(str::to_owned);
    let is_for_windows = programs.iter().all(|program| program.ends_with(".exe"));
    let compiler = compiler_flags(is_compiled_as_upstream(version, module)).to_owned();
    let go = Go {
        module,
        flags: flags.into_iter().chain([compiler]).collect(),
        packages: &packages,
        is_for_windows,
    };
    let output = output.display().to_string();
    let arguments: Vec<_> = ["-o", &output].into_iter().chain(packages.iter().map(String::as_str)).collect();
    let status = if programs == [UPSTREAM_TESTS] {
        go.command(&["test", "-c"]).args(arguments).stdout(Stdio::null()).status()?
    } else {
        compilation::run(&go, &arguments)?
    };
    if !status.success() {
        bail!("go build in {}: {status}", module.display());
    }
    for (program, package) in programs.iter().zip(&packages) {
        let file = if programs.len() == 1 { program } else { file_of(package) };
        fs::rename(new.join(file), folder.join(program))?;
    }
    Ok(fs::remove_dir_all(new)?)
}

/// The file that `go build` writes into a folder: the last element of the package's path that is
/// not a version.
fn file_of(package: &str) -> &str {
    let is_version =
        |element: &str| element.strip_prefix('v').is_some_and(|number| number.parse::<u32>().is_ok());
    package.rsplit('/').find(|element| !is_version(element)).unwrap_or(package)
}

fn package(program: &str) -> String {
    match program {
        "etcd" => "go.etcd.io/etcd/server/v3".to_owned(),
        UPSTREAM_TESTS => "k8s.io/kubernetes/test/e2e".to_owned(),
        "agnhost" => "k8s.io/kubernetes/test/images/agnhost".to_owned(),
        _ => beside::package(program)
            .unwrap_or_else(|| format!("k8s.io/kubernetes/cmd/{}", program.trim_end_matches(".exe"))),
    }
}

/// Builds Prometheus without its service discovery for clouds, which is most of its code. Other
/// programs ignore the tag.
const TAGS: &str = "-tags=remove_all_sd";

/// Sets the version in the programs, as upstream's own build does.
fn ldflags(version: &str) -> String {
    let [major, minor] = major_and_minor(version);
    let package = "k8s.io/component-base/version";
    format!(
        "-s -w -X {package}.gitVersion={version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"
    )
}

/// If set, the bed is for measurements: all programs are compiled as upstream compiles them.
pub const OPTIMIZED: &str = "TESTBED_OPTIMIZED";

/// The modules that have the dependencies of the default version, in the same versions
/// (`tests/kubernetes/same-versions.py`). With the same flags, they use what was compiled for it.
const SAME_DEPENDENCIES: [&str; 7] =
    ["cert-manager", "cluster-inventory", CONFORMANCE, "helm", "informer", "konnectivity", "kubeconfig"];

/// Whether programs are compiled with all of the compiler's optimizations, as upstream compiles them.
fn is_compiled_as_upstream(version: &str, module: &Path) -> bool {
    let shares = || SAME_DEPENDENCIES.iter().any(|name| module == root().join("tests").join(name));
    let is_default = module == kubernetes_module(DEFAULT_VERSION) || shares();
    (is_default && version == DEFAULT_VERSION) || std::env::var_os(OPTIMIZED).is_some()
}

/// Debug information takes a tenth of the compilation, and the linker leaves it out anyway.
/// Inlining takes another quarter, so programs that rarely run do without it.
/// `tests/request-info/generate.sh` repeats the first flag, so that both use one build cache.
fn compiler_flags(as_upstream: bool) -> &'static str {
    if as_upstream { COMPILED_AS_UPSTREAM } else { "-gcflags=all=-l -dwarf=false" }
}

/// The flag of the default version. A `go run` with the same flag compiles nothing of Kubernetes again.
pub const COMPILED_AS_UPSTREAM: &str = "-gcflags=all=-dwarf=false";

/// The 36 of `v1.36.3`.
pub(crate) fn minor(version: &str) -> Option<u32> {
    let [_, minor] = major_and_minor(version);
    minor.parse().ok()
}

fn major_and_minor(version: &str) -> [&str; 2] {
    let mut numbers = version.trim_start_matches('v').split('.');
    [numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default()]
}

/// Everything that determines a build: the module, the checksums of its requirements, the flags, and its own
/// program.
fn stamp(version: &str, module: &Path) -> Result<String> {
    let unknown = || format!("no such version here: {version}: tests/kubernetes/add-version.sh adds one");
    let go_mod = fs::read_to_string(module.join("go.mod")).with_context(unknown)?;
    let go_sum = fs::read_to_string(module.join("go.sum")).with_context(unknown)?;
    let own = own_sources(module);
    let slower = (!is_compiled_as_upstream(version, module)).then(|| compiler_flags(false).to_owned());
    Ok([Some(go_mod), Some(go_sum), Some(ldflags(version)), slower]
        .into_iter()
        .flatten()
        .chain(own)
        .collect::<Vec<_>>()
        .join("\n"))
}

/// The sources of a module that has its own program, in order.
fn own_sources(module: &Path) -> Vec<String> {
    if !module.join("main.go").is_file() {
        return Vec::new();
    }
    let files = fs::read_dir(module).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<_> = files.filter(|file| file.extension().is_some_and(|end| end == "go")).collect();
    files.sort_unstable();
    files.iter().filter_map(|file| fs::read_to_string(file).ok()).collect()
}

fn folder(version: &str) -> PathBuf {
    target().join("kubernetes").join(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_stamped_into_the_programs() {
        let flags = ldflags("v1.30.0");
        assert!(flags.contains("gitVersion=v1.30.0"), "{flags}");
        assert!(flags.contains("gitMajor=1 ") && flags.ends_with("gitMinor=30"), "{flags}");
    }

    #[test]
    fn program_files_have_the_names_that_go_gives_them() {
        let names =
            ["etcd", "konnectivity-agent", "kubelet"].map(|program| file_of(&package(program)).to_owned());
        assert_eq!(names, ["server", "agent", "kubelet"]);
    }

    #[test]
    fn every_module_has_the_checksum_of_its_kubernetes() {
        for entry in fs::read_dir(root().join("tests/kubernetes")).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                let version = path.file_name().unwrap().to_str().unwrap();
                let stamp = stamp(version, &path).unwrap();
                assert!(stamp.contains(&format!("k8s.io/kubernetes {version} h1:")), "{version}");
            }
        }
    }

    #[test]
    fn upstream_tests_have_the_default_version() {
        let stamp = stamp(DEFAULT_VERSION, &conformance_module()).unwrap();
        assert!(stamp.contains(&format!("k8s.io/kubernetes {DEFAULT_VERSION} h1:")));
    }

    #[test]
    fn error_names_a_version_without_a_module() {
        let error = build("v1.0.0", &["kubectl"]).unwrap_err();
        assert!(error.to_string().contains("v1.0.0"), "{error}");
    }
}
