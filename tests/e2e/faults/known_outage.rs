//! Other replicas know about an outage that the leader has found, so their callers do not wait for
//! a connect timeout.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use harness::black_hole::BlackHole;
use harness::caller::Caller;
use harness::http1::member_path;
use harness::own_fleet::OwnFleet;
use serde_json::json;

#[test]
fn fault_56_new_replica_knows_the_outages_of_the_leader() -> Result<()> {
    let fleet = OwnFleet::new("known-outage")?;
    let hole = BlackHole::start()?;
    let name = "e2e-known-outage";
    let server = format!("https://{}", hole.address);
    fleet.register(name, &json!({"server": server, "insecure-skip-tls-verify": "true", "token": "t"}))?;
    let _leader = fleet.sidecar(&["--controllers=health"])?;
    fleet.until(name, "Reachable", "False", "ConnectionTimeout")?;

    let fresh = fleet.sidecar(&["--controllers=health"])?;
    let admin = Caller::certificate("e2e-known-outage-admin", &["system:masters"])?;
    let endpoint = fresh.endpoint(admin.certificate.as_deref())?;
    let path = member_path(name, "/asked");
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    for _ in 0..5 {
        let begin = Instant::now();
        let answer = endpoint.exchange(request.as_bytes())?;
        ensure!(
            answer.status() == 503 && answer.text().contains("since 2"),
            "{} {}",
            answer.status(),
            answer.text()
        );
        // A connection attempt takes ten seconds.
        ensure!(begin.elapsed() < FAR_LESS, "{:?}", begin.elapsed());
    }
    Ok(())
}

const FAR_LESS: Duration = Duration::from_secs(5);
