//! Each fault of the sidecar behind the host, with its fix.

use super::*;

#[test]
fn each_fault_of_the_sidecar_has_its_fix() {
    check(&[
        (
            |path| discovery(path, 404, "404 page not found"),
            &[],
            "problem sidecar sidecar not installed: 404 page not found\n\
         fix: an admin of the host runs: kubectl mc FLAGS install; or choose another host by --context=NAME, or its hub by --hub=NAME",
        ),
        (
            |path| discovery(path, 503, "service unavailable"),
            &[],
            "problem sidecar sidecar not available: service unavailable\n\
         fix: see: kubectl FLAGS get apiservice v1alpha1.proxy.kubectl-mc.dev",
        ),
        (
            |path| discovery(path, 500, "etcd"),
            &[],
            "problem sidecar 500: etcd\n\
         fix: see: kubectl FLAGS get --raw /apis/proxy.kubectl-mc.dev/v1alpha1",
        ),
        (
            |path| path.ends_with(DISCOVERY).then(|| answer(403, &refusal("forbidden"))),
            &[],
            "warning sidecar host authorization: forbidden\n\
         fix: an admin of the host binds ClusterRole system:discovery to system:authenticated",
        ),
        (
            |path| version(path, "v99.0.0"),
            &[],
            "warning sidecar v99.0.0; the plugin is VERSION\n\
         fix: upgrade the plugin, with krew: kubectl krew upgrade mc",
        ),
        (
            |path| version(path, "v0.0.1"),
            &[],
            "warning sidecar v0.0.1; the plugin is VERSION\n\
         fix: an admin of the host upgrades the sidecar: kubectl mc FLAGS install --image=NEW, with the flags and values of the installation",
        ),
        (
            |path| {
                path.contains("/apiservices/").then(|| {
                    ok(&json!({"status": {"conditions": [
                        {"type": "Available", "status": "False", "reason": "MissingEndpoints", "message": "none"},
                    ]}}))
                })
            },
            &[],
            "problem registration the APIService is not available: MissingEndpoints: none\n\
         fix: kubectl FLAGS describe apiservice v1alpha1.proxy.kubectl-mc.dev",
        ),
    ]);
}

fn discovery(path: &str, code: u16, message: &str) -> Option<Answer> {
    path.ends_with(DISCOVERY).then(|| Answer::from((code, "text/plain", format!("{message}\n"))))
}

fn version(path: &str, version: &str) -> Option<Answer> {
    path.contains("/openapi/v3/").then(|| ok(&json!({"info": {"title": "kubectl-mc", "version": version}})))
}

#[test]
fn sidecar_of_unknown_version_is_no_finding() {
    let unknown: Script = |path| path.contains("/openapi/v3/").then(|| answer(404, &refusal("no")));
    let ran = bed(unknown).run(&["doctor", "m1"]);
    assert!(ran.code == Some(0) && ran.out.contains("; the host does not know its version yet\n"), "{ran:?}");
}
