use super::*;
use crate::names::{KUBECTL_MC, MANAGED_BY};

fn kinds(objects: &[Value]) -> Vec<String> {
    objects
        .iter()
        .map(|object| {
            format!("{}/{}", object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap())
        })
        .collect()
}

fn find<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    objects.iter().find(|object| object["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"))
}

fn container(objects: &[Value]) -> &Value {
    &find(objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]
}

fn with(values: &str) -> Parameters {
    Parameters { values: Values::parse(values).unwrap(), ..Parameters::new("i") }
}

#[test]
fn default_values_render_the_manifest_unchanged() {
    let mut rendered = Parameters::new("mc-sidecar").deployment().unwrap();
    let labels = &mut rendered["spec"]["template"]["metadata"]["labels"];
    LABELS[1..].iter().for_each(|(key, _)| remove(labels, key));
    assert_eq!(rendered, objects(DEPLOYMENT).unwrap()[0]);
}

#[test]
fn namespace_comes_first_and_api_service_last() {
    let objects = Parameters::new("i").host().unwrap();
    let kinds = kinds(&objects);
    assert_eq!(kinds.first().unwrap(), "Namespace/kubectl-mc-system");
    assert_eq!(kinds[1], "CustomResourceDefinition/memberclusters.fleet.kubectl-mc.dev");
    assert_eq!(kinds.last().unwrap(), "APIService/v1alpha1.proxy.kubectl-mc.dev");
}

#[test]
fn objects_have_the_labels_and_the_given_namespace() {
    let parameters = Parameters { namespace: "elsewhere".to_owned(), ..Parameters::new("i") };
    let all = [
        parameters.host().unwrap(),
        parameters.remote("k").unwrap(),
        parameters.host_of_remote(&Reach::Name("n".to_owned())).unwrap(),
    ];
    for object in all.iter().flatten() {
        assert_eq!(object["metadata"]["labels"][MANAGED_BY], KUBECTL_MC, "{object}");
        for (key, value) in LABELS {
            assert_eq!(object["metadata"]["labels"][key], value, "{object}");
        }
        assert!(!object.to_string().contains(names::NAMESPACE), "{object}");
    }
}

#[test]
fn pods_meet_the_restricted_pod_security_level() {
    let objects = Parameters::new("i").host().unwrap();
    assert_eq!(
        find(&objects, "Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"],
        "restricted"
    );
    let pod = &find(&objects, "Deployment")["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    assert_eq!(
        container(&objects)["securityContext"],
        json!({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}})
    );
}

/// The fields of a pod that OpenShift's SecurityContextConstraints `restricted-v2` refuse, in a namespace
/// with this UID range.
pub(super) fn refused_by_restricted_v2(pod: &Value, range: std::ops::Range<u64>) -> Vec<String> {
    let mut refused = Vec::new();
    let mut refuse = |is_refused: bool, rule: &str| refused.extend(is_refused.then(|| rule.to_owned()));
    for field in ["hostNetwork", "hostPID", "hostIPC"] {
        refuse(pod[field] == true, field);
    }
    let kinds = [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ];
    for volume in pod["volumes"].as_array().into_iter().flatten() {
        refuse(!kinds.iter().any(|kind| volume.get(kind).is_some()), "volumes");
    }
    let container = &pod["containers"][0];
    let contexts = [&pod["securityContext"], &container["securityContext"]];
    for context in contexts {
        let is_outside = |field: &str| context[field].as_u64().is_some_and(|id| !range.contains(&id));
        refuse(is_outside("runAsUser"), "runAsUser");
        refuse(is_outside("fsGroup"), "fsGroup");
        refuse(context.get("seLinuxOptions").is_some(), "seLinuxOptions");
        let seccomp = &context["seccompProfile"]["type"];
        refuse(!seccomp.is_null() && *seccomp != "RuntimeDefault", "seccompProfile");
    }
    let context = contexts[1];
    refuse(context["privileged"] == true, "privileged");
    refuse(context["allowPrivilegeEscalation"] != false, "allowPrivilegeEscalation");
    refuse(context["capabilities"]["drop"] != json!(["ALL"]), "capabilities.drop");
    refuse(!context["capabilities"]["add"].is_null(), "capabilities.add");
    for port in container["ports"].as_array().into_iter().flatten() {
        refuse(port.get("hostPort").is_some(), "hostPort");
    }
    refused
}

#[test]
fn openshifts_restricted_v2_admits_the_pods() {
    let range = 1_000_680_000..1_000_690_000;
    for values in ["", "certificates: CertManager", "{certificates: Secret, tls: {secretName: s}}"] {
        let objects = [with(values).host().unwrap(), with(values).remote("k").unwrap()];
        for objects in objects {
            let pod = &find(&objects, "Deployment")["spec"]["template"]["spec"];
            assert_eq!(refused_by_restricted_v2(pod, range.clone()), [""; 0], "{values}");
        }
    }
    let objects = with("hostNetwork: true").host().unwrap();
    let pod = &find(&objects, "Deployment")["spec"]["template"]["spec"];
    assert_eq!(refused_by_restricted_v2(pod, range), ["hostNetwork"]);
}

#[test]
fn values_are_merged_as_in_helm() {
    let values = Values::parse("resources: {limits: {memory: null, cpu: 1}}\nextraArgs: [a]\n").unwrap();
    assert_eq!(values.resources["limits"], json!({"cpu": 1}));
    assert_eq!(values.resources["requests"]["memory"], "64Mi");
    assert_eq!((values.extra_args, values.replicas.get()), (vec!["a".to_owned()], 2));
    assert!(Values::parse("replica: 3").unwrap_err().to_string().contains("replica"));
}

#[test]
fn pods_keep_the_selector_label() {
    let objects = with("podLabels: {team: a, app.kubernetes.io/name: other}").host().unwrap();
    let deployment = find(&objects, "Deployment");
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    assert_eq!(labels["team"], "a");
    for (key, value) in deployment["spec"]["selector"]["matchLabels"].as_object().unwrap() {
        assert_eq!(labels[key], *value);
    }
}

#[test]
fn host_network_avoids_kubelet_port_and_keeps_metrics_local() {
    let objects = with("hostNetwork: true").host().unwrap();
    let container = container(&objects);
    assert_eq!(container["ports"][0]["containerPort"], 10260);
    let args = container["args"].to_string();
    assert!(args.contains("--secure-port=10260") && args.contains("127.0.0.1:10261"), "{args}");
    assert_eq!(
        find(&objects, "Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"],
        "privileged"
    );
}

#[test]
fn cert_manager_issues_the_certificate_and_the_ca_bundle() {
    let parameters = with("certificates: CertManager");
    let objects = parameters.host().unwrap();
    assert!(!kinds(&objects).contains(&format!("Secret/{AUTHORITY}")));
    assert_eq!(
        find(&objects, "APIService")["metadata"]["annotations"]["cert-manager.io/inject-ca-from"],
        "kubectl-mc-system/mc-sidecar"
    );
    let args = container(&objects)["args"].to_string();
    assert!(args.contains("--tls-cert-file=") && !args.contains("rotate"), "{args}");
    let certificate = objects.iter().rfind(|object| object["kind"] == "Certificate").unwrap();
    assert_eq!(
        certificate["spec"]["dnsNames"],
        json!(["mc-sidecar.kubectl-mc-system.svc", "mc-sidecar-authorization.kubectl-mc-system.svc"])
    );
    let made = parameters.of_certificates().unwrap();
    assert_eq!([&made[1]["spec"]["secretName"], &made[3]["spec"]["secretName"]], [ISSUER, SERVED]);
    assert!(made.iter().all(|object| objects.contains(object)));
}

#[test]
fn remote_sidecar_has_only_the_hosts_kubeconfig() {
    let parameters = Parameters::new("i");
    let objects = parameters.remote("apiVersion: v1").unwrap();
    assert_eq!(find(&objects, "ServiceAccount")["automountServiceAccountToken"], false);
    let args = container(&objects)["args"].to_string();
    assert!(args.contains("--kubeconfig=/var/run/mc-sidecar/host/kubeconfig"), "{args}");
    let on_host = parameters
        .host_of_remote(&Reach::Addresses(
            vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
            30443,
        ))
        .unwrap();
    assert!(!on_host.iter().any(|object| object["kind"] == "Deployment"));
    assert!(find(&on_host, "Service")["spec"]["selector"].is_null());
    let slices = on_host.iter().filter(|object| object["kind"] == "EndpointSlice").collect::<Vec<_>>();
    assert_eq!(slices.len(), 2);
    assert_eq!(slices[0]["ports"][0]["port"], 30443);
}

#[test]
fn host_before_1_33_finds_the_same_addresses() {
    let addresses = ["10.0.0.1", "10.0.0.2", "fd00::1"].map(|address| address.parse().unwrap());
    let reach = Reach::Addresses(addresses.to_vec(), 30443);
    let objects = Parameters::new("i").host_of_remote(&reach).unwrap();
    let (endpoints, service) = (find(&objects, "Endpoints"), find(&objects, "Service"));
    assert_eq!(endpoints["metadata"]["name"], service["metadata"]["name"]);
    assert_eq!(endpoints["metadata"]["namespace"], service["metadata"]["namespace"]);
    let ips = endpoints["subsets"][0]["addresses"].as_array().unwrap().iter().map(|address| &address["ip"]);
    assert_eq!(json!(ips.collect::<Vec<_>>()), json!(addresses));
    let port = &endpoints["subsets"][0]["ports"][0];
    assert_eq!([&port["name"], &service["spec"]["ports"][0]["name"]], ["https", "https"]);
    assert_eq!(port["port"], 30443);
    // Otherwise Kubernetes would mirror the Endpoints to a third slice.
    assert_eq!(endpoints["metadata"]["labels"][SKIP_MIRROR], "true");
}

#[test]
fn service_targets_the_port_of_the_deployment() {
    let objects = Parameters::new("i").host().unwrap();
    let port = &container(&objects)["ports"][0];
    assert_eq!(find(&objects, "Service")["spec"]["ports"][0]["targetPort"], port["name"]);
    let policy = &find(&objects, "NetworkPolicy")["spec"]["ingress"][0]["ports"][0]["port"];
    assert_eq!(*policy, port["name"]);
}
