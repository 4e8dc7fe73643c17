//! Tests enrollment with a fake host and a fake agent.

use bytes::Bytes;
use h2::server::SendResponse;
use http::StatusCode;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kubectl_mc_api::MemberCluster;
use kubectl_mc_api::names::{ENROLLMENT_UNTIL, HOST_UID};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use super::*;
use crate::controllers::tests::context;
use crate::host::fake::host;
use crate::members::inventory::fleet::Registered;
use crate::outbound::tunnel::enrollment::Request;
use crate::outbound::tunnel::link;
use crate::outbound::tunnel::link::tests::no_accounts;
use crate::outbound::tunnel::registry::AgentTunnels;

/// A certificate authority.
pub(super) fn authority() -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.self_signed(&key).unwrap().pem()
}

pub(super) fn with_annotation(mut secret: Secret, key: &str, value: &str) -> Secret {
    secret.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
    secret
}

/// A member whose enrollment ends at this time.
pub(in crate::controllers) fn registered(name: &str, until: &str) -> Registered {
    let data = [("server", "https://kubernetes.default.svc"), ("via", "agent")];
    let data = data.map(|(key, text)| (key.to_owned(), ByteString(text.as_bytes().to_vec())));
    let secret = |end: &str| {
        let mut secret = Secret { data: Some(data.clone().into()), ..Secret::default() };
        secret.metadata.name = Some(format!("{name}.{end}"));
        secret.metadata.resource_version = Some("7".to_owned());
        Some(Arc::new(with_annotation(
            with_annotation(secret, ENROLLMENT_UNTIL, until),
            HOST_UID,
            "host-uid",
        )))
    };
    Registered {
        member: Arc::new(MemberCluster::new(name, Default::default())),
        origin: Default::default(),
        is_read: true,
        in_two: false,
        connection: secret("member"),
        manager: secret("manager"),
        hub_account: None,
        way: Err("it is off".into()),
    }
}

fn m1() -> ClusterName {
    "m1".parse().unwrap()
}

fn open() -> String {
    Timestamp::now().checked_add(Duration::from_secs(600)).unwrap().to_string()
}

fn changed(registered: &Registered, change: impl Fn(&mut Secret)) -> Registered {
    let mut secret = Secret::clone(registered.connection.as_ref().unwrap());
    change(&mut secret);
    Registered { connection: Some(Arc::new(secret)), ..registered.clone() }
}

/// The number of members that wait for their enrollment.
fn waiting(registered: Registered) -> usize {
    let (_told, context) = context();
    let mut enroller = Enroller {
        turns: Arc::new(Semaphore::new(1)),
        queue: context.metrics.queue("enrollment"),
        context,
        waiting: HashMap::new(),
        under_way: JoinSet::new(),
    };
    enroller.follow(&[(m1(), registered)].into(), Timestamp::now());
    enroller.waiting.len()
}

#[tokio::test]
async fn only_open_enrollments_without_a_credential_are_pending() {
    let member = registered("m1", &open());
    assert_eq!(waiting(member.clone()), 1);
    let put = |key: &str, value: &str| {
        let (key, value) = (key.to_owned(), ByteString(value.as_bytes().to_vec()));
        waiting(changed(&member, |secret| {
            secret.data.as_mut().unwrap().insert(key.clone(), value.clone());
        }))
    };
    assert_eq!((put("token", "t"), put("tls.crt", "c"), put("via", "")), (0, 0, 0));
    let annotated = |until: &str| {
        waiting(changed(&member, |secret| *secret = with_annotation(secret.clone(), ENROLLMENT_UNTIL, until)))
    };
    assert_eq!(
        (annotated("2020-01-01T00:00:00Z"), annotated("2099-01-01T00:00:00Z"), annotated("soon")),
        (0, 0, 0)
    );
    assert_eq!(waiting(changed(&member, |secret| secret.metadata.annotations = None)), 0);
    assert_eq!(waiting(Registered { connection: None, ..member }), 0);
}

#[tokio::test]
async fn reopened_enrollment_clears_the_failure() {
    let (_told, context) = context();
    let failures = context.enrollments.subscribe();
    let mut enroller = Enroller {
        turns: Arc::new(Semaphore::new(1)),
        queue: context.metrics.queue("enrollment"),
        context,
        waiting: HashMap::new(),
        under_way: JoinSet::new(),
    };
    let now = Timestamp::now();
    enroller.follow(&[(m1(), registered("m1", &open()))].into(), now);
    enroller.ended(&m1(), Err(Error::Over));
    assert!(failures.borrow()[&m1()].contains("may not enroll the member any more"));
    let later = now.checked_add(Duration::from_secs(700)).unwrap().to_string();
    enroller.follow(&[(m1(), registered("m1", &later))].into(), now);
    assert!(failures.borrow().is_empty());
    enroller.ended(&m1(), Err(Error::Silent));
    enroller.follow(&Fleet::new(), now);
    assert!(failures.borrow().is_empty() && enroller.waiting.is_empty());
}

/// The response of an agent.
type Answer = fn(SendResponse<Bytes>);

/// The result of one attempt with an agent that responds like this, and the bodies of the requests to the
/// host.
async fn attempt(registered: Registered, answer: Answer) -> (Result<(), Error>, Vec<Value>) {
    crate::connection::tls::install_provider();
    let tunnels = AgentTunnels::none();
    let (io, _sidecar) = link::tests::joined(&tunnels, no_accounts(), "instance");
    let _agent = AbortOnDropHandle::new(tokio::spawn(async move {
        let mut connection = h2::server::handshake(io).await.unwrap();
        let mut held = Vec::new();
        while let Some(Ok((request, respond))) = connection.accept().await {
            if request.uri().path() == crate::outbound::tunnel::protocol::paths::ENROLL {
                answer(respond);
            } else {
                held.push(respond);
            }
        }
    }));
    while tunnels.oldest(&m1()).is_none() {
        tokio::task::yield_now().await;
    }
    let (log, mut logged) = tokio::sync::mpsc::unbounded_channel();
    let (host, _) = host(move |body| {
        log.send(body.clone()).unwrap();
        (200, json!({"metadata": {"name": "s"}}))
    });
    let fleet = Arc::new(Fleet::from([(m1(), registered.clone())]));
    let attempt = Attempt { cluster: m1(), registered, fleet, host, namespace: "ns".into(), tunnels };
    let result = attempt.run().await;
    let sent = std::iter::from_fn(|| logged.try_recv().ok()).collect();
    (result, sent)
}

fn status(mut respond: SendResponse<Bytes>, status: StatusCode, body: Vec<u8>) {
    let mut response = http::Response::new(());
    *response.status_mut() = status;
    let mut send = respond.send_response(response, false).unwrap();
    send.send_data(body.into(), true).unwrap();
    // A body longer than the flow-control window continues after the sidecar has read from it.
    std::mem::forget(send);
}

#[tokio::test(start_paused = true)]
async fn failed_enrollment_writes_nothing() {
    let hang: Answer = std::mem::forget;
    let cases: [(Answer, &str); 7] = [
        (hang, "did not answer"),
        (|respond| status(respond, StatusCode::NOT_IMPLEMENTED, Vec::new()), "of an earlier release"),
        (|respond| status(respond, StatusCode::GONE, Vec::new()), "may not enroll the member any more"),
        (
            |respond| status(respond, StatusCode::BAD_GATEWAY, b"no\nDNS\x1b[31m".repeat(1000)),
            "cannot enroll the member: no DNS [31mno DNS",
        ),
        (|respond| status(respond, StatusCode::OK, b"{}".to_vec()), "has not the form"),
        (|respond| status(respond, StatusCode::OK, vec![b' '; 1 << 20]), "too long"),
        (|respond| status(respond, StatusCode::OK, vec![0xff; 1000]), "has not the form"),
    ];
    for (answer, said) in cases {
        let (result, sent) = attempt(registered("m1", &open()), answer).await;
        let error = result.unwrap_err().to_string();
        assert!(error.contains(said) && error.len() < 400, "{error}");
        assert!(sent.is_empty(), "{sent:?}");
    }
}

#[tokio::test]
async fn secret_with_a_credential_is_not_written() {
    let never: Answer = |_| panic!("the agent was asked");
    let token = |secret: &mut Secret| {
        secret.data.as_mut().unwrap().insert("token".to_owned(), ByteString(b"t".to_vec()));
    };
    let member = registered("m1", &open());
    let taken = changed(&member, token);
    let mut manager = Secret::clone(member.manager.as_ref().unwrap());
    token(&mut manager);
    manager.metadata.annotations = None;
    let managed = Registered { manager: Some(Arc::new(manager)), ..member.clone() };
    for (registered, secret) in [
        (taken, "m1.member"),
        (managed, "m1.manager"),
        (Registered { manager: None, ..member }, "m1.manager"),
    ] {
        let (result, sent) = attempt(registered, never).await;
        assert!(matches!(result, Err(Error::Taken(name)) if name == secret), "{secret}");
        assert!(sent.is_empty());
    }
}

#[tokio::test]
async fn tokens_are_tried_on_the_member_before_they_are_written() {
    let answer: Answer = |respond| {
        let token = |name: &str| {
            let subject = format!("system:serviceaccount:kubectl-mc-system:kubectl-mc-{name}");
            crate::host::token::tests::token(&json!({"sub": subject, "iat": 0, "exp": 9_000_000_000_u64}))
        };
        let tokens = json!({"impersonator": token("impersonator"), "manager": token("manager")});
        let body = json!({"ca.crt": authority(), "uid": "u", "tokens": tokens});
        status(respond, StatusCode::OK, body.to_string().into_bytes());
    };
    // This agent forwards no connections to the member.
    let asked =
        tokio::time::timeout(Duration::from_secs(2), attempt(registered("m1", &open()), answer)).await;
    assert!(asked.is_err() || matches!(asked.unwrap(), (Err(Error::Untried(_)), sent) if sent.is_empty()));
}

#[tokio::test]
async fn enrollment_without_a_tunnel_gets_no_reply() {
    assert_eq!(AgentTunnels::none().enroll(&m1(), Request::Enroll).await, None);
}
