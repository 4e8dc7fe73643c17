//! A proxy that has its own CA and demands client certificates carries the sidecar's connections to
//! a member.

use anyhow::{Result, ensure};
use harness::bed::{SYSTEM, host};
use harness::both_sides::{alone, both};
use harness::connect_proxy::ConnectProxy;
use harness::fake_member::{FakeMember, Gate, Step, ok};
use harness::http1::{Endpoint, member_path};
use harness::own_fleet::OwnFleet;
use harness::proxy_authority::{ProxyAuthority, Signed};
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};

use crate::members::connection::{endpoint, plain_and_upgraded, script};
use crate::members::joined::{NAME, Traces, follow};
use crate::plugin;

#[test]
fn proxy_with_its_own_ca_carries_requests_and_upgrades() -> Result<()> {
    let authority = ProxyAuthority::new()?;
    let (proxy, client) = (ConnectProxy::demanding(&authority)?, authority.client()?);
    let fake = FakeMember::unregistered("e2e-own-proxy", script)?;
    fake.register(&keys(&proxy, &authority.secret_keys(&client)))?;
    plain_and_upgraded(&fake)?;
    let (asked, address, shown) = (proxy.asked(), fake.address.to_string(), Some(client.der()?));
    ensure!(asked.len() >= 2 && asked.iter().all(|asked| *asked == address), "{asked:?}");
    assert_eq!(asked.len(), fake.knocked());
    ensure!(proxy.certificates().iter().all(|one| *one == shown), "another certificate was shown");
    Ok(())
}

#[test]
fn proxy_of_another_ca_is_refused_and_named() -> Result<()> {
    let (authority, other) = (ProxyAuthority::new()?, ProxyAuthority::new()?);
    let proxy = ConnectProxy::demanding(&authority)?;
    let mut wrong = authority.secret_keys(&authority.client()?);
    wrong["proxy-ca.crt"] = other.pem().into();
    is_not_reached("own-proxy-ca", &proxy, &wrong, "invalid peer certificate")
}

#[test]
fn missing_client_certificate_names_the_proxy() -> Result<()> {
    let authority = ProxyAuthority::new()?;
    let proxy = ConnectProxy::demanding(&authority)?;
    let none = json!({"proxy-ca.crt": authority.pem()});
    is_not_reached("own-proxy-none", &proxy, &none, "CertificateRequired")
}

#[test]
fn refused_client_certificate_names_the_proxy() -> Result<()> {
    let (authority, other) = (ProxyAuthority::new()?, ProxyAuthority::new()?);
    let proxy = ConnectProxy::demanding(&authority)?;
    let mut wrong = authority.secret_keys(&other.client()?);
    wrong["proxy-ca.crt"] = authority.pem().into();
    is_not_reached("own-proxy-client", &proxy, &wrong, "received fatal alert")
}

#[test]
fn rotated_client_certificate_is_used_by_new_connections() -> Result<()> {
    let authority = ProxyAuthority::new()?;
    let (proxy, old, new) = (ConnectProxy::demanding(&authority)?, authority.client()?, authority.client()?);
    let gate = Gate::closed();
    let goes_on = gate.clone();
    let fake = FakeMember::unregistered("e2e-own-proxy-rotated", move |request| match request.target() {
        "/watch" => {
            vec![Step::Send(FIRST.into()), Step::Wait(goes_on.clone()), Step::Send(LAST.into())]
        }
        _ => ok(),
    })?;
    fake.register(&keys(&proxy, &authority.secret_keys(&old)))?;
    let endpoint = endpoint(&fake.name)?;
    eventually("the member is reached", SOON, || {
        plain(&endpoint, &fake).map(|status| (status == 200).then_some(()))
    })?;
    let mut watch = endpoint.connect()?;
    watch.send(request(&fake, "/watch").as_bytes())?;
    assert_eq!(watch.head()?.status, 200);
    assert_eq!(watch.exactly(10)?, b"5\r\nfirst\r\n");

    fake.register(&keys(&proxy, &authority.secret_keys(&new)))?;
    let shown = Some(new.der()?);
    eventually("the new certificate is shown", SOON, || {
        assert_eq!(plain(&endpoint, &fake)?, 200);
        Ok(proxy.certificates().contains(&shown).then_some(()))
    })?;
    // Open connections continue.
    gate.open();
    assert_eq!(watch.exactly(14)?, b"4\r\nlast\r\n0\r\n\r\n");
    let (old, all) = (Some(old.der()?), proxy.certificates());
    let first_new = all.iter().position(|one| *one == shown).unwrap_or_default();
    ensure!(first_new > 0 && all[..first_new].iter().all(|one| *one == old), "in another order");
    ensure!(all[first_new..].iter().all(|one| *one == shown), "the old one was shown again");
    Ok(())
}

#[test]
fn tls_keys_for_a_plain_proxy_turn_the_member_off() -> Result<()> {
    let fleet = OwnFleet::new("own-proxy-off")?;
    let fake = FakeMember::unregistered("e2e-own-proxy-off", script)?;
    let mut wrong = json!({"proxy-url": "http://proxy.example:3128"});
    wrong["proxy-ca.crt"] = ProxyAuthority::new()?.pem().into();
    fleet.register(&fake.name, &fake.secret(&wrong))?;
    let _own = fleet.sidecar(&[])?;
    let said = fleet.until(&fake.name, "Reachable", "Unknown", "InvalidSecret")?;
    ensure!(
        said.message.ends_with("key proxy-ca.crt: it needs a proxy-url that begins with https://"),
        "{said}"
    );
    fleet.until(&fake.name, "CredentialValid", "False", "InvalidSecret").map(drop)
}

#[test]
fn join_writes_keeps_and_removes_the_keys_of_a_proxy() -> Result<()> {
    let alone = alone()?;
    let before = Traces::of(&alone)?;
    let authority = ProxyAuthority::new()?;
    let (proxy, first, second) =
        (ConnectProxy::demanding(&authority)?, authority.client()?, authority.client()?);
    let caller = both(alone.cluster, |_| {})?;
    let folder = caller.folder();
    std::fs::write(folder.join("ca.crt"), authority.pem())?;
    let show = |Signed { certificate, key }: &Signed| -> Result<()> {
        std::fs::write(folder.join("client.crt"), certificate)?;
        Ok(std::fs::write(folder.join("client.key"), key)?)
    };
    let file = |flag: &str, name: &str| format!("--{flag}={}", folder.join(name).display());
    let flags = [
        format!("--proxy-url={}", proxy.url("")),
        file("proxy-certificate-authority", "ca.crt"),
        file("proxy-client-certificate", "client.crt"),
        file("proxy-client-key", "client.key"),
    ];
    let join = ["join", NAME, "--member-context=member"].map(str::to_owned);
    let through: Vec<String> = [&join[..], &flags].concat();
    // Without the certificate the proxy refuses the connection, and the error names the proxy.
    let said = plugin(&caller)?.run(&[&join[..], &flags[..2], &["--timeout=2s".to_owned()]].concat())?;
    said.failure(&["ProxyTLSFailed", &proxy.url(""), "--proxy-client-certificate"])?;

    show(&first)?;
    let said = plugin(&caller)?.ok(&through)?;
    follow(&caller, &said)?;
    for secret in ["member", "manager"] {
        assert_eq!(text(&data(secret)?, "proxy-tls.crt")?, first.certificate);
    }
    // Another certificate does not change the token.
    show(&second)?;
    plugin(&caller)?.ok(&through)?;
    assert_eq!(text(&data("member")?, "proxy-tls.crt")?, second.certificate);
    let shown = Some(second.der()?);
    eventually("it is shown", SOON, || Ok(proxy.certificates().contains(&shown).then_some(())))?;
    // A join without the flags removes the keys.
    plugin(&caller)?.ok(&join)?;
    for secret in ["member", "manager"] {
        let data = data(secret)?;
        let keys: Vec<_> = data.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["ca.crt", "server", "token"], "{secret}");
    }
    plugin(&caller)?.ok(&["unjoin", NAME, "--member-context=member", "--yes"])?;
    Traces::of(&alone)?.same_as(&before)
}

/// Checks that the member is not reached, and that the error and the condition name the proxy and
/// this reason.
fn is_not_reached(name: &str, proxy: &ConnectProxy, with: &Value, why: &str) -> Result<()> {
    let fleet = OwnFleet::new(name)?;
    let fake = FakeMember::unregistered(&format!("e2e-{name}"), script)?;
    fleet.register(&fake.name, &fake.secret(&keys(proxy, with)))?;
    let own = fleet.sidecar(&[])?;
    let proxy_is_why = format!("proxy {}: ", proxy.url(""));
    let said = fleet.until(&fake.name, "Reachable", "False", "ProxyTLSFailed")?;
    ensure!(said.message.starts_with(&proxy_is_why) && said.message.contains(why), "{said}");
    let admin = harness::caller::Caller::certificate(&format!("e2e-{name}-admin"), &["system:masters"])?;
    let endpoint = own.endpoint(admin.certificate.as_deref())?;
    let answer = endpoint.exchange(request(&fake, "/plain").as_bytes())?;
    ensure!(answer.status() == 503 && answer.text().contains(&proxy_is_why), "{}", answer.text());
    ensure!(answer.text().contains("member unreachable"), "{}", answer.text());
    ensure!(fake.knocked() == 0 && proxy.asked().is_empty(), "it was reached");
    Ok(())
}

/// The keys of a Secret for this proxy.
fn keys(proxy: &ConnectProxy, with: &Value) -> Value {
    let mut keys = with.clone();
    keys["proxy-url"] = proxy.url("").into();
    keys
}

fn plain(endpoint: &Endpoint, fake: &FakeMember) -> Result<u16> {
    Ok(endpoint.exchange(request(fake, "/plain").as_bytes())?.status())
}

fn request(fake: &FakeMember, path: &str) -> String {
    format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", member_path(&fake.name, path))
}

/// The data of one of the joined member's Secrets.
fn data(secret: &str) -> Result<Value> {
    Ok(host()?.get(&format!("/api/v1/namespaces/{SYSTEM}/secrets/{NAME}.{secret}"))?["data"].clone())
}

fn text(data: &Value, key: &str) -> Result<String> {
    use base64::Engine;
    let decoded = base64::engine::general_purpose::STANDARD.decode(data[key].as_str().unwrap_or_default())?;
    Ok(String::from_utf8(decoded)?)
}

const FIRST: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n";
const LAST: &str = "4\r\nlast\r\n0\r\n\r\n";
