//! The Secret of a member decides how the member is reached, for plain requests and upgrades:
//! forward proxies, names in certificates and TLS versions.

use anyhow::{Result, ensure};
use harness::bed::sidecar;
use harness::caller::Caller;
use harness::connect_proxy::{ConnectProxy, Kind};
use harness::fake_member::{FakeMember, Manners, Request, SERVER_NAME, Step, ok};
use harness::http1::{Endpoint, member_path};
use harness::wait::{SOON, eventually};
use serde_json::json;

#[test]
fn member_is_reached_through_an_http_proxy() -> Result<()> {
    through(Kind::Http, "e2e-by-http", "", None)
}

#[test]
fn member_is_reached_through_an_https_proxy_of_a_system_ca() -> Result<()> {
    through(Kind::Https, "e2e-by-https", "", None)
}

#[test]
fn member_is_reached_through_a_socks5_proxy() -> Result<()> {
    through(Kind::Socks5, "e2e-by-socks5", "", None)
}

#[test]
fn proxy_gets_the_credential_of_its_url() -> Result<()> {
    let basic = Some("Basic dXM6ZXI6cEBzcw==");
    through(Kind::Http, "e2e-by-http-user", "us%3Aer:p%40ss", basic)?;
    through(Kind::Https, "e2e-by-https-user", "us%3Aer:p%40ss", basic)?;
    through(Kind::Socks5, "e2e-by-socks5-user", "us%3Aer:p%40ss", Some("us:er:p@ss"))
}

#[test]
fn member_is_verified_by_its_tls_server_name() -> Result<()> {
    let fake = FakeMember::unregistered("e2e-by-name", script)?;
    fake.register(&json!({"tls-server-name": SERVER_NAME}))?;
    plain_and_upgraded(&fake)?;
    // With another name, it is a different member, and gets no more requests.
    fake.register(&json!({"tls-server-name": "wrong.example"}))?;
    let endpoint = endpoint(&fake.name)?;
    for head in ["", UPGRADE] {
        let answer = eventually("the wrong name is refused", SOON, || {
            let path = member_path(&fake.name, "/wrong");
            let answer =
                endpoint.exchange(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{head}\r\n").as_bytes())?;
            Ok((answer.status() == 503).then_some(answer))
        })?;
        ensure!(answer.text().contains("member unreachable"), "{}", answer.text());
    }
    Ok(())
}

#[test]
fn member_with_only_tls_1_2_is_reached() -> Result<()> {
    let manners = Manners { only_tls12: true, ..Manners::default() };
    let fake = FakeMember::with("e2e-by-tls12", manners, script)?;
    fake.register(&json!({}))?;
    plain_and_upgraded(&fake)
}

fn through(kind: Kind, name: &str, user_info: &str, credential: Option<&str>) -> Result<()> {
    let proxy = ConnectProxy::of(kind)?;
    let fake = FakeMember::unregistered(name, script)?;
    fake.register(&json!({"proxy-url": proxy.url(user_info)}))?;
    plain_and_upgraded(&fake)?;
    // There is one connection for the plain request, another for the upgrade, and none that
    // bypasses the proxy.
    let (asked, address) = (proxy.asked(), fake.address.to_string());
    ensure!(asked.len() >= 2 && asked.iter().all(|asked| *asked == address), "{asked:?}");
    assert_eq!(asked.len(), fake.knocked());
    let credentials = proxy.credentials();
    ensure!(credentials.iter().all(|other| other.as_deref() == credential), "{credentials:?}");
    Ok(())
}

/// A request and its answer, and an upgrade that carries bytes in both directions.
pub(crate) fn plain_and_upgraded(fake: &FakeMember) -> Result<()> {
    let endpoint = endpoint(&fake.name)?;
    let path = member_path(&fake.name, "/plain");
    let plain = eventually("the member is known", SOON, || {
        let answer = endpoint.exchange(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
        Ok((answer.status() != 404 && !answer.text().contains("proxy off")).then_some(answer))
    })?;
    ensure!(plain.status() == 200, "{}", plain.text());
    let mut connection = endpoint.connect()?;
    let path = member_path(&fake.name, "/upgraded");
    connection.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{UPGRADE}\r\n").as_bytes())?;
    let head = connection.head()?;
    ensure!(head.status == 101, "{head:?}");
    assert_eq!(connection.exactly(5)?, b"hello");
    connection.send(b"and back")?;
    fake.wait_for("/upgraded", |request| request.received == b"and back")?;
    Ok(())
}

pub(crate) fn script(request: &Request) -> Vec<Step> {
    match request.target() {
        "/upgraded" => vec![Step::Send([SWITCHED, "hello"].concat().into()), Step::ReceiveAll],
        _ => ok(),
    }
}

pub(crate) fn endpoint(name: &str) -> Result<Endpoint> {
    let admin = Caller::certificate(&format!("{name}-admin"), &["system:masters"])?;
    Endpoint::sidecar(sidecar()?, admin.certificate.as_deref())
}

const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n";
const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n";
