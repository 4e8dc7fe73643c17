//! Measures a member that the sidecar reaches directly, by the tunnel of its agent, and through konnectivity,
//! in turns: small requests, large streams, and other requests beside a stream that is not read. Then the hop
//! through another replica, and the memory of an idle agent.

use anyhow::Result;
use harness::bed::member;
use harness::konnectivity::Konnectivity;
use harness::own_agent::data_of;
use harness::own_sidecar::OwnSidecar;
use harness::scene::EVERY_VERB;

use crate::print;
use crate::site::Site;

mod carriers;
mod hop;
mod requests;
mod stalled;
mod streams;

use carriers::Carriers;

pub(crate) fn measure(site: &Site, quick: bool) -> Result<()> {
    let sidecar = OwnSidecar::start()?;
    let real = member("m1")?.server.clone();
    let (process, fake) = site.endless_member("endless")?;
    site.scene.let_in(&site.caller, &[], EVERY_VERB)?;
    let [probe, endless] = [site.probe_address(), fake].map(|address| format!("https://{address}"));
    let konnectivity = Konnectivity::start(&[&real, &endless])?;
    let carriers = |name: &str, server: &str| {
        Carriers::new(&sidecar, &konnectivity, name, server, &data_of(name)?, site)
    };

    let (of_real, of_probe) = (carriers("m1", &real)?, carriers("probe", &probe)?);
    print("Agents: resident memory of an idle agent", &hop::memory(&of_real.agent)?)?;
    print("Agents: one small ConfigMap of a member", &requests::measure(&of_real, quick)?)?;
    print("Agents: the same answer from a member at no cost", &requests::measure(&of_probe, quick)?)?;
    print("Agents: kubectl exec, 64 MiB", &streams::by_kubectl(&of_real, site, quick)?)?;
    let of_endless = carriers("endless", &endless)?;
    print(
        "Agents: 64 MiB over an upgraded connection to a member at no cost",
        &streams::alone(&of_endless, &sidecar, site, quick)?,
    )?;
    print(
        "Agents: other requests beside a stream that is not read",
        &stalled::measure(&of_endless, &sidecar, site, quick)?,
    )?;
    print("Agents: the hop through another replica", &hop::measure(site, quick)?)?;
    drop(process);
    Ok(())
}
