//! Each fault of a host with the hub of another project, with its fix.

use super::*;

#[test]
fn each_known_limit_of_a_hub_has_its_fix() {
    check(&[
        (
            |path| {
                path.ends_with("/selfsubjectreviews").then(|| {
                    answer(201, &json!({"status": {"userInfo": {"username": "system:serviceaccount:ns:ci"}}}))
                })
            },
            &["--hub=karmada", "m1"],
            "warning hub Karmada impersonates a service account with its derived groups, which members refuse\n\
         fix: log in to the host as a user",
        ),
        (
            |path| {
                path.ends_with("/apis/aggregated.kubeadmiral.io/v1alpha1")
                    .then(|| answer(404, &refusal("no")))
            },
            &["--hub=kubeadmiral", "m1"],
            "problem hub KubeAdmiral lists clusters here, and serves no path to them (aggregated.kubeadmiral.io)\n\
         fix: work on contexts of your kubeconfig: kubectl mc FILE clusters --contexts",
        ),
        (
            |path| {
                let items = [json!({"metadata": {"name": "m1"}}), json!({"metadata": {"name": "M 1"}})];
                path.contains("/apis/cluster.karmada.io/v1alpha1/clusters")
                    .then(|| ok(&json!({"items": items})))
            },
            &["--hub=karmada"],
            "warning clusters left out, because it is no name of a cluster: \"M 1\"\n\
             fix: rename the cluster in its hub",
        ),
    ]);
}
