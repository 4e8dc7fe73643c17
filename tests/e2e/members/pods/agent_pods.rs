//! `kubectl mc join --agent` with the agent in pods of the member: the member is joined, used, renewed and
//! removed.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use harness::api::Api;
use harness::asking::while_asking;
use harness::bed::{bed, host};
use harness::both_sides::both;
use harness::caller::Caller;
use harness::own_agent::until;
use harness::proxy_authority::ProxyAuthority;
use harness::spare_host::{SIDECAR, SpareHost};
use harness::tool::{Output, Tool};
use harness::turn::Turn;
use harness::wait::{SOON, eventually};
use tempfile::NamedTempFile;
use testbed::programs;

use crate::members::EXPIRED;
use crate::members::agent_join::{Objects, text};
use crate::members::joined::follow;
use crate::plugin;

/// A member with a node. The host's administrator has a context for it.
struct Member {
    spare: SpareHost,
    both: Caller,
    values: NamedTempFile,
    /// The member's kube-apiserver: pods of the bed have no DNS.
    target: String,
}

impl Member {
    fn take() -> Result<Self> {
        let spare = SpareHost::take_member()?;
        let both = both(spare.cluster, |_| {})?;
        let values = NamedTempFile::new()?;
        let service = Api::admin(spare.cluster)?.get("/api/v1/namespaces/default/services/kubernetes")?;
        let address = service["spec"]["clusterIP"].as_str().context("no address")?;
        let target = format!("{address}:443");
        std::fs::write(values.path(), format!("image: {{pullPolicy: Never}}\ntarget: {target}\n"))?;
        Ok(Self { spare, both, values, target })
    }

    fn flags(&self) -> Vec<String> {
        vec!["--agent".to_owned(), self.image(), format!("--agent-values={}", self.values.path().display())]
    }

    fn image(&self) -> String {
        format!("--agent-image={SIDECAR}")
    }

    fn join(&self, flags: &[String]) -> Result<Output> {
        let words = ["join", NAME, "--member-context=member", "--timeout=45s"].map(str::to_owned);
        plugin(&self.both)?.run(&[&words, flags].concat())
    }

    fn unjoin(&self) -> Result<()> {
        plugin(&self.both)?.ok(&["unjoin", NAME, "--member-context=member", "--yes"]).map(drop)
    }
}

#[test]
fn member_is_joined_used_and_removed_through_its_agent() -> Result<()> {
    let member = Member::take()?;
    let before = Objects::of(member.spare.cluster, NAME)?;
    let said = member.join(&member.flags())?.success()?;
    ensure!(said.contains(&format!("{NAME} is joined: Kubernetes ")), "{said}");
    ensure!(said.contains(" through its agent\n") && said.contains("its agent's token lives "), "{said}");
    follow(&member.both, &said)?;
    let plugin = plugin(&member.both)?;
    let pods = plugin.ok(&["-C", NAME, "get", "pods", "-n", "kubectl-mc-agent", "-o", "name"])?;
    ensure!(pods.lines().count() == 2, "{pods}");
    // The column is empty for members without an agent.
    let table = plugin.ok(&["clusters", "-o", "wide"])?;
    let column = table.find("CONNECTED").with_context(|| format!("no such column: {table}"))?;
    let row =
        |name: &str| table.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap_or_default();
    ensure!(row(NAME).get(column..).is_some_and(|rest| rest.starts_with("True ")), "{table}");
    ensure!(row("m1").get(column..).is_some_and(|rest| rest.starts_with(' ')), "{table}");

    let again = member.join(&member.flags())?.success()?;
    let changed = again.lines().filter(|line| line.ends_with(" created") || line.ends_with(" configured"));
    let new_tokens = ["manager", "member"].map(|of| format!("host: secret/{NAME}.{of} configured"));
    ensure!(changed.eq(new_tokens.iter().map(String::as_str)), "{again}");
    member.unjoin()?;
    Objects::of(member.spare.cluster, NAME)?.same_as(&before)
}

#[test]
fn direct_member_gets_an_agent_and_a_direct_address_again() -> Result<()> {
    let member = Member::take()?;
    let before = Objects::of(member.spare.cluster, NAME)?;
    member.join(&[])?.success()?;
    let namespaces = format!("/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/{NAME}/proxy/api/v1/namespaces");
    while_asking(&host()?, &namespaces, || {
        let said = member.join(&member.flags())?.success()?;
        ensure!(said.contains(" through its agent\n"), "{said}");
        member.join(&[])?.failure(&["is joined through an agent"])?;
        let said = member.join(&[format!("--server={}", member.spare.cluster.server)])?.success()?;
        ensure!(said.contains("member: namespace/kubectl-mc-agent deleted"), "{said}");
        Ok(())
    })?;
    let table =
        plugin(&member.both)?.ok(&["clusters", NAME, "-o", "jsonpath={.status.conditions[*].type}"])?;
    ensure!(!table.contains("Connected"), "{table}");
    member.unjoin()?;
    Objects::of(member.spare.cluster, NAME)?.same_as(&before)
}

#[test]
fn renewal_restores_an_agent_whose_account_was_deleted() -> Result<()> {
    let _turn = Turn::take(EXPIRED)?;
    let member = Member::take()?;
    member.join(&member.flags())?.success()?;
    for renew in [&["join", NAME, "--renew", "--member-context=member"][..], &["join", "--all-expired"]] {
        // The token is invalid, as after a long outage.
        host()?.delete(&format!("/api/v1/namespaces/kubectl-mc-agents/serviceaccounts/{NAME}"))?;
        eventually(
            "the agent is away",
            8 * SOON,
            || Ok((condition(&member.both)? == "False").then_some(())),
        )?;
        let said = plugin(&member.both)?.ok(renew)?;
        ensure!(said.contains(&format!("{NAME} has new tokens: ")), "{said}");
        ensure!(said.contains("its agent's token lives "), "{said}");
        ensure!(condition(&member.both)? == "True");
        plugin(&member.both)?.ok(&["-C", NAME, "get", "namespaces"])?;
    }
    let said = plugin(&member.both)?.ok(&["join", "--all-expired"])?;
    ensure!(said == "no member needs new tokens\n", "{said}");
    member.unjoin()
}

#[test]
fn changed_ca_of_the_host_is_tried_by_new_pods() -> Result<()> {
    let member = Member::take()?;
    member.join(&member.flags())?.success()?;
    let file = NamedTempFile::new()?;
    let flag = format!("--agent-server-ca={}", file.path().display());
    let renew = |authorities: &str, timeout: &str| -> Result<Output> {
        std::fs::write(file.path(), authorities)?;
        let words = ["join", NAME, "--agent", "--renew", "--member-context=member", &flag, timeout];
        plugin(&member.both)?.run(&words)
    };
    let (present, other) = (std::fs::read_to_string(&bed()?.host.ca_certificate)?, ProxyAuthority::new()?);
    let said = renew(&other.pem(), "--timeout=10s")?;
    said.failure(&[&format!("the agent of {NAME}"), "is not connected", "--agent-server-ca"])?;
    // The old pods keep running.
    plugin(&member.both)?.ok(&["-C", NAME, "get", "namespaces"])?;
    let said = renew(&format!("{present}{}", other.pem()), "--timeout=60s")?.success()?;
    let line = format!("{NAME}: its agent verifies the host by the CA of --agent-server-ca\n");
    ensure!(said.contains(&line), "{said}");
    let secret =
        Api::admin(member.spare.cluster)?.get("/api/v1/namespaces/kubectl-mc-agent/secrets/mc-agent")?;
    ensure!(text(&secret, "ca.crt")?.matches("BEGIN").count() == 2, "{secret}");
    plugin(&member.both)?.ok(&["-C", NAME, "get", "namespaces"])?;
    member.unjoin()
}

#[test]
fn printed_commands_start_an_agent_when_pasted() -> Result<()> {
    let member = Member::take()?;
    let before = Objects::of(member.spare.cluster, NAME)?;
    let print = [member.flags(), vec!["--print".to_owned()]].concat();
    let text = member.join(&print)?.success()?;
    ensure!(!text.contains("eyJ"), "a token is printed");
    let mut path = bed()?.bin.clone().into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let pasted = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &text])
        .env("KUBECONFIG", member.both.kubeconfig())
        .env("PATH", path)
        .stdin(Stdio::null())
        .output()?;
    let told =
        [&pasted.stdout, &pasted.stderr].map(|text| String::from_utf8_lossy(text).into_owned()).concat();
    ensure!(pasted.status.success(), "{told}");
    plugin(&member.both)?.ok(&["-C", NAME, "get", "namespaces"])?;
    member.unjoin()?;
    Objects::of(member.spare.cluster, NAME)?.same_as(&before)
}

/// The joiner has no context for the member: the member's pods send the data that the host needs.
#[test]
fn one_manifest_enrolls_a_member_by_its_pods() -> Result<()> {
    let member = Member::take()?;
    let before = Objects::of(member.spare.cluster, NAME)?;
    let enroll = [vec!["join".to_owned(), NAME.to_owned(), "--enroll".to_owned()], member.flags()].concat();
    let manifest = plugin(&member.both)?.run(&enroll)?;
    ensure!(manifest.code == 0, "{manifest:?}");
    let kubectl = Tool::admin(member.spare.cluster)?;
    kubectl.run_with_input(&["apply", "--server-side", "-f", "-"], &manifest.stdout)?.success()?;
    until(NAME, "Ready", "True")?;
    plugin(&member.both)?.ok(&["-C", NAME, "get", "namespaces"])?;
    eventually("the agent's right to enroll is gone", SOON, || {
        let left = kubectl.ok(&["get", "clusterrolebindings,rolebindings", "-A", "-o", "name"])?;
        ensure!(!left.contains("mc-agent-enrollment"), "{left}");
        Ok(Some(()))
    })?;
    member.unjoin()?;
    Objects::of(member.spare.cluster, NAME)?.same_as(&before)
}

#[test]
fn pod_that_cannot_start_is_reported_and_right_image_repairs() -> Result<()> {
    let member = Member::take()?;
    let mut wrong = member.flags();
    wrong[1] = "--agent-image=testbed.local/no-such:1".to_owned();
    let said =
        member.join(&wrong)?.failure(&["ErrImageNeverPull", "testbed.local/no-such:1", "describe pods"])?;
    ensure!(said.contains(&format!("the agent of {NAME} is not connected: pod mc-agent-")), "{said}");
    member.join(&member.flags())?.success()?;
    member.unjoin()
}

#[test]
fn agent_chart_needs_only_its_secret_to_join() -> Result<()> {
    let member = Member::take()?;
    let helm = Tool::plugin_at(&programs::build_helm()?, &[member.spare.cluster])?;
    let (repository, tag) = SIDECAR.rsplit_once(':').context("no tag")?;
    let values = [
        format!("--set=cluster={NAME},image.repository={repository},image.pullPolicy=Never"),
        format!("--set-string=image.tag={tag},target={}", member.target),
    ];
    let install = ["install", "agent", CHART, "--namespace=kubectl-mc-agent", "--create-namespace"];
    helm.ok(&[&install[..], &[&values[0], &values[1]]].concat())?;
    let said = member.join(&["--agent".to_owned()])?.success()?;
    ensure!(said.contains("member: secret/mc-agent created") && !said.contains("deployment.apps"), "{said}");
    plugin(&member.both)?.ok(&["-C", NAME, "get", "namespaces"])?;
    // An upgrade keeps the token.
    helm.ok(&["upgrade", "agent", CHART, "--namespace=kubectl-mc-agent", &values[0], &values[1]])?;
    plugin(&member.both)?.ok(&["-C", NAME, "get", "namespaces"])?;
    member.unjoin()?;
    helm.ok(&["uninstall", "agent", "--namespace=kubectl-mc-agent", "--wait", "--timeout=2m"]).map(drop)
}

/// The status of condition Connected.
fn condition(caller: &Caller) -> Result<String> {
    let path = r#"jsonpath={.status.conditions[?(@.type=="Connected")].status}"#;
    plugin(caller)?.ok(&["clusters", NAME, "-o", path])
}

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../sidecar/deploy/agent-chart");

/// The member's name on the host, where other tests' members exist at the same time.
const NAME: &str = "e2e-agent-pods";
