//! Before a caller is authenticated, the sidecar holds few request heads at once and refuses large ones.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::caller::Caller;
use harness::front_proxy;
use harness::hostile::Protocol;
use harness::hostile::attack::Bounds;
use harness::hostile::floods::{Load, heads};
use harness::http1::Endpoint;
use harness::http2::Http2;
use harness::noise::MEBIBYTE;
use harness::own_sidecar::OwnSidecar;
use harness::usage;
use harness::wait::eventually;

use super::site::Site;
use crate::scale::serial::soak::say;

#[test]
fn fault_37_flood_of_large_heads_is_held_in_little_memory() -> Result<()> {
    let site = Site::start("heads", &[])?;
    let before = usage::resident(site.own.pid())?;
    let bounds = Bounds { clients: 20, time: Duration::from_secs(15) };
    let load = Load { streams: 250, fields: 1_800 };
    let tally = heads(site.own.endpoint(None)?, site.path("/any"), load, bounds).last();
    let grown = usage::peak(site.own.pid())?.saturating_sub(before);
    say(&format!("{tally}, {} MiB at the most", grown / MEBIBYTE));
    ensure!(tally.sent >= 500, "it was no attack: {tally}");
    ensure!(grown < 100 * MEBIBYTE, "it held {} MiB", grown / MEBIBYTE);
    eventually("the memory comes back", Duration::from_secs(60), || {
        let left = usage::resident(site.own.pid())?.saturating_sub(before);
        ensure!(left <= 20 * MEBIBYTE, "it keeps {} MiB", left / MEBIBYTE);
        Ok(Some(()))
    })
}

#[test]
fn fault_32_caller_has_100_fields_and_16_kib() -> Result<()> {
    let own = OwnSidecar::start()?;
    let caller = Caller::certificate("e2e-hostile-fields", &["system:masters"])?;
    let strangers = own.endpoint(None)?;
    let callers = own.endpoint(caller.certificate.as_deref())?;
    let hosts = own.endpoint(Some(&front_proxy::certificate()?))?;
    for protocol in Protocol::ALL {
        for (who, endpoint, wanted) in
            [("a stranger", &strangers, 431), ("a caller", &callers, 431), ("the host", &hosts, 200)]
        {
            for (head, expected) in [
                (vec![("x-few".to_owned(), "x".to_owned()); 80], 200),
                (vec![("x-many".to_owned(), "x".to_owned()); 120], wanted),
                (vec![("x-long".to_owned(), "x".repeat(12 * 1024))], 200),
                (vec![("x-long".to_owned(), "x".repeat(20 * 1024))], wanted),
            ] {
                let (name, fields) = (head[0].0.clone(), head.len());
                let status = answer(protocol, endpoint, &head)
                    .with_context(|| format!("{who} over {protocol:?}: {fields} of {name}"))?;
                ensure!(status == expected, "{who} over {protocol:?}: {fields} of {name}: {status}");
            }
        }
    }
    Ok(())
}

/// Returns the status of the answer to a GET of /version with these fields.
fn answer(protocol: Protocol, endpoint: &Endpoint, fields: &[(String, String)]) -> Result<u16> {
    match protocol {
        Protocol::Http1 => {
            let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let request = format!("GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{lines}\r\n");
            Ok(endpoint.exchange(request.as_bytes())?.status())
        }
        Protocol::Http2 => {
            let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let mut http2 = Http2::connect(endpoint)?;
            let stream = http2.get("/version", &fields)?;
            http2.answer(stream)?.status.context("no status")
        }
    }
}
