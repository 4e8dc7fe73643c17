//! The sidecar accepts identity headers only from the host's front proxy, and reads them as a kube-apiserver
//! does. Each request goes straight to the sidecar, with a certificate of the host or of an attacker.

use anyhow::{Context, Result, ensure};
use harness::bed::sidecar;
use harness::caller::Caller;
use harness::fake_member::{FakeMember, Request, ok};
use harness::front_proxy::{self, ClientCertificate};
use harness::http1::{Connection, Endpoint, Head, member_path};
use harness::http2::{END_HEADERS, END_STREAM, HEADERS, Http2, literal, literal_bytes};
use harness::own_sidecar::OwnSidecar;
use harness::scene::{EVERY_VERB, Scene};

#[test]
fn fault_01_front_proxy_headers_need_a_certificate() -> Result<()> {
    Proxy::prepare("no-certificate", None)?.is_refused(ULRIKE)
}

#[test]
fn fault_02_certificate_of_another_ca_is_no_front_proxy() -> Result<()> {
    Proxy::prepare("stranger", Some(front_proxy::of_a_stranger()?))?.is_refused(ULRIKE)
}

#[test]
fn fault_03_other_name_of_the_same_ca_is_no_front_proxy() -> Result<()> {
    Proxy::prepare("other-name", Some(front_proxy::called("another-client")?))?.is_refused(ULRIKE)
}

#[test]
fn fault_04_expired_certificate_is_refused_and_counted() -> Result<()> {
    let fake = FakeMember::start("e2e-fp-expired", |_| ok())?;
    let own = OwnSidecar::start()?;
    let expired = Proxy { fake, endpoint: own.endpoint(Some(&front_proxy::expired()?))? };
    let counted = "authentication_attempts{result=\"failure\"}";
    let before = own.metric(counted)?;
    expired.is_refused(ULRIKE)?;
    harness::wait::eventually("it is counted", harness::wait::SOON, || {
        Ok((own.metric(counted)? >= before + 1.0).then_some(()))
    })
}

#[test]
fn fault_05_front_proxy_without_a_user_header_is_ignored() -> Result<()> {
    let proxy = Proxy::honest("no-user")?;
    proxy.is_refused("X-Remote-Group: system:masters\r\n")?;
    // The token in the same request is used instead.
    let theo = Caller::token("theo")?;
    Scene::on("m2", "fp-no-user")?.let_in(&theo, &[&proxy.fake.name], EVERY_VERB)?;
    let arrived = proxy.arrives(&format!("X-Remote-Group: system:masters\r\n{}", theo.authorization()))?;
    assert_eq!(arrived.values("impersonate-user"), ["theo"]);
    assert_eq!(arrived.values("impersonate-group"), Vec::<&str>::new());
    Ok(())
}

#[test]
fn credentials_count_in_a_kube_apiservers_order() -> Result<()> {
    let (ulrike, theo) = (Caller::token("ulrike")?, Caller::token("theo")?);
    let certified = Caller::certificate("e2e-fp-order", &[])?;
    // The front proxy's headers take precedence over a token in the same request.
    let proxy = Proxy::honest("order")?;
    let scene = Scene::on("m2", "fp-order")?;
    for caller in [&ulrike, &theo, &certified] {
        scene.let_in(caller, &[&proxy.fake.name], EVERY_VERB)?;
    }
    let headers =
        format!("X-Remote-User: theo\r\nX-Remote-Group: system:masters\r\n{}", ulrike.authorization());
    assert_eq!(proxy.arrives(&headers)?.values("impersonate-user"), ["theo"]);
    // A certificate takes precedence over a token.
    let by_certificate = Endpoint::sidecar(sidecar()?, certified.certificate.as_deref())?;
    let path = member_path(&proxy.fake.name, "/by-certificate");
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n{}\r\n", ulrike.authorization());
    assert_eq!(by_certificate.exchange(request.as_bytes())?.status(), 200);
    let arrived = proxy.fake.wait_for("/by-certificate", |_| true)?;
    assert_eq!(arrived.values("impersonate-user"), ["e2e-fp-order"]);
    // A token in the header takes precedence over a WebSocket's; a refused one does not hide the other.
    let websocket = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                     Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io, \
                     base64url.bearer.authorization.k8s.io.dWxyaWtlLXRva2Vu\r\n";
    for (rest, token, user) in [
        ("/header", theo.authorization(), "theo"),
        ("/protocol", "Authorization: Bearer no\r\n".to_owned(), "ulrike"),
    ] {
        let path = member_path(&proxy.fake.name, rest);
        let mut connection = Endpoint::sidecar(sidecar()?, None)?.connect()?;
        connection.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{token}{websocket}\r\n").as_bytes())?;
        connection.head()?;
        let arrived = proxy.fake.wait_for(rest, |_| true)?;
        assert_eq!(arrived.values("impersonate-user"), [user]);
        assert_eq!(arrived.values("sec-websocket-protocol"), ["v5.channel.k8s.io"]);
    }
    Ok(())
}

#[test]
fn fault_06_first_of_two_names_counts_and_they_are_never_joined() -> Result<()> {
    let proxy = Proxy::honest("two-users")?;
    let groups = "X-Remote-Group: system:masters\r\n";
    proxy.is_refused(&format!("X-Remote-User:\r\nX-Remote-User: theo\r\n{groups}"))?;
    let arrived = proxy.arrives(&format!("X-Remote-User: ulrike\r\nX-Remote-User: theo\r\n{groups}"))?;
    assert_eq!(arrived.values("impersonate-user"), ["ulrike"]);
    Ok(())
}

#[test]
fn fault_07_similar_headers_are_no_front_proxy_headers() -> Result<()> {
    let proxy = Proxy::honest("resemble")?;
    for resembling in ["X_Remote_User: ulrike", "X-Remote_User: ulrike", "X-Remote-User_: ulrike"] {
        proxy.is_refused(&format!("{resembling}\r\nX-Remote-Group: system:masters\r\n"))?;
    }
    // White space before the colon is not valid HTTP (RFC 9112, 5.1).
    let answer = proxy.send("X-Remote-User : ulrike\r\nX-Remote-Group: system:masters\r\n")?.head()?;
    assert_eq!(answer.status, 400);
    assert_eq!(proxy.fake.requests("/target").len(), 0);
    for resembling in ["X_Remote_User", "X-Remote_User", "X-Remote-User_", "X-Remote-Users"] {
        let arrived = proxy.arrives(&format!(
            "X-Remote-User: theo\r\nX-Remote-Group: system:masters\r\n{resembling}: ulrike\r\n"
        ))?;
        assert_eq!(arrived.values("impersonate-user"), ["theo"]);
        ensure!(!arrived.head.contains("ulrike"), "{}", arrived.head);
    }
    Ok(())
}

#[test]
fn fault_08_all_of_five_hundred_groups_arrive() -> Result<()> {
    let proxy = Proxy::honest("groups")?;
    let groups: Vec<String> = (0..500).map(|number| format!("e2e-fp-group-{number:03}")).collect();
    let mut lines = vec![("x-remote-user", "ulrike"), ("x-remote-group", "system:masters")];
    lines.extend(groups.iter().map(|group| ("x-remote-group", group.as_str())));
    let written: String = lines.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let over_http1 = proxy.arrives(&written)?;
    let mut http2 = Http2::connect(&proxy.endpoint)?;
    let stream = http2.get(&member_path(&proxy.fake.name, "/over-http2"), &lines)?;
    assert_eq!(http2.answer(stream)?.status, Some(200));
    let over_http2 = proxy.fake.wait_for("/over-http2", |_| true)?;
    for arrived in [over_http1, over_http2] {
        let arrived = arrived.values("impersonate-group");
        ensure!(groups.iter().all(|group| arrived.contains(&group.as_str())), "{} arrived", arrived.len());
        ensure!(!arrived.contains(&"system:masters"), "{arrived:?}");
    }
    Ok(())
}

#[test]
fn fault_09_keys_of_extra_are_unescaped_and_sent_on_escaped() -> Result<()> {
    let proxy = Proxy::honest("extra")?;
    let who = "X-Remote-User: ulrike\r\nX-Remote-Group: system:masters\r\n";
    for (sent, arrives) in [
        ("X-Remote-Extra-Scopes.io%2FA", "impersonate-extra-scopes.io%2fa"),
        ("X-Remote-Extra-a%zz", "impersonate-extra-a%25zz"),
        ("X-Remote-Extra-UPPER", "impersonate-extra-upper"),
        ("X-Remote-Extra-with%20space", "impersonate-extra-with%20space"),
    ] {
        let arrived = proxy.arrives(&format!("{who}{sent}: value\r\n"))?;
        assert_eq!(arrived.values(arrives), ["value"], "{sent}: {}", arrived.head);
    }
    // An extra key without a name cannot be forwarded.
    let answer = proxy.send(&format!("{who}X-Remote-Extra-: value\r\n"))?.head()?;
    assert_eq!(answer.status, 500, "{answer:?}");
    Ok(())
}

#[test]
fn fault_10_name_that_is_not_utf8_is_unauthorized() -> Result<()> {
    let proxy = Proxy::honest("not-utf8")?;
    let groups = "X-Remote-Group: system:masters\r\n";
    let path = member_path(&proxy.fake.name, "/target");
    let request =
        [format!("GET {path} HTTP/1.1\r\nHost: x\r\n{groups}X-Remote-User: jan").as_bytes(), b"\xe9\r\n\r\n"]
            .concat();
    assert_eq!(proxy.endpoint.exchange(&request)?.status(), 401);
    let mut http2 = Http2::connect(&proxy.endpoint)?;
    let lines = [(":method", "GET"), (":scheme", "https"), (":authority", "x"), (":path", path.as_str())];
    let mut block: Vec<u8> = lines.iter().flat_map(|(name, value)| literal(name, value)).collect();
    block.extend(literal_bytes("x-remote-user", b"jan\xff"));
    let stream = http2.next_stream();
    http2.send(HEADERS, END_HEADERS | END_STREAM, stream, &block)?;
    assert_eq!(http2.answer(stream)?.status, Some(401));
    assert_eq!(proxy.fake.requests("/target").len(), 0);
    let arrived =
        proxy.arrives(&format!("X-Remote-User: jan\u{e9} \u{2014} \u{65e5}\u{672c}\r\n{groups}"))?;
    assert_eq!(arrived.values("impersonate-user"), ["jan\u{e9} \u{2014} \u{65e5}\u{672c}"]);
    Ok(())
}

#[test]
fn fault_12_leftover_impersonation_is_an_error() -> Result<()> {
    let proxy = Proxy::honest("left-over")?;
    for left in ["Impersonate-User: ", "Impersonate-User: admin", "Impersonate-Foo: x", "Impersonate_User: x"]
    {
        let mut connection = proxy.send(&format!("{ULRIKE}{left}\r\n"))?;
        let answer = connection.response()?;
        ensure!([400, 500].contains(&answer.status()), "{left}: {}", answer.text());
    }
    assert_eq!(proxy.fake.requests("/target").len(), 0);
    Ok(())
}

#[test]
fn fault_18_user_without_a_name_is_unauthorized() -> Result<()> {
    let proxy = Proxy::honest("no-name")?;
    proxy.is_refused("X-Remote-User: \r\nX-Remote-Group: system:masters\r\n")?;
    let nameless = Caller::certificate("", &["system:masters"])?;
    Proxy::prepare("no-common-name", nameless.certificate.as_deref().cloned())?.is_refused("")
}

/// The front proxy's headers for an administrator, who may enter every member.
const ULRIKE: &str = "X-Remote-User: ulrike\r\nX-Remote-Group: system:masters\r\n";

/// A client that connects to the sidecar as the host's aggregator does, and a member.
struct Proxy {
    fake: FakeMember,
    endpoint: Endpoint,
}

impl Proxy {
    fn honest(name: &str) -> Result<Self> {
        Self::prepare(name, Some(front_proxy::certificate()?))
    }

    fn prepare(name: &str, certificate: Option<ClientCertificate>) -> Result<Self> {
        let fake = FakeMember::start(&format!("e2e-fp-{name}"), |_| ok())?;
        Ok(Self { fake, endpoint: Endpoint::sidecar(sidecar()?, certificate.as_ref())? })
    }

    fn send(&self, headers: &str) -> Result<Connection> {
        let mut connection = self.endpoint.connect()?;
        // An inner proxy of the member lets headers through that the Kubernetes API does not know.
        let path = member_path(&self.fake.name, "/api/v1/namespaces/x/pods/p/proxy/target");
        connection.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n").as_bytes())?;
        Ok(connection)
    }

    /// Checks that the answer is 401 and that no request reaches the member.
    fn is_refused(&self, headers: &str) -> Result<()> {
        let answer: Head = self.send(headers)?.head()?;
        ensure!(answer.status == 401, "{headers:?}: {answer:?}");
        ensure!(self.fake.requests("/target").is_empty(), "{headers:?} reached the member");
        Ok(())
    }

    /// The request as the member sees it.
    fn arrives(&self, headers: &str) -> Result<Request> {
        let before = self.fake.requests("/target").len();
        let answer = self.send(headers)?.response()?;
        ensure!(answer.status() == 200, "{headers:.200}: {}", answer.text());
        self.fake.requests("/target").into_iter().nth(before).context("nothing arrived")
    }
}
