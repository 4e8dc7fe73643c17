//! `kubectl mc authz apply`, `token` and `remove` change their own objects on a real host, and leave the
//! others.

use anyhow::{Context, Result, ensure};
use harness::http1::Endpoint;
use harness::karmada_host::KarmadaHost;
use harness::wait::{SOON, eventually};
use serde_json::Value;

use super::cluster_authorization::program;

const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:karmada:a:agent";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const POLICY: &str = "kubectl-mc-karmada-agents";
const TOKENS: &str =
    "/api/v1/namespaces/kube-system/secrets?labelSelector=fleet.kubectl-mc.dev%2Fkarmada-agent";
const SECRETS: &str = "/api/v1/namespaces/karmada-cluster/secrets";

#[test]
fn apply_narrows_the_rights_of_a_registration() -> Result<()> {
    let host = KarmadaHost::take("k1", program())?;
    host.grant_as_registered("a")?;
    let before = host.api.get(ROLE)?["rules"].clone();
    let without = ["--without-webhook", "--without-admission-webhook"];
    let apply = [&["authz", "apply", "--for=karmada", "a"][..], &without].concat();
    let judged = host.plugin.ok(&[&apply[..], &["--dry-run"]].concat())?;
    let role = "clusterrole.rbac.authorization.k8s.io/system:karmada:a:agent configured";
    ensure!(judged.contains(&format!("{role} (server dry run)")), "{judged}");
    let diff = host.plugin.ok(&[&apply[..], &["--diff"]].concat())?;
    ensure!(
        diff.contains("+++ merged/clusterrole.rbac.authorization.k8s.io/system:karmada:a:agent"),
        "{diff}"
    );
    ensure!(host.api.get(ROLE)?["rules"] == before, "a dry run or a diff changed the role");
    ensure!(status(&host, &format!("{POLICIES}/{POLICY}"))? == 404, "a dry run made a policy");

    let applied = host.plugin.ok(&apply)?;
    ensure!(applied.lines().any(|line| line == role), "{applied}");
    let rules = host.api.get(ROLE)?["rules"].clone();
    ensure!(!rules.to_string().contains("leases"), "leases of all namespaces stay granted: {rules}");
    host.api.get(&format!("{POLICIES}/{POLICY}"))?;
    let again = host.plugin.ok(&apply)?;
    ensure!(again.lines().all(|line| line.ends_with(" unchanged")), "{again}");

    // Without names, the protection is removed, and the agents keep the rights that they need.
    let remove = ["authz", "remove", "--for=karmada"];
    let refused = host.plugin.run(&remove)?;
    ensure!(refused.code != 0, "no confirmation was asked for: {refused:?}");
    let judged = host.plugin.ok(&[&remove[..], &["--dry-run"]].concat())?;
    ensure!(judged.contains(POLICY) && status(&host, &format!("{POLICIES}/{POLICY}"))? == 200, "{judged}");
    host.plugin.ok(&[&remove[..], &["--yes"]].concat())?;
    for policy in [POLICY, "kubectl-mc-karmada-registration"] {
        ensure!(status(&host, &format!("{POLICIES}/{policy}"))? == 404, "{policy} is left");
    }
    ensure!(host.api.get(ROLE)?["rules"] == rules, "the agent lost its rights");
    ensure!(host.plugin.run(&[&remove[..], &["--yes"]].concat())?.code == 0, "a second removal fails");
    Ok(())
}

#[test]
fn token_is_for_one_cluster_and_removed_with_its_agent() -> Result<()> {
    let host = KarmadaHost::take("k1", program())?.with_bootstrap_tokens()?;
    let dry = host.plugin.ok(&["authz", "token", "a", "--dry-run"])?;
    ensure!(dry.ends_with("created (server dry run)\n") && tokens(&host)?.is_empty(), "{dry}");
    let command = host.plugin.ok(&["authz", "token", "a", "--ttl=1h", "--server=host.example:6443"])?;
    ensure!(
        command.starts_with("karmadactl register host.example:6443 --cluster-name=a --token=")
            && command.contains(&format!(" --discovery-token-ca-cert-hash={}", pin(&host)?)),
        "{command}"
    );
    let token =
        command.split("--token=").nth(1).and_then(|rest| rest.split(' ').next()).context("no token")?;
    eventually("the token is known", SOON, || {
        let (code, review) = self_review(&host, token)?;
        let groups = review["status"]["userInfo"]["groups"].to_string();
        if code == 201 {
            for group in ["karmada:default-cluster-token", "karmada:cluster:a"] {
                ensure!(groups.contains(&format!("\"system:bootstrappers:{group}\"")), "{review}");
            }
        }
        Ok((code == 201).then_some(()))
    })?;
    host.plugin.ok(&["authz", "token", "b"])?;
    ensure!(tokens(&host)? == ["a", "b"], "{:?}", tokens(&host)?);

    // For a stolen agent, its rights and tokens are removed, and those of others stay. A
    // registration wrote the RBAC of a.
    host.grant_as_registered("a")?;
    let without = ["--without-webhook", "--without-admission-webhook"];
    host.plugin.ok(&[&["authz", "apply", "--for=karmada", "b"][..], &without].concat())?;
    let (a, b) = (host.agent("a")?, host.agent("b")?);
    let own = |cluster: &str| format!("{SECRETS}/{cluster}");
    eventually("both agents have their rights", SOON, || {
        let codes = [a.ask("GET", &own("a"), None)?.0, b.ask("GET", &own("b"), None)?.0];
        Ok((codes == [404, 404]).then_some(()))
    })?;
    host.plugin.ok(&["authz", "remove", "--for=karmada", "a", "--yes"])?;
    eventually("the rights are gone", SOON, || Ok((a.ask("GET", &own("a"), None)?.0 == 403).then_some(())))?;
    ensure!(b.ask("GET", &own("b"), None)?.0 == 404, "another agent lost its rights");
    ensure!(tokens(&host)? == ["b"], "{:?}", tokens(&host)?);
    eventually("the token is refused", SOON, || Ok((self_review(&host, token)?.0 == 401).then_some(())))?;
    host.plugin.ok(&["authz", "remove", "--for=karmada", "b", "--yes"]).map(drop)
}

fn status(host: &KarmadaHost, path: &str) -> Result<u16> {
    Ok(host.api.request("GET", path, "", "")?.status())
}

/// The clusters that have a token.
fn tokens(host: &KarmadaHost) -> Result<Vec<String>> {
    let list = host.api.get(TOKENS)?;
    let items = list["items"].as_array().context("no list")?;
    let cluster = |secret: &Value| {
        let labels = &secret["metadata"]["labels"];
        labels["fleet.kubectl-mc.dev/karmada-agent"].as_str().unwrap_or_default().to_owned()
    };
    let mut clusters: Vec<_> = items.iter().map(cluster).collect();
    clusters.sort();
    Ok(clusters)
}

/// The host's SelfSubjectReview of the token.
fn self_review(host: &KarmadaHost, token: &str) -> Result<(u16, Value)> {
    let body = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
    let head =
        "POST /apis/authentication.k8s.io/v1/selfsubjectreviews HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";
    let request = format!(
        "{head}Authorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = Endpoint::cluster(host.cluster, None)?.exchange(request.as_bytes())?;
    Ok((answer.status(), serde_json::from_slice(&answer.body).unwrap_or_default()))
}

/// The hash of the CA's public key, computed by openssl.
fn pin(host: &KarmadaHost) -> Result<String> {
    let script =
        "openssl x509 -pubkey -noout -in \"$1\" | openssl pkey -pubin -outform der | openssl dgst -sha256 -r";
    let ca = host.cluster.dir.join("ca.crt");
    let output = std::process::Command::new("sh").args(["-c", script, "sh"]).arg(&ca).output()?;
    let hash = String::from_utf8(output.stdout)?;
    let hash = hash.split(' ').next().filter(|hash| hash.len() == 64).context("openssl gives no hash")?;
    Ok(format!("sha256:{hash}"))
}
