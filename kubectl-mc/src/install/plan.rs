//! Builds the installation that the flags describe.

use kubectl_mc_api::Origin;
use kubectl_mc_api::direct::Server;
use kubectl_mc_api::manifests::values::{self, SecretName};
use kubectl_mc_api::manifests::{self, Parameters, Reach, Values};
use serde_json::{Value, json};

use super::made;
use crate::apply::recorded_flags::RecordedFlags;
use crate::cli::{Certificates, Expose, InstallArgs, PullPolicy, RELEASED_IMAGE};
use crate::error::{Context, Failure};
use crate::exit::ExitStatus;

/// The objects to install, and the cluster for them.
pub(crate) struct InstallPlan {
    pub(crate) parameters: Parameters,
    /// The context of the cluster that runs the sidecars, if it is not the host.
    pub(crate) run_on: Option<String>,
    /// How the host reaches the sidecars in another cluster.
    pub(crate) reach: Option<Reach>,
    pub(crate) flags: RecordedFlags,
}

impl InstallPlan {
    pub(crate) fn of(arguments: &InstallArgs, flags: RecordedFlags) -> Result<Self, Failure> {
        let addresses = || arguments.endpoint.iter().map(std::net::SocketAddr::ip).collect();
        let reach = match (&arguments.external_name, arguments.endpoint.first()) {
            (Some(name), _) => Some(Reach::Name(name.clone())),
            (None, Some(first)) => Some(Reach::Addresses(addresses(), first.port())),
            (None, None) => None,
        };
        let values = merged(arguments)?;
        let image = image(arguments.image.as_deref(), &values, RELEASED_IMAGE)?;
        let parameters = Parameters { namespace: arguments.namespace.clone(), image, values };
        if arguments.run_on.is_some()
            && parameters.values.certificates == manifests::Certificates::CertManager
        {
            return Err(Failure::usage("--certificates=cert-manager and --run-on cannot be combined").with_hint(
                "cert-manager in that cluster cannot update the APIService of this host; omit --certificates",
            ));
        }
        if arguments.run_on.is_some() && parameters.values.metrics.pod_monitor.enabled {
            return Err(Failure::usage("metrics.podMonitor and --run-on cannot be combined").with_hint(
                "create a PodMonitor in that cluster, with a token of this host: \
                 https://github.com/kubectl-mc/kubectl-mc/blob/main/docs/how-to/monitoring.md",
            ));
        }
        Ok(Self { parameters, run_on: arguments.run_on.clone(), reach, flags })
    }

    /// Whether the address of the direct endpoint's load balancer is still unknown.
    pub(crate) fn lacks_address(&self) -> bool {
        let direct = &self.parameters.values.direct;
        direct.expose == values::Expose::LoadBalancer && direct.server.is_none()
    }

    pub(crate) fn with_direct_server(mut self, server: Server) -> Self {
        self.parameters.values.direct.server = Some(server);
        self
    }

    /// The host's objects, with the registration last.
    pub(crate) fn host(&self) -> Result<Vec<Value>, Failure> {
        let objects = match &self.reach {
            Some(reach) => self.parameters.host_of_remote(reach),
            None => self.parameters.host(),
        };
        self.recorded(objects)
    }

    /// The objects of the cluster that runs the sidecars, if it is not the host.
    pub(crate) fn remote(&self, kubeconfig: &str) -> Result<Vec<Value>, Failure> {
        self.recorded(self.parameters.remote(kubeconfig))
    }

    /// The same objects with the flags in an annotation of the Deployment.
    fn recorded(&self, objects: Result<Vec<Value>, manifests::Error>) -> Result<Vec<Value>, Failure> {
        let mut objects = made(objects)?;
        objects.iter().try_for_each(each_sidecar_flag_once)?;
        self.flags.write(&mut objects, "Deployment");
        Ok(objects)
    }
}

/// The sidecar refuses to start if a flag is given twice: in the manifest itself, in `extraArgs` or
/// with `--sidecar-flag`.
fn each_sidecar_flag_once(object: &Value) -> Result<(), Failure> {
    let containers = object["spec"]["template"]["spec"]["containers"].as_array().into_iter().flatten();
    for container in containers {
        let words = container["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let mut seen: Vec<&str> = Vec::new();
        for word in words.filter(|word| word.starts_with("--")) {
            let name = |word: &str| word.split('=').next().unwrap_or_default().to_owned();
            if let Some(first) = seen.iter().find(|first| name(first) == name(word)) {
                let text = format!("the sidecar would get a flag twice: {first} and {word}");
                return Err(Failure::usage(text).with_hint(
                    "give it once: by --sidecar-flag, in extraArgs of --values, or by the flag of install for it; lists \
                     take commas",
                ));
            }
            seen.push(word);
        }
    }
    Ok(())
}

fn image(flag: Option<&str>, values: &Values, released: Option<&str>) -> Result<String, Failure> {
    let named = flag.map(str::to_owned).or_else(|| values.image.reference());
    named.or_else(|| released.map(str::to_owned)).ok_or_else(|| {
        Failure::usage("no image of mc-sidecar: this build of kubectl-mc does not name one").with_hint(
            "--image=IMAGE names the image, and `make image` builds it; a release build needs no flag",
        )
    })
}

/// The values of the file, overridden by the flags.
fn merged(arguments: &InstallArgs) -> Result<Values, Failure> {
    let mut values = match &arguments.values {
        Some(file) => {
            let what = || format!("cannot read the values of {}", file.display());
            let text = std::fs::read_to_string(file).context(what);
            let values = text.and_then(|text| Values::parse(&text).context(what));
            values.map_err(|failure| failure.with_status(ExitStatus::Usage))?
        }
        None => Values::default(),
    };
    match arguments.image_pull_policy {
        Some(PullPolicy::Always) => values.image.pull_policy = values::PullPolicy::Always,
        Some(PullPolicy::IfNotPresent) => values.image.pull_policy = values::PullPolicy::IfNotPresent,
        Some(PullPolicy::Never) => values.image.pull_policy = values::PullPolicy::Never,
        None => {}
    }
    let secrets = arguments.image_pull_secret.iter().map(|name| SecretName { name: name.clone() });
    values.image_pull_secrets.extend(secrets);
    values.replicas = arguments.replicas.unwrap_or(values.replicas);
    values.secure_port = arguments.secure_port.or(values.secure_port);
    values.host_network |= arguments.host_network;
    match arguments.certificates {
        Some(Certificates::SelfManaged) => values.certificates = manifests::Certificates::SelfManaged,
        Some(Certificates::CertManager) => values.certificates = manifests::Certificates::CertManager,
        None => {}
    }
    match arguments.expose {
        Some(Expose::LoadBalancer) => values.direct.expose = values::Expose::LoadBalancer,
        Some(Expose::NodePort) => values.direct.expose = values::Expose::NodePort,
        Some(Expose::None) => {
            values.direct.expose = values::Expose::Nowhere;
            values.direct.server = None;
        }
        None => {}
    }
    values.direct.server = arguments.direct_server.clone().or(values.direct.server);
    match (values.direct.expose, &values.direct.server) {
        (values::Expose::Nowhere, Some(server)) => {
            return Err(Failure::usage(format!("the direct endpoint {server} is not exposed"))
                .with_hint("--expose=LoadBalancer or --expose=NodePort exposes it; omit the URL for none"));
        }
        (values::Expose::NodePort, None) => {
            return Err(Failure::usage(
                "--expose=NodePort needs --direct-server: the address of the nodes for clients is not known",
            )
            .with_hint(
                "for example --direct-server=https://nodes.example.com:30443, with direct.nodePort=30443",
            ));
        }
        _ => {}
    }
    match arguments.list_for.as_slice() {
        [] => {}
        [none] if none == "none" => values.list_for.clear(),
        groups => values.list_for = groups.to_vec(),
    }
    if !arguments.inventory.is_empty() {
        values.inventory.clone_from(&arguments.inventory);
    }
    Origin::hub_of(&values.inventory).map_err(|error| {
        Failure::usage(error.to_string())
            .with_hint("--inventory=membercluster,karmada or --inventory=membercluster,kubeadmiral")
    })?;
    values.priority_class_name = arguments.priority_class.clone().unwrap_or(values.priority_class_name);
    values.node_selector.extend(arguments.node_selector.iter().cloned());
    values.tolerations.extend(arguments.toleration.iter().cloned());
    for (field, wanted) in [("requests", &arguments.requests), ("limits", &arguments.limits)] {
        for (resource, quantity) in wanted {
            values.resources.entry(field).or_insert_with(|| json!({}))[resource] = quantity.as_str().into();
        }
    }
    values.extra_args.extend(arguments.sidecar_flag.iter().cloned());
    if values.certificates == manifests::Certificates::Secret && values.tls.secret_name.is_empty() {
        return Err(Failure::usage("certificates is Secret, and tls.secretName is empty")
            .with_hint("set tls.secretName to the name of the Secret"));
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_flag_override_the_released_image() {
        let (none, some) = (Values::default(), Values::parse("image: {repository: r, tag: v1}").unwrap());
        assert_eq!(image(None, &none, Some("released@sha256:0")).unwrap(), "released@sha256:0");
        assert_eq!(image(None, &some, Some("released@sha256:0")).unwrap(), "r:v1");
        assert_eq!(image(Some("flag"), &some, Some("released@sha256:0")).unwrap(), "flag");
        assert_eq!(image(None, &none, None).unwrap_err().status, ExitStatus::Usage);
    }
}
