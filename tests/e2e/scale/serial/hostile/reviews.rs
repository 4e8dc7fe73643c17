//! Made-up tokens and users cost reviews by the host, but delay no other caller: each address and
//! each caller has a share of the reviews. The host is slow here, so that the reviews are the
//! bottleneck and not the machine.

use std::time::Duration;

use anyhow::Result;
use harness::bed::bed;
use harness::caller;
use harness::fake_member::{FakeMember, ok};
use harness::good_caller::{Caller, GoodCaller};
use harness::hostile::attack::{Attack, Bounds};
use harness::hostile::floods::{tokens, users};
use harness::own_sidecar::{Difference, OwnSidecar};
use harness::relay::Relay;
use harness::scene::{EVERY_VERB, Scene};
use harness::usage;
use harness::wait::{SOON, eventually};

use super::site::{Site, good};
use crate::scale::serial::soak::say;

#[test]
fn made_up_users_of_one_caller_delay_no_other_caller() -> Result<()> {
    let (site, _relay) = slow("users")?;
    let scene = Scene::on("m2", "hostile-users")?;
    let welcome = |name: &str| {
        let caller = caller::Caller::certificate(&format!("e2e-hostile-users-{name}"), &[])?;
        scene.let_in(&caller, &[&site.fake.name], EVERY_VERB)?;
        Ok::<_, anyhow::Error>(good(name, site.own.endpoint(caller.certificate.as_deref())?, &[]))
    };
    let known = welcome("known")?;
    let new = ["new-0", "new-1", "new-2", "new-3"].map(welcome).into_iter().collect::<Result<Vec<_>>>()?;
    let attacker = caller::Caller::certificate("e2e-hostile-users-attacker", &[])?;
    let endpoint = site.own.endpoint(attacker.certificate.as_deref())?.from_address(ELSEWHERE);
    let bounds = Bounds { clients: 5, time: TIME };
    let path = site.path("/asked");
    beside(&site, known, &new, || users(endpoint, path, 240, bounds))
}

#[test]
fn made_up_tokens_of_one_address_delay_no_other_token() -> Result<()> {
    let (site, _relay) = slow("tokens")?;
    let scene = Scene::on("m2", "hostile-tokens")?;
    let welcome = |name: &str, caller: &caller::Caller| {
        scene.let_in(caller, &[&site.fake.name], EVERY_VERB)?;
        let token = caller.token.as_deref().unwrap_or_default();
        let lines = [("authorization", &*format!("Bearer {token}"))];
        Ok::<_, anyhow::Error>(good(name, site.own.endpoint(None)?, &lines))
    };
    let known = welcome("known", &caller::Caller::token("theo")?)?;
    let new = ["new-0", "new-1", "new-2", "new-3"].map(|name| {
        let caller = caller::Caller::service_account("e2e-hostile-tokens", name)?;
        welcome(name, &caller)
    });
    let new = new.into_iter().collect::<Result<Vec<_>>>()?;
    let bounds = Bounds { clients: 30, time: TIME };
    let (path, stranger) = (site.path("/asked"), site.own.endpoint(None)?.from_address(ELSEWHERE));
    beside(&site, known, &new, || tokens(stranger, path, 50, bounds))
}

/// A sidecar with a slow host.
fn slow(name: &str) -> Result<(Site, Relay)> {
    let relay = Relay::slow(&bed()?.host.server, DELAY)?;
    let fake = FakeMember::start(&format!("e2e-hostile-{name}"), |_| ok())?;
    let own = OwnSidecar::with(&Difference { host: Some(relay.address), ..Difference::default() })?;
    Ok((Site { fake, own }, relay))
}

/// Runs the attack while a known caller continues and new callers arrive.
fn beside(site: &Site, known: Caller, new: &[Caller], attack: impl FnOnce() -> Attack) -> Result<()> {
    let path = site.path("/asked");
    let (target, cpu) = (path.clone(), usage::cpu(site.own.pid())?);
    let known = GoodCaller::start(known, move |_| target.clone());
    let attack = attack();
    eventually("the attack is under way", SOON, || Ok((attack.tally().sent >= 1_000).then_some(())))?;
    let asked: Vec<_> = new.iter().map(|caller| caller.ask(&path)).collect();
    let tally = attack.last();
    let known = known.stop()?;
    let cpu = usage::cpu(site.own.pid())?.saturating_sub(cpu);
    say(&format!("{tally}, {cpu:?} of the sidecar's; {known}"));
    asked.into_iter().collect::<Result<()>>()?;
    known.is_well_served(50)
}

/// An address other than that of the good callers.
const ELSEWHERE: [u8; 4] = [127, 0, 0, 66];
/// A new caller needs two answers from the host: one about the token and one about the right.
const DELAY: Duration = Duration::from_millis(400);
/// Longer than the sidecar caches the host's decisions.
const TIME: Duration = Duration::from_secs(15);
