//! Tests the limits of other projects' hubs, and the requests that the plugin refuses.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::bed::{Answer, Ran};
use crate::hubs::{Fake, every, karmada, paths};

fn json_answer(code: u16, body: &Value) -> Answer {
    (code, "application/json", body.to_string()).into()
}

#[test]
fn verbs_of_the_own_sidecar_are_refused_and_name_the_hub() {
    for fake in every() {
        let bed = fake.clone().bed();
        let hub = format!("--hub={}", fake.word);
        for words in [
            &["join", "m3", "--member-context=x"][..],
            &["unjoin", "m1"],
            &["access", "list"],
            &["access", "explain", "-C", "m1", "get", "pods"],
            &["audit", "id"],
        ] {
            let ran = bed.run(&[&[&*hub][..], words].concat());
            let (code, err) = ran.failed();
            assert_eq!(code, 2, "{words:?} {err}");
            let expected = format!(
                "error: `{}` needs kubectl-mc's own sidecar, and context \"host\" ({}) has the hub of {}\n",
                words[0],
                bed.server(),
                fake.title
            );
            assert!(err.starts_with(&expected), "{err}");
            assert!(err.contains("--hub=own"), "{err}");
        }
        assert_eq!(paths(&bed), [""; 0]);
        let version = bed.run(&[&hub, "version"]);
        assert!(version.err.contains("the hub has no such sidecar"), "{version:?}");
    }
}

#[test]
fn unknown_cluster_has_its_exit_code() {
    for word in ["karmada", "clusternet", "rancher"] {
        let fake = every().into_iter().find(|fake| fake.word == word).unwrap();
        for by_kubectl in [false, true] {
            let bed = fake.clone().bed();
            let bed = if by_kubectl { bed.by_kubectl() } else { bed };
            let ran = bed.run(&["-C", "m9", "get", "pods"]);
            let (code, err) = ran.failed();
            assert_eq!(code, 3, "{word}: {err}");
            assert!(err.contains("cluster unknown: "), "{word}: {err}");
            let hub = format!("--hub={word}");
            let named = bed.run(&[&hub, "-C", "m9", "get", "pods"]).err;
            assert!(word != "karmada" || named.contains("hint: there are m1, m2"), "{named}");
        }
    }
    let bed = karmada().bed();
    let ran = bed.run(&["-C", "m1,m9", "get", "pods"]);
    assert_eq!(ran.code, Some(4), "{ran:?}");
    assert!(
        ran.err.contains("m9 | error: cluster unknown: clusters.cluster.karmada.io \"m9\" not found"),
        "{ran:?}"
    );
}

#[test]
fn member_and_hub_errors_are_distinguished() {
    let bed = karmada().serving(|path| {
        let refused = json!({"kind": "Status", "reason": "Forbidden", "message": "pods is forbidden: no"});
        path.contains("/m1/proxy/api/v1/").then(|| json_answer(403, &refused))
    });
    let ran = bed.run(&["-C", "m1,m2", "get", "pods"]);
    assert_eq!(ran.code, Some(4), "{ran:?}");
    let err = "m1 | Error from server (Forbidden): pods is forbidden: no\n1 of 2 clusters failed";
    assert!(ran.err.starts_with(err), "{ran:?}");
    // A refusal by the hub itself names the hub's API.
    let bed = karmada().serving(|path| {
        let refused = json!({
            "kind": "Status", "reason": "Forbidden", "message": "clusters.cluster.karmada.io \"m1\" is forbidden",
            "details": {"name": "m1", "group": "cluster.karmada.io", "kind": "clusters"},
        });
        path.contains("/m1/proxy").then(|| json_answer(403, &refused))
    });
    let ran = bed.run(&["--hub=karmada", "-C", "m1", "get", "pods"]);
    let (_, err) = ran.failed();
    assert!(err.contains("on cluster m1 through Karmada of host \"host\""), "{err}");
    assert!(err.contains("host authorization: clusters.cluster.karmada.io"), "{err}");
    assert!(err.contains("auth can-i get clusters.cluster.karmada.io --subresource=proxy"), "{err}");
}

#[test]
fn unserved_path_of_a_hub_is_an_error_with_a_hint() {
    let fake = every().into_iter().find(|fake| fake.word == "kubeadmiral").unwrap();
    for by_kubectl in [false, true] {
        let bed = fake.clone().serving(|path| {
            let is_absent = path.starts_with("/pre/apis/aggregated.kubeadmiral.io");
            is_absent.then(|| (404, "text/plain", "404 page not found\n".to_owned()).into())
        });
        let bed = if by_kubectl { bed.by_kubectl() } else { bed };
        let ran = bed.run(&["-C", "m1", "get", "pods"]);
        let (code, err) = ran.failed();
        assert_eq!(code, 1, "{err}");
        assert!(err.contains("KubeAdmiral of host"), "{err}");
        assert!(err.contains("hub: 404 page not found"), "{err}");
        assert!(err.contains("by itself serves no path to them"), "{err}");
    }
}

#[test]
fn refused_list_names_the_hub() {
    let bed = karmada().serving(|path| {
        path.ends_with("/v1alpha1/clusters")
            .then(|| json_answer(403, &json!({"kind": "Status", "message": "no"})))
    });
    let ran = bed.run(&["--hub=karmada", "clusters"]);
    let (code, err) = ran.failed();
    assert_eq!(code, 1);
    let expected =
        format!("error: cannot list clusters through Karmada of {}: host authorization: no\n", bed.host());
    assert!(err.starts_with(&expected), "{err}");
    assert!(err.contains("auth can-i list clusters.cluster.karmada.io"), "{err}");
    let ran = bed.run(&["--hub=rancher", "clusters"]);
    let expected =
        format!("error: cannot list clusters through Rancher of {}: hub: 404 page not found\n", bed.host());
    assert!(ran.failed().1.starts_with(&expected), "{ran:?}");
    assert!(!ran.err.contains("sidecar"), "{ran:?}");
}

#[test]
fn name_with_a_slash_or_dots_is_never_in_a_path() {
    let names = ["..", "../../secrets", "a/b", "a%2fb", "a?x", "m1"];
    let karmada = karmada();
    let items = names.map(|name| json!({"metadata": {"name": name}}));
    let bed = Fake { items: json!(items), ..karmada }.bed();
    let ran = bed.run(&["clusters", "-o", "name"]);
    assert_eq!(ran.out, "cluster.proxy.kubectl-mc.dev/m1\n");
    assert!(
        ran.err.starts_with("warning: left out, because it is no name of a cluster: \"..\", "),
        "{ran:?}"
    );
    assert_eq!(bed.run(&["--all-clusters", "get", "pods"]).code, Some(0));
    let clusternet = every().into_iter().find(|fake| fake.word == "clusternet").unwrap();
    let ids = ["../m1", "..", "a/b", "%2e%2e"];
    let items = ids.map(|id| json!({"metadata": {"name": "m3"}, "spec": {"clusterId": id}}));
    let other = Fake { items: json!(items), ..clusternet }.bed();
    assert_eq!(other.run(&["-C", "m3", "get", "pods"]).failed().0, 3);
    for path in paths(&bed).into_iter().chain(paths(&other)) {
        assert!(path.split('/').all(|segment| segment != "..") && !path.contains('%'), "{path}");
    }
}

#[test]
fn template_sends_no_credential_to_another_server() {
    let bed = karmada().bed();
    let port = bed.server().trim_end_matches("/pre").rsplit(':').next().unwrap().to_owned();
    for server in [
        "https://127.0.0.1".to_owned(),
        "http://127.0.0.1".to_owned(),
        format!("https://127.0.0.1:{port}"),
        format!("http://127.0.0.2:{port}"),
        format!("http://localhost:{port}"),
    ] {
        let hub = format!("--hub=template={server}/pre/x/{{cluster}}");
        for words in
            [&["-C", "m1", "get", "pods"][..], &["-C", "m1,m2", "get", "pods"], &["kubeconfig", "m1"]]
        {
            let ran = bed.run(&[&[&*hub][..], words].concat());
            let (code, err) = ran.failed();
            assert_eq!(code, 2, "{err}");
            assert!(err.contains("the host's credential is sent to its own server only"), "{err}");
        }
    }
    assert_eq!(paths(&bed), [""; 0]);
}

#[test]
fn template_names_the_path_of_clusters_without_a_list() {
    let fake = karmada();
    let path = format!("{}{{cluster}}{}", fake.around.0, fake.around.1);
    let bed = fake.bed();
    let server = bed.server().trim_end_matches("/pre").to_owned();
    for template in [format!("--hub=template={path}"), format!("--hub=template={server}/pre{path}")] {
        let ran = bed.run(&[&template, "-C", "m1,m2", "get", "pods", "--no-headers"]);
        assert_eq!(ran.out, "m1    web-of-m1\nm2    web-of-m2\n", "{ran:?}");
        let ran = bed.run(&[&template, "kubeconfig", "m1"]);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
        assert!(ran.out.contains("/clusters/m1/proxy"), "{ran:?}");
        for words in [&["clusters"][..], &["--all-clusters", "get", "pods"], &["-C", "m*", "get", "pods"]] {
            let ran = bed.run(&[&[&*template][..], words].concat());
            let (code, err) = ran.failed();
            assert_eq!(code, 2, "{err}");
            assert!(err.contains("has no list of clusters") && err.contains("-C NAME"), "{err}");
        }
    }
}

#[test]
fn direct_route_is_refused_for_other_hubs() {
    let bed = karmada().bed();
    let ran = bed.run(&["--hub=karmada", "--route=direct", "-C", "m1", "get", "pods"]);
    let (code, err) = ran.failed();
    assert_eq!(code, 1);
    assert!(err.contains("the hub of another project is reached through the host only"), "{err}");
    assert_eq!(paths(&bed), [""; 0]);
    assert_eq!(bed.run(&["--hub=karmada", "--route=auto", "-C", "m1", "get", "pods"]).code, Some(0));
    assert_eq!(
        paths(&bed),
        ["/pre/apis/cluster.karmada.io/v1alpha1/clusters/m1/proxy/api/v1/namespaces/ns/pods"]
    );
}

#[test]
fn standard_input_reaches_every_cluster_of_other_hubs() {
    let bed = karmada().bed();
    bed.kubectl("echo \"$cluster: $(cat)\"");
    let mut child = bed
        .command(&["-C", "m1,m2", "--yes", "apply", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"manifest").unwrap();
    let ran: Ran = child.wait_with_output().unwrap().into();
    assert_eq!(ran.out, "m1 | m1: manifest\nm2 | m2: manifest\n", "{ran:?}");
    assert!(!ran.err.contains("sidecar"), "{ran:?}");
}

#[test]
fn discovered_hub_is_forgotten_after_an_hour() {
    let bed = karmada().bed();
    assert_eq!(bed.run(&["clusters"]).code, Some(0));
    bed.requests();
    let folder = bed.path("home/.cache/kubectl-mc");
    let kept = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let kept = kept
        .into_iter()
        .find(|path| path.file_name().unwrap().to_str().unwrap().starts_with("hub-"))
        .unwrap();
    assert_eq!(fs::read_to_string(&kept).unwrap(), "karmada");
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(61 * 60);
    fs::File::options().write(true).open(&kept).unwrap().set_modified(old).unwrap();
    assert_eq!(bed.run(&["clusters"]).code, Some(0));
    assert_eq!(paths(&bed).len(), 2);
    // A cached word that names no hub is ignored.
    fs::write(&kept, "template=/evil/{cluster}").unwrap();
    assert_eq!(bed.run(&["clusters"]).code, Some(0));
    assert_eq!(paths(&bed).len(), 2);
}

#[test]
fn doctor_names_the_hub_and_its_gaps() {
    let whoami = |user: &'static str| {
        move |path: &str| {
            let review = json!({"status": {"userInfo": {"username": user, "groups": []}}});
            path.ends_with("/pre/apis/authentication.k8s.io/v1/selfsubjectreviews")
                .then(|| json_answer(201, &review))
        }
    };
    let bed = karmada().serving(whoami("jane"));
    let ran = bed.run(&["doctor", "--no-streams"]);
    assert!(ran.out.contains("  ok       hub    Karmada, by discovery\n"), "{ran:?}");
    assert_eq!(ran.out.matches("This machine:").count(), 1, "{ran:?}");
    assert!(ran.out.contains("m1: ok: Kubernetes v1.34.1") && !ran.out.contains("sidecar"), "{ran:?}");
    let bed = karmada().serving(whoami("system:serviceaccount:ns:sa"));
    let ran = bed.run(&["--hub=karmada", "doctor", "--no-streams"]);
    assert!(ran.out.contains("Karmada impersonates a service account with its derived groups"), "{ran:?}");
    let fake = every().into_iter().find(|fake| fake.word == "kubeadmiral").unwrap();
    let ran = fake.serving(whoami("jane")).run(&["doctor", "--no-streams"]);
    assert!(
        ran.out.contains("problem  hub    KubeAdmiral lists clusters here, and serves no path"),
        "{ran:?}"
    );
}

#[test]
fn completion_offers_hubs_and_their_clusters() {
    for fake in every() {
        let bed = fake.clone().bed();
        let ran = bed.run_with("KUBECTL_MC_COMPLETION_TIMEOUT", "20s", &["__complete", "-C", "m"]);
        assert!(ran.out.starts_with("m1") && ran.out.contains("\nm2"), "{} {ran:?}", fake.word);
    }
    let words = karmada().bed().run(&["__complete", "--hub", ""]).out;
    assert!(
        words.starts_with(
            "auto\nown\nkarmada\nkubeadmiral\nclusternet\ncluster-gateway\nrancher\nclusterprofile\nocm\ntemplate=\n"
        ),
        "{words}"
    );
    assert!(karmada().bed().run(&["__complete", "--hub", "kub"]).out.starts_with("kubeadmiral\n:"));
}
