//! The front proxy sends requests of several callers at the same time over one HTTP/2 connection.

use anyhow::Result;
use harness::front_proxy;
use harness::http2::{DATA, END_STREAM, Http2};
use harness::noise::Dice;
use harness::own_sidecar::OwnSidecar;

use super::Tally;
use super::callers::{Callers, Way};
use super::over_http1::Request;

pub(super) fn ask(
    seed: u64,
    own: &OwnSidecar,
    callers: &Callers,
    members: &[&str],
    tally: &Tally,
) -> Result<()> {
    let way = Way::FrontProxyHttp2;
    let callers = callers.by(way);
    let endpoint = own.endpoint(Some(&front_proxy::certificate()?))?;
    let mut dice = Dice::new(seed);
    loop {
        let mut connection = Http2::connect(&endpoint)?;
        // The client's connection stores all answers, so it is replaced after a while.
        for _ in 0..BATCHES {
            let size = 1 + dice.below(MOST_AT_ONCE);
            let numbers: Vec<u64> = (0..size).map_while(|_| tally.next()).collect();
            if numbers.is_empty() {
                return Ok(());
            }
            let mut open = Vec::new();
            let mut broken = false;
            for number in numbers {
                let caller = callers[dice.below(callers.len())];
                let request = Request::by_chance(&mut dice, way, caller, number, members);
                let stream = send(&mut connection, &request);
                broken |= stream.is_err();
                open.push((request, stream.ok()));
            }
            for (request, stream) in open {
                let answer = stream.and_then(|stream| connection.answer(stream).ok());
                let whole = answer.filter(|answer| answer.reset.is_none());
                broken |= whole.is_none() && connection.goaway.is_some();
                let (status, body) = whole.map_or((None, Vec::new()), |answer| (answer.status, answer.body));
                tally.answer(&request.tag(), request.honest(), status, &body);
            }
            if broken {
                break;
            }
        }
    }
}

fn send(connection: &mut Http2, request: &Request<'_>) -> Result<u32> {
    let stream =
        connection.request(request.method, &request.target, &request.lines(), request.body.is_empty())?;
    if !request.body.is_empty() {
        connection.send(DATA, END_STREAM, stream, &request.body)?;
    }
    Ok(stream)
}

const MOST_AT_ONCE: usize = 16;
const BATCHES: usize = 200;
