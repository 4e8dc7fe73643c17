//! The oldest tested Kubernetes serves as the host, and the newest as a member.
//! [`crate::install::quiet::fleet`] tests the other way round.

use anyhow::{Result, ensure};
use harness::bed::{bed, host, member};
use harness::caller::Caller;
use harness::tool::Tool;
use harness::wait::{SOON, eventually};

use super::run_on::{Fleet, NAME, SHOP};
use crate::install::pods::in_pods::program;

#[test]
fn oldest_host_serves_the_newest_member() -> Result<()> {
    let fleet = Fleet::begin()?;
    let (oldest, newest) = (&member("m2")?.version, &bed()?.host.version);
    ensure!(&fleet.host.cluster.version == oldest, "the host is {}", fleet.host.cluster.version);
    ensure!(&fleet.runs.host.cluster.version == newest, "the member is {}", fleet.runs.host.cluster.version);
    ensure!(host()?.get("/version")?["gitVersion"] == newest.as_str());

    fleet.install(&["--host-network", &fleet.endpoint()?])?.success()?;
    fleet.join_and_use(&["--labels=env=shop", "--bindable-roles=view"])?;
    let grant = |arguments: &[&str]| {
        let view = ["access", "grant", "view"];
        fleet.admin.ok(&[&view[..], arguments].concat())
    };
    let said = grant(&["--user=jane", "-n", SHOP, "-C", NAME])?;
    ensure!(!said.contains("clusteraccess"), "{said}");
    eventually("jane reads", SOON, || reads(&fleet, "jane").map(Some))?;
    let said = grant(&["--user=joe", "--cluster-selector=env=shop"])?;
    ensure!(said.contains("clusteraccess"), "{said}");
    eventually("joe reads", SOON, || reads(&fleet, "joe").map(Some))?;
    fleet.take_away()
}

fn reads(fleet: &Fleet, user: &str) -> Result<()> {
    let caller = Caller::certificate_at(fleet.host.cluster, user, &[])?;
    let pods = Tool::plugin(program(), &caller)?.ok(&[
        "--cluster",
        NAME,
        "get",
        "pods",
        "-n",
        SHOP,
        "-o",
        "name",
    ])?;
    ensure!(pods == "pod/shell\n", "{pods}");
    Ok(())
}
