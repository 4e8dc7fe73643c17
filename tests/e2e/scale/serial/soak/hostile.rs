//! No request of a good caller fails or waits noticeably among hostile clients and agents of every kind, through
//! the host and past it, for any length of time. `make soak` runs the same for longer.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::bed::{SYSTEM, bed, sidecar};
use harness::caller::Caller;
use harness::fake_member::FakeMember;
use harness::good_caller::{self, GoodCaller, Measured};
use harness::hostile::Protocol;
use harness::hostile::agents::{HostileAgent, Manner};
use harness::hostile::attack::{Attack, Bounds, Tally};
use harness::hostile::cancels::cancels;
use harness::hostile::crowds::{Stage, connections};
use harness::hostile::floods::{Load, heads, tokens, users};
use harness::hostile::trickles;
use harness::hostile::unread::{Request, Stall, Unread};
use harness::http1::{Endpoint, member_path};
use harness::noise::MEBIBYTE;
use harness::own_agent;
use harness::own_sidecar::OwnSidecar;
use harness::scene::{EVERY_VERB, Scene};
use harness::usage;
use harness::wait::eventually;
use serde_json::json;
use testbed::Sidecar;

use super::say;
use crate::number;
use crate::scale::serial::hostile::{LARGE, ONE_MEBIBYTE, SILENT, script};

#[test]
fn hostile_clients_delay_no_good_caller() -> Result<()> {
    let time = Duration::from_secs(number("SOAK_HOSTILE_SECONDS", 30));
    let scene = Scene::on("m2", "soak-hostile")?;
    let fake = FakeMember::start("e2e-soak-hostile", script)?;
    let ways = Ways { scene, fake };
    let good = ways.good_callers()?;
    std::thread::park_timeout(ALONE.min(time));
    let alone = stopped(good)?;
    // The same attacks run against another sidecar, so that the machine is as busy.
    let other = OwnSidecar::start()?;
    let good = ways.good_callers()?;
    let besides_time = time.min(BESIDE);
    for (_, attack) in ways.attacks(&other.sidecar, besides_time)? {
        attack.last();
    }
    let beside = stopped(good)?;
    drop(other);
    let memory = || usage::resident(sidecar()?.pid);
    let before = memory()?;
    let mut rounds = 1;
    loop {
        let round = Round::of(&ways, time, rounds)?;
        round.tell(&beside, &alone);
        let soon = round.check(time, &beside, besides_time)?;
        let during = memory()?;
        let rested = eventually("the memory comes back", REST, || {
            let now = memory()?;
            ensure!(now <= before + 20 * MEBIBYTE, "{now} bytes after {before} and {during}");
            Ok(Some(now))
        })?;
        say(&format!("resident: {before} before, {during} at the end of the attacks, {rested} after a rest"));
        // A shared machine stalls now and then, but the effect of an attack appears in every round.
        match soon {
            Err(error) if rounds < ROUNDS => say(&format!("once more: {error:#}")),
            soon => return soon,
        }
        rounds += 1;
    }
}

/// The results of one round of all attacks.
struct Round {
    tallies: Vec<(&'static str, Tally)>,
    measured: Vec<Measured>,
}

impl Round {
    fn of(ways: &Ways, time: Duration, number: u32) -> Result<Self> {
        let good = ways.good_callers()?;
        let attacks = ways.attacks(sidecar()?, time)?;
        let tallies = attacks.into_iter().map(|(name, attack)| (name, attack.last())).collect();
        let measured = stopped(good).with_context(|| format!("round {number}"))?;
        Ok(Self { tallies, measured })
    }

    fn tell(&self, beside: &[Measured], alone: &[Measured]) {
        for (name, tally) in &self.tallies {
            say(&format!("{name}: {tally}"));
        }
        for ((measured, beside), alone) in self.measured.iter().zip(beside).zip(alone) {
            let to = |other: &Measured| {
                measured.percentile(0.99).as_secs_f64() / other.percentile(0.99).as_secs_f64()
            };
            say(&format!("attacked: {measured}"));
            say(&format!(
                "    while another sidecar is attacked: {beside}; 99 % is {:.2} of that",
                to(beside)
            ));
            say(&format!("    alone: {alone}; 99 % is {:.2} of that", to(alone)));
        }
    }

    /// Checks that every request was answered. The inner result is whether each was in time, as far as this
    /// machine allows.
    fn check(&self, time: Duration, beside: &[Measured], besides_time: Duration) -> Result<Result<()>> {
        for (name, tally) in &self.tallies {
            ensure!(tally.sent > 0, "{name} was no attack");
        }
        let pairs = || self.measured.iter().zip(beside);
        pairs().try_for_each(|(measured, beside)| measured.is_served_beside(time, beside, besides_time))?;
        Ok(pairs().try_for_each(|(measured, beside)| measured.is_served_soon_beside(beside)))
    }
}

fn stopped(callers: Vec<GoodCaller>) -> Result<Vec<Measured>> {
    callers.into_iter().map(GoodCaller::stop).collect()
}

/// The time for which only the good callers use the sidecar, before the attacks.
const ALONE: Duration = Duration::from_secs(30);
/// The time for which another sidecar is attacked, for comparison.
const BESIDE: Duration = Duration::from_secs(120);
/// The maximum number of rounds until no good caller waits long.
const ROUNDS: u32 = 3;
/// The time until memory is freed.
const REST: Duration = Duration::from_secs(60);

/// The member, and the scene that opens it to callers.
struct Ways {
    scene: Scene,
    fake: FakeMember,
}

impl Ways {
    fn path(&self, rest: &str) -> String {
        member_path(&self.fake.name, rest)
    }

    /// A caller who may enter the member.
    fn caller(&self, name: &str) -> Result<Caller> {
        let caller = Caller::certificate(&format!("e2e-soak-hostile-{name}"), &[])?;
        self.scene.let_in(&caller, &[&self.fake.name], EVERY_VERB)?;
        Ok(caller)
    }

    /// Callers that read and watch through the host and past it, with a certificate and with a
    /// token.
    fn good_callers(&self) -> Result<Vec<GoodCaller>> {
        let certified = |name: &str| self.caller(name);
        let theo = Caller::token("theo")?;
        self.scene.let_in(&theo, &[&self.fake.name], EVERY_VERB)?;
        let token = format!("Bearer {}", theo.token.as_deref().context("no token")?);
        let (read, watch) = (self.path("/api/v1/pods"), self.path("/api/v1/pods?watch=true"));
        let mut all = Vec::new();
        for (name, protocol, path) in [
            ("a read by HTTP/1.1", Protocol::Http1, &read),
            ("a read by HTTP/2", Protocol::Http2, &read),
            ("a watch by HTTP/1.1", Protocol::Http1, &watch),
            ("a watch by HTTP/2", Protocol::Http2, &watch),
        ] {
            let through = certified(&format!("through-{}", all.len()))?;
            let past = certified(&format!("past-{}", all.len()))?;
            let through = Endpoint::cluster(&bed()?.host, through.certificate.as_deref())?;
            all.push((format!("{name} through the host"), protocol, through, vec![], path.clone()));
            let past = Endpoint::sidecar(sidecar()?, past.certificate.as_deref())?;
            all.push((format!("{name} past the host"), protocol, past, vec![], path.clone()));
        }
        let lines = vec![("authorization".to_owned(), token)];
        let past = Endpoint::sidecar(sidecar()?, None)?;
        all.push(("a token past the host".to_owned(), Protocol::Http1, past, lines, read));
        let start = |(name, protocol, endpoint, lines, path): (String, _, _, _, String)| {
            GoodCaller::start(good_caller::Caller { name, endpoint, protocol, lines }, move |_| path.clone())
        };
        Ok(all.into_iter().map(start).collect())
    }

    /// Attacks of all kinds. Past the host, they come from a different address than the good
    /// callers.
    fn attacks(&self, sidecar: &Sidecar, time: Duration) -> Result<Vec<(&'static str, Attack)>> {
        let bounds = |clients| Bounds { clients, time };
        // As many as a debug build can take on top of its own overhead.
        let scale = number("SOAK_HOSTILE_SCALE", 1) as usize;
        let past = |caller: Option<&Caller>| {
            let certificate = caller.and_then(|caller| caller.certificate.as_deref());
            Ok::<_, anyhow::Error>(Endpoint::sidecar(sidecar, certificate)?.from_address([127, 0, 0, 66]))
        };
        let through = |caller: &Caller| Endpoint::cluster(&bed()?.host, caller.certificate.as_deref());
        let (stranger, any) = (past(None)?, self.path("/any"));
        let unread = self.caller("unread")?;
        let cancelling = self.caller("cancels")?;
        let impersonating = Caller::certificate("e2e-soak-hostile-users", &[])?;
        let trickling = self.caller("trickles")?;
        let load = Load { streams: 250, fields: 1_800 };
        let silent = self.path(SILENT);
        Ok(vec![
            ("answers unread", self.unread(past(Some(&unread))?, bounds(3))),
            ("cancels past the host", cancels(past(Some(&cancelling))?, silent.clone(), 30, bounds(1))),
            ("cancels through the host", cancels(through(&cancelling)?, silent, 30, bounds(1))),
            ("large heads", heads(stranger.clone(), any.clone(), load, bounds(scale))),
            ("made-up tokens", tokens(stranger.clone(), any.clone(), 50, bounds(4 * scale))),
            ("made-up users", users(past(Some(&impersonating))?, any.clone(), 240, bounds(2 * scale))),
            ("trickling heads", trickles::heads(stranger.clone(), bounds(10 * scale))),
            ("trickling bodies", trickles::bodies(past(Some(&trickling))?, &any, bounds(10 * scale))),
            ("silent connections", connections(stranger.clone(), Stage::Silent, 500, bounds(scale))),
            ("half a hello", connections(stranger.clone(), Stage::HalfHello, 500, bounds(scale))),
            ("idle connections", connections(stranger, Stage::Idle, 200, bounds(scale))),
            ("agents that trickle", self.agents(sidecar, Manner::Trickles, bounds(1))?),
            ("agents that withhold", self.agents(sidecar, Manner::Withholds, bounds(1))?),
            ("agents that lie", self.agents(sidecar, Manner::Lies, bounds(1))?),
        ])
    }

    /// Each client attaches a tunnel for its own cluster, opens watches through it, and reads none of them.
    fn agents(&self, sidecar: &Sidecar, manner: Manner, bounds: Bounds) -> Result<Attack> {
        let cluster = format!("{}-{manner:?}", self.fake.name).to_lowercase();
        let data = self.fake.secret(&json!({}));
        own_agent::register(&cluster, SYSTEM, &data)?;
        let target = data["server"].as_str().and_then(|server| server.strip_prefix("https://"));
        let target = target.context("no server")?.parse()?;
        let lifetime = u64::max(3600, 2 * bounds.time.as_secs());
        let token = own_agent::token(&cluster, lifetime)?;
        let caller = Caller::certificate(&format!("e2e-soak-hostile-{manner:?}"), &[])?;
        self.scene.let_in(&caller, &[&cluster], EVERY_VERB)?;
        let to_sidecar = |certificate| {
            Ok::<_, anyhow::Error>(Endpoint::sidecar(sidecar, certificate)?.from_address([127, 0, 0, 66]))
        };
        let (agent, caller) = (to_sidecar(None)?, to_sidecar(caller.certificate.as_deref())?);
        let watch = format!("/api/v1/namespaces{ONE_MEBIBYTE}/pods?watch=true");
        let watches = vec![Request::get(member_path(&cluster, &watch)); 4];
        Ok(Attack::start(bounds, move |shift| {
            let tunnel = HostileAgent::attach(&agent, (&cluster, &token), target, manner)?;
            let _unread = Unread::send(Stall::Window, &caller, &watches)?;
            shift.sent(watches.len());
            shift.pause(Duration::from_secs(4));
            drop(tunnel);
            Ok(())
        }))
    }

    /// Each client takes a third of a caller's places, holds them without reading, and starts again.
    fn unread(&self, endpoint: Endpoint, bounds: Bounds) -> Attack {
        let requests = vec![Request::get(self.path(&format!("{LARGE}?timeout=4s"))); 25];
        Attack::start(bounds, move |shift| {
            let stall = Stall::ALL[shift.number % Stall::ALL.len()];
            let mut unread = Unread::send(stall, &endpoint, &requests)?;
            shift.sent(requests.len());
            shift.pause(Duration::from_secs(1));
            Unread::settle([&mut unread])?;
            shift.pause(Duration::from_secs(4));
            Ok(())
        })
    }
}
