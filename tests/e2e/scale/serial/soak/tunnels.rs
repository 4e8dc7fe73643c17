//! Tunnels carry the same bytes, of any length, in any pieces, and in both directions at once. Either side
//! ends first, or the tunnel is cut. Both ends compare the bytes as they arrive.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use anyhow::{Context, Result, ensure};
use harness::caller::Caller;
use harness::fake_member::{Came, Exchange, FakeMember, Manners, Request, Step};
use harness::http1::{Connection, Endpoint, PATIENCE, member_path};
use harness::noise::{Dice, MEBIBYTE, Noise};
use harness::own_sidecar::OwnSidecar;
use serde_json::json;

/// The amount of data that went through.
#[derive(Debug)]
pub(super) struct Carried {
    #[expect(dead_code, reason = "it is printed")]
    tunnels: u64,
    #[expect(dead_code, reason = "it is printed")]
    mebibytes: u64,
}

/// Opens tunnels until they have carried `wanted` bytes.
pub(super) fn carry(name: &str, wanted: u64) -> Result<Carried> {
    let (tell, told) = mpsc::channel();
    let manners = Manners { forgets: true, ..Manners::default() };
    let fake = FakeMember::with(name, manners, move |request| script(request, &tell))?;
    fake.register(&json!({}))?;
    fake.wait_until_reachable()?;
    let own = OwnSidecar::start()?;
    let admin = Caller::certificate(&format!("{name}-user"), &["system:masters"])?;
    let endpoint = own.endpoint(admin.certificate.as_deref())?;
    let (carried, tunnels) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..AT_ONCE)
            .map(|client| {
                let (fake, endpoint, carried, tunnels) = (&fake, &endpoint, &carried, &tunnels);
                scope.spawn(move || -> Result<()> {
                    let mut dice = Dice::new(client);
                    while carried.load(Ordering::SeqCst) < wanted {
                        let seed = tunnels.fetch_add(1, Ordering::SeqCst);
                        let plan = Plan::by_chance(&mut dice, seed);
                        let through =
                            plan.run(fake, endpoint, &mut dice).with_context(|| format!("{plan:?}"))?;
                        carried.fetch_add(through, Ordering::SeqCst);
                    }
                    Ok(())
                })
            })
            .collect();
        clients
            .into_iter()
            .try_for_each(|client| client.join().map_err(|_| anyhow::anyhow!("a client panicked"))?)
    })?;
    let tunnels = tunnels.into_inner();
    for _ in 0..tunnels {
        let (plan, came) = told.recv_timeout(PATIENCE).context("a member was not told of an end")?;
        let (plan, came): (Plan, Came) = (plan, came);
        ensure!(
            came.as_expected && (plan.cut || came.missing == 0),
            "the member was sent something else: {plan:?}: {came:?}"
        );
    }
    Ok(Carried { tunnels, mebibytes: carried.into_inner() / MEBIBYTE as u64 })
}

/// The data of one tunnel. The path tells the member.
#[derive(Clone, Copy, Debug)]
struct Plan {
    seed: u64,
    up: u64,
    down: u64,
    member_first: bool,
    /// The client disconnects before it has sent everything.
    cut: bool,
}

impl Plan {
    fn by_chance(dice: &mut Dice, seed: u64) -> Self {
        let cut = dice.below(20) == 0;
        let (up, down) = (dice.size(MOST) as u64 + u64::from(cut), dice.size(MOST) as u64);
        Self { seed, up, down, member_first: dice.below(2) == 0, cut }
    }

    fn path(self) -> String {
        format!(
            "/tunnel/{}/{}/{}/{}/{}",
            self.seed,
            self.up,
            self.down,
            u8::from(self.member_first),
            u8::from(self.cut)
        )
    }

    fn read(target: &str) -> Option<Self> {
        let mut words = target.rsplit('/').map(str::parse::<u64>).map_while(Result::ok);
        let (cut, member_first) = (words.next()? == 1, words.next()? == 1);
        let (down, up, seed) = (words.next()?, words.next()?, words.next()?);
        Some(Self { seed, up, down, member_first, cut })
    }

    fn upward(self) -> Noise {
        Noise::new(2 * self.seed, self.up)
    }

    fn downward(self) -> Noise {
        Noise::new(2 * self.seed + 1, self.down)
    }

    /// Runs the client's side. Returns the number of bytes that it saw.
    fn run(self, fake: &FakeMember, endpoint: &Endpoint, dice: &mut Dice) -> Result<u64> {
        let mut connection = open(endpoint, &member_path(&fake.name, &self.path()), dice)?;
        let (mut up, mut down) = (self.upward(), self.downward());
        let cut_at = if self.cut { dice.below(self.up as usize) as u64 } else { self.up };
        let mut finished = false;
        while up.left() > 0 || down.left() > 0 {
            if self.cut && self.up - up.left() >= cut_at {
                return Ok(self.up - up.left());
            }
            if up.left() > 0 {
                connection.send(up.piece(dice.size(PIECE)))?;
            }
            if up.left() == 0 && !self.member_first && !finished {
                connection.finish()?;
                finished = true;
            }
            let length = (dice.size(PIECE) as u64).min(down.left());
            let came = connection.exactly(length as usize)?;
            ensure!(
                down.continues(&came),
                "the client was sent something else, {} bytes before the end",
                down.left()
            );
        }
        if !finished {
            connection.finish()?;
        }
        ensure!(connection.rest()?.is_empty(), "more came than was sent");
        Ok(self.up + self.down)
    }
}

fn open(endpoint: &Endpoint, path: &str, dice: &mut Dice) -> Result<Connection> {
    let mut connection = endpoint.connect()?;
    let upgrade = ["POST", "GET"][dice.below(2)];
    connection.send(
        format!("{upgrade} {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
            .as_bytes(),
    )?;
    let status = connection.head()?.status;
    ensure!(status == 101, "answered {status}");
    Ok(connection)
}

fn script(request: &Request, tell: &mpsc::Sender<(Plan, Came)>) -> Vec<Step> {
    let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n";
    let Some(plan) = Plan::read(request.target()) else { return vec![Step::Close] };
    let tell = tell.clone();
    let exchange = Exchange {
        sends: plan.downward(),
        expects: plan.upward(),
        finishes_first: plan.member_first,
        // After a failed test the receiver is gone.
        tell: Arc::new(move |came| {
            let _ = tell.send((plan, came));
        }),
    };
    vec![Step::Send(head.into()), Step::Exchange(exchange), Step::Close]
}

const AT_ONCE: u64 = 8;
/// The maximum that one tunnel carries each way, and the maximum of one read or write.
const MOST: usize = 16 * MEBIBYTE;
const PIECE: usize = 256 * 1024;
