//! Tests `kubectl mc install` where it needs no cluster, or where the cluster lacks something.

use crate::bed::Bed;

#[test]
fn host_without_front_proxy_stops_install_before_apply() {
    let map = r#"{"apiVersion": "v1", "kind": "ConfigMap", "data": {"client-ca-file": "-----BEGIN"}}"#;
    let bed = Bed::answering((200, "application/json", map.to_owned()));
    let ran = bed.run(&["install", "--image=i"]);
    let (code, error) = ran.failed();
    assert_eq!(code, 1);
    assert!(error.contains("error: nothing was applied: "), "{error}");
    assert!(error.contains("no requestheader-client-ca-file"), "{error}");
    assert!(
        error.contains("hint: start the host's kube-apiserver with --requestheader-client-ca-file"),
        "{error}"
    );
    assert!(bed.requests().iter().all(|head| head.starts_with("GET ")), "something was written");
}

#[test]
fn host_before_the_minimum_stops_install_before_apply() {
    let bed = Bed::answering((200, "application/json", r#"{"gitVersion": "v1.29.14-gke.7"}"#.to_owned()));
    let ran = bed.run(&["install", "--image=i"]);
    let (code, error) = ran.failed();
    assert_eq!(code, 1);
    assert!(
        error.contains(
            "nothing was applied: the host is Kubernetes v1.29.14-gke.7; a host must have Kubernetes 1.30"
        ),
        "{error}"
    );
    assert!(error.contains("hint: upgrade the host"), "{error}");
    assert!(bed.requests().iter().all(|head| head.starts_with("GET ")), "something was written");
}

#[test]
fn inventories_of_two_hubs_are_refused() {
    let bed = Bed::unreachable();
    let ran = bed.run(&["install", "--image=i", "--inventory=membercluster,karmada,kubeadmiral"]);
    let (code, error) = ran.failed();
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("karmada and kubeadmiral are inventories of different hosts"), "{error}");
    assert!(error.contains("hint: --inventory=membercluster,karmada or "), "{error}");
}

#[test]
fn install_refuses_a_helm_release() {
    let keys = ["client-ca-file", "username-headers", "group-headers"]
        .map(|key| format!(r#""requestheader-{key}": "x""#));
    let map = format!(r#"{{"data": {{{}}}}}"#, keys.join(","));
    let deployment = r#"{"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"},
        "annotations": {"meta.helm.sh/release-name": "proxy", "meta.helm.sh/release-namespace": "mc"}}}"#;
    let bed = Bed::serving(move |path| {
        let answer = if path.contains("deployments") { deployment.to_owned() } else { map.clone() };
        (200, "application/json", answer)
    });
    let ran = bed.run(&["install", "--image=i"]);
    let (_, error) = ran.failed();
    assert!(error.contains("installed by Helm, as release \"proxy\""), "{error}");
    assert!(error.contains("hint: upgrade it by Helm: helm -n mc upgrade proxy"), "{error}");
    assert!(bed.requests().iter().all(|head| head.starts_with("GET ")), "something was written");
}

#[test]
fn printing_sends_no_request() {
    let bed = Bed::unreachable();
    let ran =
        bed.run(&["install", "--image=registry.example/mc-sidecar:1", "--namespace=elsewhere", "-o", "yaml"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert!(ran.out.contains("image: registry.example/mc-sidecar:1"), "{}", ran.out);
    assert!(!ran.out.contains("kubectl-mc-system"), "{}", ran.out);
    let kinds =
        ran.out.split("---\n").map(|one| one.lines().find(|line| line.starts_with("kind: ")).unwrap());
    let kinds = kinds.collect::<Vec<_>>();
    assert_eq!((kinds[0], *kinds.last().unwrap()), ("kind: Namespace", "kind: APIService"));
    assert!(kinds.contains(&"kind: Deployment"), "{kinds:?}");
}

#[test]
fn unreachable_host_is_named() {
    let bed = Bed::unreachable();
    for arguments in [&["install", "--image=i"][..], &["uninstall"]] {
        let ran = bed.run(arguments);
        let (code, error) = ran.failed();
        assert_eq!(code, 1);
        assert!(
            error.contains(&format!(" from the host, {}: ", bed.host().replacen("host", "context", 1))),
            "{error}"
        );
        assert!(error.contains("hint: --context=NAME names another host"), "{error}");
    }
}

#[test]
fn install_without_an_image_names_the_flag() {
    let ran = Bed::unreachable().run(&["install", "-o", "yaml"]);
    let (code, error) = ran.failed();
    assert_eq!(code, 2);
    assert!(
        error.contains("error: no image of mc-sidecar: this build of kubectl-mc does not name one"),
        "{error}"
    );
    assert!(error.contains("hint: --image=IMAGE names the image"), "{error}");
}

#[test]
fn wrong_values_name_the_file_and_the_value() {
    let bed = Bed::unreachable();
    let file = tempfile::NamedTempFile::new().unwrap();
    let flag = format!("--values={}", file.path().display());
    for (values, told) in
        [("replica: 3\n", "unknown field `replica`"), ("certificates: Secret\n", "tls.secretName is empty")]
    {
        std::fs::write(file.path(), values).unwrap();
        let ran = bed.run(&["install", "--image=i", "-o", "yaml", &flag]);
        let (code, error) = ran.failed();
        assert_eq!(code, 2);
        assert!(error.contains(told), "{error}");
    }
    let ran = bed.run(&["install", "--image=i", "-o", "yaml", "--values=/no/such.yaml"]);
    let (_, error) = ran.failed();
    assert!(error.contains("cannot read the values of /no/such.yaml: "), "{error}");
}

#[test]
fn flags_override_the_file_of_values() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "image: {repository: r.example/i, tag: v1}\nreplicas: 3\nsecurePort: 4443\n")
        .unwrap();
    let flag = format!("--values={}", file.path().display());
    let ran = Bed::unreachable().run(&["install", "-o", "yaml", &flag, "--replicas=4"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for line in ["image: r.example/i:v1", "replicas: 4", "--secure-port=4443"] {
        assert!(ran.out.contains(line), "no {line}: {}", ran.out);
    }
    let ran = Bed::unreachable().run(&["install", "-o", "yaml", &flag, "--image=other:2"]);
    assert!(ran.out.contains("image: other:2"), "{}", ran.out);
}

#[test]
fn conflicting_flags_are_usage_errors() {
    let bed = Bed::unreachable();
    for arguments in [
        &["install"] as &[&str],
        &["install", "--image=i", "--run-on=c"],
        &["install", "--image=i", "--endpoint=10.0.0.1:1"],
        &["install", "--image=i", "--run-on=c", "--endpoint=10.0.0.1:1", "--host-server=host.example"],
        &["install", "--image=i", "--run-on=c", "--endpoint=10.0.0.1:1", "--host-server=http://host.example"],
        &["install", "--image=i", "--dry-run", "--diff"],
        &["install", "--image=i", "--replicas=0"],
        &["install", "--image=i", "--toleration=a:Sometimes"],
        &["install", "--image=i", "--limits=memory"],
        &["install", "--image="],
        &["install", "--image=two words"],
        &["install", "--image=i", "--namespace=../kube-system"],
        &["uninstall", "--namespace=Kube-System"],
        &[
            "install",
            "--image=i",
            "--certificates=cert-manager",
            "--run-on=c",
            "--external-name=sidecar.example",
        ],
        &["--cluster=m1", "install", "--image=i"],
        &["uninstall", "--all-clusters"],
    ] {
        let ran = bed.run(arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}: {ran:?}");
        assert_eq!(ran.out, "");
    }
}

/// A host whose sidecars were installed with these flags.
fn installed_with(flags: &str) -> Bed {
    let keys = ["client-ca-file", "username-headers", "group-headers"]
        .map(|key| format!(r#""requestheader-{key}": "x""#));
    let map = format!(r#"{{"data": {{{}}}}}"#, keys.join(","));
    let deployment = serde_json::json!({
        "kind": "Deployment",
        "metadata": {
            "name": "mc-sidecar", "labels": {"app.kubernetes.io/managed-by": "kubectl-mc"},
            "annotations": {"fleet.kubectl-mc.dev/flags": flags},
        },
    });
    Bed::serving(move |path| {
        let answer = match path {
            "/version" => r#"{"gitVersion": "v1.36.0"}"#.to_owned(),
            path if path.contains("/deployments") => deployment.to_string(),
            _ => map.clone(),
        };
        (200, "application/json", answer)
    })
}

#[test]
fn install_without_flags_of_the_last_run_is_refused() {
    let bed = installed_with(r#"["--image=i", "--replicas=3", "--sidecar-flag=--max-tunnels=5"]"#);
    let ran = bed.run(&["--context=host", "install", "--image=j", "--sidecar-flag=--v=2"]);
    let (code, error) = ran.failed();
    assert_eq!(code, 2, "{error}");
    assert!(
        error.contains("flags that this command lacks: --replicas=3 --sidecar-flag=--max-tunnels=5\n"),
        "{error}"
    );
    assert!(
        error.contains(
            "hint: keep them: kubectl mc --context=host install -n kubectl-mc-system --image=j --sidecar-flag=--v=2 \
             --replicas=3 --sidecar-flag=--max-tunnels=5; --reset-flags installs without them"
        ),
        "{error}"
    );
    let writes =
        bed.requests().into_iter().filter(|head| !head.starts_with("GET ") && !head.contains("dryRun=All"));
    assert_eq!(writes.count(), 0, "something was written");
}

#[test]
fn dry_run_warns_of_flags_that_it_lacks() {
    let bed = installed_with(r#"["--replicas=3"]"#);
    for flag in ["--dry-run", "--diff"] {
        let ran = bed.run(&["install", "--image=j", flag]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.err.contains("flags that this command lacks: --replicas=3\n"), "{ran:?}");
        let again = bed.run(&["install", "--image=j", flag, "--reset-flags"]);
        assert!(!again.err.contains("lacks"), "{again:?}");
        let changed = bed.run(&["install", "--image=j", flag, "--replicas=1"]);
        assert!(!changed.err.contains("lacks"), "{changed:?}");
    }
}

#[test]
fn sidecar_flag_given_twice_is_refused() {
    let bed = Bed::unreachable();
    let file = bed.path("values.yaml");
    std::fs::write(&file, "extraArgs: [--max-tunnels=7]\n").unwrap();
    let values = format!("--values={}", file.display());
    for (words, expected) in [
        (
            &["--sidecar-flag=--max-tunnels=5", &values][..],
            "the sidecar would get a flag twice: --max-tunnels=7 and --max-tunnels=5",
        ),
        (
            &["--secure-port=1234", "--sidecar-flag=--secure-port=4321"],
            "the sidecar would get a flag twice: --secure-port=1234 and --secure-port=4321",
        ),
    ] {
        let ran = bed.run(&[&["install", "--image=i", "-o", "yaml"], words].concat());
        let (code, error) = ran.failed();
        assert_eq!(code, 2, "{error}");
        assert!(error.contains(expected) && error.contains("hint: give it once"), "{error}");
    }
}
