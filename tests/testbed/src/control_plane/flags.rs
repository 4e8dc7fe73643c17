//! Builds the flags of a control plane's programs.

use std::net::SocketAddr;
use std::path::Path;

use super::AUTHENTICATION;
use crate::network::Ports;
use crate::plan::{ClusterPlan, HOST};

pub(super) fn etcd_args(dir: &Path, ports: &Ports) -> Vec<String> {
    let (client, peer) = (format!("http://{}", ports.etcd), format!("http://{}", ports.etcd_peer));
    vec![
        format!("--data-dir={}", dir.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        // Nothing in a bed needs to survive a crash of the machine.
        "--unsafe-no-fsync".to_owned(),
        // A single etcd has no follower that needs a heartbeat.
        "--heartbeat-interval=1000".to_owned(),
        "--election-timeout=5000".to_owned(),
        "--log-level=warn".to_owned(),
    ]
}

pub(super) fn apiserver_args(loopback: bool, plan: &ClusterPlan, ports: &Ports, dir: &Path) -> Vec<String> {
    let file = |name: &str| dir.join(name).display().to_string();
    let address = ports.apiserver.ip();
    let mut args = vec![
        format!("--etcd-servers=http://{}", ports.etcd),
        format!("--bind-address={address}"),
        format!("--advertise-address={address}"),
        format!("--secure-port={}", ports.apiserver.port()),
        format!("--tls-cert-file={}", file("apiserver.crt")),
        format!("--tls-private-key-file={}", file("apiserver.key")),
        format!("--client-ca-file={}", file("ca.crt")),
        format!("--service-account-key-file={}", file("service-account.pub")),
        format!("--service-account-signing-key-file={}", file("service-account.key")),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        "--allow-privileged=true".to_owned(),
        format!("--requestheader-client-ca-file={}", file("front-proxy-ca.crt")),
        "--requestheader-allowed-names=front-proxy-client".to_owned(),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        format!("--proxy-client-cert-file={}", file("front-proxy-client.crt")),
        format!("--proxy-client-key-file={}", file("front-proxy-client.key")),
        format!("--kubelet-client-certificate={}", file("kubelet-client.crt")),
        format!("--kubelet-client-key={}", file("kubelet-client.key")),
        format!("--kubelet-certificate-authority={}", file("ca.crt")),
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        format!("--audit-policy-file={}", file("audit-policy.yaml")),
        format!("--audit-log-path={}", file("audit.log")),
        // Each event must be in the file before its answer is sent, because tests read the file.
        "--audit-log-mode=blocking".to_owned(),
        // Service addresses are not routed here, so the aggregator uses endpoints. Endpoints may not be
        // loopback addresses, so without a bridge the aggregator uses an ExternalName instead.
        format!("--enable-aggregator-routing={}", !loopback),
    ];
    if plan.is_at_least(32) {
        args.push("--requestheader-uid-headers=X-Remote-Uid".to_owned());
    }
    if loopback {
        args.push("--endpoint-reconciler-type=none".to_owned());
    }
    if plan.name == HOST {
        args.push(format!("--token-auth-file={}", file("tokens.csv")));
    }
    if takes_id_tokens(plan) {
        args.push(format!("--authentication-config={}", file(AUTHENTICATION)));
    }
    args
}

/// True for the host, and for clusters that may become one.
pub(super) fn takes_id_tokens(plan: &ClusterPlan) -> bool {
    plan.name == HOST || plan.spare
}

pub(super) fn controller_manager_args(ports: &Ports, dir: &Path) -> Vec<String> {
    let file = |name: &str| dir.join(name).display().to_string();
    let mut args = client_args("kube-controller-manager", ports.controller_manager, dir);
    args.extend([
        format!("--service-account-private-key-file={}", file("service-account.key")),
        format!("--root-ca-file={}", file("ca.crt")),
        format!("--cluster-signing-cert-file={}", file("ca.crt")),
        format!("--cluster-signing-key-file={}", file("ca.key")),
        "--use-service-account-credentials=true".to_owned(),
        // kubeadm turns this on, too: it signs cluster-info for bootstrap tokens.
        format!(
            "--controllers=*,bootstrapsigner,{}",
            UNUSED_CONTROLLERS.map(|name| format!("-{name}-controller")).join(",")
        ),
        // At its default rate, it needs four seconds to get a token for each controller.
        "--kube-api-qps=1000".to_owned(),
        "--kube-api-burst=1000".to_owned(),
    ]);
    args
}

pub(super) fn scheduler_args(ports: &Ports, dir: &Path) -> Vec<String> {
    client_args("kube-scheduler", ports.scheduler, dir)
}

/// The flags that controller manager and scheduler share.
fn client_args(program: &str, address: SocketAddr, dir: &Path) -> Vec<String> {
    let kubeconfig = dir.join(format!("{program}.kubeconfig"));
    let kubeconfig = kubeconfig.display();
    vec![
        format!("--kubeconfig={kubeconfig}"),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        format!("--bind-address={}", address.ip()),
        format!("--secure-port={}", address.port()),
        "--leader-elect=false".to_owned(),
    ]
}

/// Controllers of objects that no test has: persistent volumes, and metrics of pods to scale by.
const UNUSED_CONTROLLERS: [&str; 7] = [
    "ephemeral-volume",
    "horizontal-pod-autoscaler",
    "persistentvolume-attach-detach",
    "persistentvolume-binder",
    "persistentvolume-expander",
    "persistentvolume-protection",
    "persistentvolumeclaim-protection",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn apiserver(name: &str, loopback: bool) -> Vec<String> {
        apiserver_of(name, false, loopback)
    }

    fn apiserver_of(name: &str, spare: bool, loopback: bool) -> Vec<String> {
        let plan = ClusterPlan {
            name: name.into(),
            version: "v1.36.3".into(),
            index: 1,
            node: false,
            karmada: false,
            spare,
        };
        apiserver_as_planned(&plan, loopback)
    }

    fn apiserver_as_planned(plan: &ClusterPlan, loopback: bool) -> Vec<String> {
        let ports = Ports::of(plan, loopback).unwrap();
        apiserver_args(loopback, plan, &ports, Path::new("/bed/m1"))
    }

    fn has(args: &[String], wanted: &str) -> bool {
        args.iter().any(|arg| arg == wanted)
    }

    #[test]
    fn only_hosts_authenticate_users() {
        let tokens = "--token-auth-file=/bed/m1/tokens.csv";
        let issuers = "--authentication-config=/bed/m1/authentication.yaml";
        let known = |args: Vec<String>| [tokens, issuers].map(|flag| has(&args, flag));
        assert_eq!(known(apiserver("host", false)), [true, true]);
        assert_eq!(known(apiserver_of("s1", true, false)), [false, true]);
        assert_eq!(known(apiserver("m1", false)), [false, false]);
    }

    #[test]
    fn apiserver_gets_only_flags_that_its_version_has() {
        let flag = "--requestheader-uid-headers=X-Remote-Uid";
        let of = |version: &str| {
            let (name, version) = ("m2".into(), version.into());
            let plan = ClusterPlan { name, version, index: 2, node: false, karmada: false, spare: false };
            has(&apiserver_as_planned(&plan, false), flag)
        };
        assert_eq!(["v1.30.0", "v1.31.9", "v1.32.0", "v1.36.3"].map(of), [false, false, true, true]);
    }

    #[test]
    fn cluster_on_the_bridge_has_its_own_address_and_usual_port() {
        let args = apiserver("m1", false);
        assert!(has(&args, "--bind-address=10.88.0.11") && has(&args, "--secure-port=6443"), "{args:?}");
        assert!(has(&args, "--enable-aggregator-routing=true"));
    }

    #[test]
    fn aggregator_without_a_bridge_uses_no_endpoints() {
        let args = apiserver("m1", true);
        assert!(has(&args, "--bind-address=127.0.0.1") && has(&args, "--endpoint-reconciler-type=none"));
        assert!(has(&args, "--enable-aggregator-routing=false"));
    }
}
