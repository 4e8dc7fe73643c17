//! Builds programs of other projects, each from a Go module here (`tests/<name>`). They are kept
//! next to those of the default version of Kubernetes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::{DEFAULT_VERSION, build_from, path, root};

const HELM: &str = "helm";
const KUBECTL_FOR_WINDOWS: &str = "kubectl.exe";
const KREW_FOR_WINDOWS: &str = "krew.exe";
/// krew, and the program that the reviewers of its index use to check a manifest.
const KREW: [&str; 2] = ["krew", "validate-krew-manifest"];
const CERT_MANAGER: &str = "cert-manager";
const OPENID_PROVIDER: &str = "openid-provider";
const COLLECTOR: &str = "otlp-collector";
/// A consumer of ClusterProfiles that uses the library of their API.
const PROFILE_CONSUMER: &str = "cluster-profile-consumer";
const KONNECTIVITY: [&str; 2] = ["konnectivity-server", "konnectivity-agent"];
/// Prints what client-go makes of a kubeconfig.
const KUBECONFIG_READER: &str = "kubeconfig-reader";
/// An informer of client-go.
const INFORMER: &str = "informer";
const PROMETHEUS: [&str; 2] = ["prometheus", "promtool"];
/// The server of Karmada's Clusters, which beds start on request, and programs that are used with it.
const KARMADA: [&str; 3] = ["karmada-aggregated-apiserver", "karmadactl", "karmada-agent"];

/// Builds those that `make test` needs.
pub(super) fn build() -> Result<()> {
    build_from(&root().join("tests/openid"), DEFAULT_VERSION, &[OPENID_PROVIDER])?;
    build_from(&root().join("tests/collector"), DEFAULT_VERSION, &[COLLECTOR])?;
    build_from(&root().join("tests/informer"), DEFAULT_VERSION, &[INFORMER])?;
    build_kubeconfig_reader().map(drop)
}

/// Builds the others, which `make test-all` needs.
pub(super) fn build_others() -> Result<()> {
    build_from(&cert_manager_module(), DEFAULT_VERSION, &[CERT_MANAGER])?;
    build_from(&root().join("tests/konnectivity"), DEFAULT_VERSION, &KONNECTIVITY)?;
    build_from(&profile_consumer_module(), DEFAULT_VERSION, &[PROFILE_CONSUMER])?;
    build_prometheus()?;
    build_helm()?;
    build_krew()?;
    build_kubectl_for_windows()?;
    build_krew_for_windows()?;
    build_karmada()
}

/// The package of a program of another project.
pub(super) fn package(program: &str) -> Option<String> {
    Some(match program {
        HELM => "helm.sh/helm/v3/cmd/helm".to_owned(),
        "krew" | KREW_FOR_WINDOWS | "validate-krew-manifest" => {
            format!("sigs.k8s.io/krew/cmd/{}", program.trim_end_matches(".exe"))
        }
        // Our own programs, in the module itself.
        CERT_MANAGER | OPENID_PROVIDER | COLLECTOR | PROFILE_CONSUMER | KUBECONFIG_READER | INFORMER => {
            ".".to_owned()
        }
        "konnectivity-server" => "sigs.k8s.io/apiserver-network-proxy/cmd/server".to_owned(),
        "konnectivity-agent" => "sigs.k8s.io/apiserver-network-proxy/cmd/agent".to_owned(),
        "karmada-aggregated-apiserver" => "github.com/karmada-io/karmada/cmd/aggregated-apiserver".to_owned(),
        "karmadactl" => "github.com/karmada-io/karmada/cmd/karmadactl".to_owned(),
        "karmada-agent" => "github.com/karmada-io/karmada/cmd/agent".to_owned(),
        "prometheus" | "promtool" => format!("github.com/prometheus/prometheus/cmd/{program}"),
        _ => return None,
    })
}

/// Builds Helm, which renders the chart, and returns its path.
pub fn build_helm() -> Result<PathBuf> {
    build_from(&root().join("tests/helm"), DEFAULT_VERSION, &[HELM])?;
    Ok(path(DEFAULT_VERSION, HELM))
}

/// Builds the program that reads kubeconfigs with client-go, and returns its path.
pub fn build_kubeconfig_reader() -> Result<PathBuf> {
    build_from(&root().join("tests/kubeconfig"), DEFAULT_VERSION, &[KUBECONFIG_READER])?;
    Ok(path(DEFAULT_VERSION, KUBECONFIG_READER))
}

/// Builds kubectl and returns its path.
pub fn build_kubectl() -> Result<PathBuf> {
    super::build(DEFAULT_VERSION, &["kubectl"])?;
    Ok(path(DEFAULT_VERSION, "kubectl"))
}

/// Builds kubectl for Windows and returns its path.
pub fn build_kubectl_for_windows() -> Result<PathBuf> {
    super::build(DEFAULT_VERSION, &[KUBECTL_FOR_WINDOWS])?;
    Ok(kubectl_for_windows())
}

/// Where kubectl for Windows is once everything is built.
pub fn kubectl_for_windows() -> PathBuf {
    path(DEFAULT_VERSION, KUBECTL_FOR_WINDOWS)
}

/// Builds krew and its validator, and kubectl, which runs krew; returns their paths.
pub fn build_krew() -> Result<[PathBuf; 3]> {
    build_from(&root().join("tests/krew"), DEFAULT_VERSION, &KREW)?;
    super::build(DEFAULT_VERSION, &["kubectl"])?;
    let [krew, validator] = KREW.map(|program| path(DEFAULT_VERSION, program));
    Ok([krew, validator, path(DEFAULT_VERSION, "kubectl")])
}

/// Builds krew for Windows and returns its path.
pub fn build_krew_for_windows() -> Result<PathBuf> {
    build_from(&root().join("tests/krew"), DEFAULT_VERSION, &[KREW_FOR_WINDOWS])?;
    Ok(path(DEFAULT_VERSION, KREW_FOR_WINDOWS))
}

/// Builds Prometheus and promtool; returns their paths.
pub fn build_prometheus() -> Result<[PathBuf; 2]> {
    build_from(&root().join("tests/prometheus"), DEFAULT_VERSION, &PROMETHEUS)?;
    Ok(prometheus())
}

/// Builds Karmada's programs, which takes minutes the first time.
pub(crate) fn build_karmada() -> Result<()> {
    build_from(&karmada_module(), DEFAULT_VERSION, &KARMADA)
}

fn karmada_module() -> PathBuf {
    root().join("tests/karmada")
}

/// Where Karmada's aggregated API server is in a bed that has one.
pub(crate) fn karmada_server() -> PathBuf {
    path(DEFAULT_VERSION, KARMADA[0])
}

/// Where karmadactl is once everything is built.
pub fn karmadactl() -> PathBuf {
    path(DEFAULT_VERSION, KARMADA[1])
}

/// Where karmada-agent is once everything is built.
pub fn karmada_agent() -> PathBuf {
    path(DEFAULT_VERSION, KARMADA[2])
}

/// Karmada's chart: the definitions of its resources, and the rights that it grants.
pub fn karmada_chart() -> Result<PathBuf> {
    let folder = module_folder(&karmada_module(), "github.com/karmada-io/karmada")?;
    Ok(folder.join("charts/karmada"))
}

/// Where Prometheus and promtool are once everything is built.
pub fn prometheus() -> [PathBuf; 2] {
    PROMETHEUS.map(|program| path(DEFAULT_VERSION, program))
}

/// Where cert-manager's controllers are once everything is built.
pub fn cert_manager() -> PathBuf {
    path(DEFAULT_VERSION, CERT_MANAGER)
}

/// Where the OpenID provider is once everything is built.
pub fn openid_provider() -> PathBuf {
    path(DEFAULT_VERSION, OPENID_PROVIDER)
}

/// Where the collector of traces is once everything is built.
pub fn collector() -> PathBuf {
    path(DEFAULT_VERSION, COLLECTOR)
}

/// Where the informer is once everything is built.
pub fn informer() -> PathBuf {
    path(DEFAULT_VERSION, INFORMER)
}

/// Where the consumer of ClusterProfiles is once everything is built.
pub fn profile_consumer() -> PathBuf {
    path(DEFAULT_VERSION, PROFILE_CONSUMER)
}

/// The definition of ClusterProfile, as upstream publishes it.
pub fn profile_definition() -> Result<PathBuf> {
    let folder = module_folder(&profile_consumer_module(), "sigs.k8s.io/cluster-inventory-api")?;
    Ok(folder.join("config/crd/bases/multicluster.x-k8s.io_clusterprofiles.yaml"))
}

/// Where konnectivity's server and agent are once everything is built.
pub fn konnectivity() -> [PathBuf; 2] {
    KONNECTIVITY.map(|program| path(DEFAULT_VERSION, program))
}

/// The folder of the definitions of cert-manager's resources, as it publishes them.
pub fn cert_manager_definitions() -> Result<PathBuf> {
    let folder = module_folder(&cert_manager_module(), "github.com/cert-manager/cert-manager")?;
    Ok(folder.join("deploy/crds"))
}

/// The folder of a module that one of our modules requires.
fn module_folder(ours: &Path, required: &str) -> Result<PathBuf> {
    let mut command = Command::new("go");
    command.args(["list", "-mod=readonly", "-m", "-f", "{{.Dir}}", required]);
    let output = command.current_dir(ours).stdin(Stdio::null()).output();
    let output = output.context("cannot start: go")?;
    if !output.status.success() {
        bail!("go list: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let dir = String::from_utf8(output.stdout).context("a folder whose name is no text")?;
    Ok(PathBuf::from(dir.trim()))
}

fn profile_consumer_module() -> PathBuf {
    root().join("tests/cluster-inventory")
}

fn cert_manager_module() -> PathBuf {
    root().join("tests/cert-manager")
}
