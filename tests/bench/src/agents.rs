//! Measures a member that the sidecar reaches directly, through its agent's tunnel and through
//! konnectivity, alternately. First come small requests, the hop through another replica and the
//! memory of an idle agent, and then large streams, and other requests next to a stream that is not
//! read.

use anyhow::Result;
use harness::bed::member;
use harness::konnectivity::Konnectivity;
use harness::own_agent::data_of;
use harness::own_sidecar::OwnSidecar;
use harness::scene::EVERY_VERB;

use crate::print;
use crate::role::Process;
use crate::site::Site;

mod carriers;
mod hop;
mod requests;
mod stalled;
mod streams;

use carriers::Carriers;

/// Measures small requests, idle agents and the hop.
pub(crate) fn measure(site: &Site, quick: bool) -> Result<()> {
    let bench = Bench::start(site)?;
    let (of_real, of_probe) = (bench.carriers("m1", &bench.real)?, bench.carriers("probe", &bench.probe)?);
    print("Agents: resident memory of an idle agent", &hop::memory(&of_real.agent)?)?;
    print("Agents: one small ConfigMap of a member", &requests::measure(&of_real, quick)?)?;
    print("Agents: the same answer from a member at no cost", &requests::measure(&of_probe, quick)?)?;
    print("Agents: the hop through another replica", &hop::measure(site, quick)?)
}

/// Measures large streams, and requests next to one.
pub(crate) fn measure_streams(site: &Site, quick: bool) -> Result<()> {
    let bench = Bench::start(site)?;
    let of_real = bench.carriers("m1", &bench.real)?;
    print("Agents: kubectl exec, 64 MiB", &streams::by_kubectl(&of_real, site, quick)?)?;
    let of_endless = bench.carriers("endless", &bench.endless)?;
    print(
        "Agents: 64 MiB over an upgraded connection to a member at no cost",
        &streams::alone(&of_endless, &bench.sidecar, site, quick)?,
    )?;
    print(
        "Agents: other requests beside a stream that is not read",
        &stalled::measure(&of_endless, &bench.sidecar, site, quick)?,
    )
}

/// What all routes have in common, with the addresses of the members.
struct Bench<'a> {
    site: &'a Site,
    sidecar: OwnSidecar,
    konnectivity: Konnectivity,
    real: String,
    probe: String,
    endless: String,
    _endless: Process,
}

impl<'a> Bench<'a> {
    fn start(site: &'a Site) -> Result<Self> {
        let sidecar = OwnSidecar::start()?;
        let real = member("m1")?.server.clone();
        let (process, fake) = site.endless_member("endless")?;
        site.scene.let_in(&site.caller, &[], EVERY_VERB)?;
        let [probe, endless] = [site.probe_address(), fake].map(|address| format!("https://{address}"));
        let konnectivity = Konnectivity::start(&[&real, &endless])?;
        Ok(Self { site, sidecar, konnectivity, real, probe, endless, _endless: process })
    }

    fn carriers(&self, name: &str, server: &str) -> Result<Carriers> {
        Carriers::new(&self.sidecar, &self.konnectivity, name, server, &data_of(name)?, self.site)
    }
}
