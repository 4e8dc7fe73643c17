//! Connections to a member serve one request after another, and none twice.

use anyhow::{Result, ensure};
use harness::bed::sidecar;
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Step, ok};
use harness::http1::{Connection, Endpoint, member_path};

#[test]
fn requests_after_each_other_share_a_connection() -> Result<()> {
    let fake = FakeMember::start("e2e-pool-shared", |_| ok())?;
    let mut client = client("e2e-pool-shared-admin")?;
    for n in 0..5 {
        let path = member_path(&fake.name, &format!("/shared/{n}"));
        client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
        ensure!(client.response()?.status() == 200);
    }
    let used: Vec<_> = fake.requests("/shared/").iter().map(|request| request.connection).collect();
    ensure!(used.len() == 5 && used.iter().all(|connection| *connection == used[0]), "{used:?}");
    Ok(())
}

#[test]
fn a_connection_that_the_member_closed_costs_no_request_and_repeats_none() -> Result<()> {
    let fake = FakeMember::start("e2e-pool-closed", |_| {
        let mut steps = ok();
        steps.push(Step::Close);
        steps
    })?;
    let mut client = client("e2e-pool-closed-admin")?;
    for n in 0..20 {
        let path = member_path(&fake.name, &format!("/closed/{n}/"));
        client.send(format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").as_bytes())?;
        let status = client.response()?.status();
        let arrived = fake.requests(&format!("/closed/{n}/")).len();
        ensure!(arrived <= 1, "request {n} arrived {arrived} times");
        // The member may close while the request is on its way: then nobody can tell what became of it.
        ensure!(status == 200 || status == 503, "request {n} was answered {status}");
        ensure!(status == 503 || arrived == 1, "request {n} was answered by nobody");
    }
    Ok(())
}

#[test]
fn an_answer_that_nobody_reads_to_its_end_is_not_followed_by_another_on_its_connection() -> Result<()> {
    let fake = FakeMember::start("e2e-pool-left", |request| match request.target() {
        target if target.contains("/endless") => {
            vec![
                Step::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nbegun".to_vec()),
                Step::ReceiveAll,
            ]
        }
        _ => ok(),
    })?;
    let mut leaver = client("e2e-pool-left-admin")?;
    let path = member_path(&fake.name, "/endless");
    leaver.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
    leaver.head()?;
    let left = fake.wait_for("/endless", |_| true)?.connection;
    drop(leaver);
    fake.wait_for("/endless", |request| request.ended)?;
    let mut client = client("e2e-pool-left-admin")?;
    let path = member_path(&fake.name, "/after");
    client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
    ensure!(client.response()?.status() == 200);
    ensure!(fake.requests("/after")[0].connection != left);
    Ok(())
}

fn client(name: &str) -> Result<Connection> {
    let admin = Caller::certificate(name, &["system:masters"])?;
    Endpoint::sidecar(sidecar()?, admin.certificate.as_deref())?.connect()
}
