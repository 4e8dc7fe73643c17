use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kubectl_mc_api::MemberCluster;
use kubectl_mc_api::names::MEMBER_UID;
use serde_json::{Value, json};

use super::*;
use crate::controllers::enrollment::tests::{authority, registered, with_annotation};
use crate::host::token::tests::token;

fn of_account(name: &str, end: i64) -> String {
    token(&json!({"sub": format!("system:serviceaccount:{name}"), "iat": 0, "exp": end}))
}

/// The response of an honest agent.
fn honest() -> Value {
    json!({
        "ca.crt": authority(), "uid": "aaaa-1", "tokens": {
            "impersonator": of_account("kubectl-mc-system:kubectl-mc-impersonator", 1000),
            "manager": of_account("kubectl-mc-system:kubectl-mc-manager", 1500),
        },
    })
}

fn fleet() -> Fleet {
    let mut other = registered("m2", "2026-11-24T14:00:00Z");
    let mut member = MemberCluster::new("m2", Default::default());
    member.metadata.annotations = Some([(MEMBER_UID.to_owned(), "bbbb-2".to_owned())].into());
    other.member = Arc::new(member);
    let member = registered("m1", "2026-11-24T14:00:00Z");
    [("m1".parse().unwrap(), member), ("m2".parse().unwrap(), other)].into()
}

fn refusal(answer: &str) -> Option<Refused> {
    refusal_in(answer, &fleet())
}

fn refusal_in(answer: &str, fleet: &Fleet) -> Option<Refused> {
    crate::connection::tls::install_provider();
    let name = "m1".parse().unwrap();
    check(answer, &name, &fleet[&name], fleet, Timestamp::from_second(500).unwrap()).err()
}

fn changed(pointer: &str, value: Value) -> Option<Refused> {
    let mut answer = honest();
    *answer.pointer_mut(pointer).unwrap() = value;
    refusal(&answer.to_string())
}

#[test]
fn valid_answer_becomes_the_data_of_both_secrets() {
    crate::connection::tls::install_provider();
    let (fleet, name) = (fleet(), "m1".parse().unwrap());
    let answer = honest();
    let checked =
        check(&answer.to_string(), &name, &fleet[&name], &fleet, Timestamp::from_second(500).unwrap());
    let Checked { member, manager, uid } = checked.unwrap_or_else(|error| panic!("{error}"));
    let text = |data: &Data, key: &str| String::from_utf8(data[key].0.clone()).unwrap();
    assert_eq!(uid, "aaaa-1");
    for (data, account) in [(&member, "impersonator"), (&manager, "manager")] {
        assert_eq!(answer["tokens"][account], text(data, "token"));
        assert_eq!(answer["ca.crt"], text(data, "ca.crt"));
        // The agent cannot change the server of the connection.
        assert_eq!(
            (text(data, "server").as_str(), text(data, "via").as_str()),
            ("https://kubernetes.default.svc", "agent")
        );
        assert_eq!(data.len(), 4);
    }
}

#[test]
fn token_of_another_account_is_refused() {
    for (pointer, account) in [("/tokens/impersonator", IMPERSONATOR), ("/tokens/manager", MANAGER)] {
        for other in [
            "kubectl-mc-system:default",
            "default:kubectl-mc-impersonator",
            "default:kubectl-mc-manager",
            "kube-system:kubectl-mc-manager",
        ] {
            let other = of_account(other, 1000);
            assert_eq!(changed(pointer, other.into()), Some(Refused::Account(account)));
        }
        for opaque in ["", "opaque", "a.b.c", "e30.e30.x"] {
            assert_eq!(changed(pointer, opaque.into()), Some(Refused::Account(account)), "{opaque:?}");
        }
        let line = format!("{}\r\nX: y", honest().pointer(pointer).unwrap().as_str().unwrap());
        assert_eq!(changed(pointer, line.into()), Some(Refused::Account(account)));
    }
    let swapped = honest()["tokens"]["manager"].clone();
    assert_eq!(changed("/tokens/impersonator", swapped), Some(Refused::Account(IMPERSONATOR)));
}

#[test]
fn token_without_expiry_or_after_it_is_refused() {
    let subject = "system:serviceaccount:kubectl-mc-system:kubectl-mc-manager";
    let forever = token(&json!({"sub": subject, "iat": 0}));
    assert_eq!(changed("/tokens/manager", forever.into()), Some(Refused::Life(MANAGER)));
    let expired = of_account("kubectl-mc-system:kubectl-mc-manager", 500);
    assert_eq!(changed("/tokens/manager", expired.into()), Some(Refused::Life(MANAGER)));
}

#[test]
fn authority_must_be_a_certificate() {
    let key = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA==\n-----END PRIVATE KEY-----\n";
    for other in ["", "PEM", key, "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"] {
        let refused = changed("/ca.crt", other.into());
        assert!(matches!(refused, Some(Refused::Connection(_))), "{other:?}: {refused:?}");
    }
}

#[test]
fn known_or_invalid_cluster_uid_is_refused() {
    assert_eq!(changed("/uid", "host-uid".into()), Some(Refused::Host));
    assert_eq!(changed("/uid", "bbbb-2".into()), Some(Refused::Joined("m2".parse().unwrap())));
    for uid in ["", "a b", "a/b", "é", &"x".repeat(65)] {
        assert_eq!(changed("/uid", uid.into()), Some(Refused::Uid), "{uid:?}");
    }
}

#[test]
fn name_joined_by_another_cluster_is_refused() {
    let (mut fleet, name) = (fleet(), "m1".parse().unwrap());
    let mut before = fleet[&name].clone();
    let secret = Secret::clone(before.connection.as_ref().unwrap());
    before.connection = Some(Arc::new(with_annotation(secret, MEMBER_UID, "cccc-3")));
    fleet.insert(name, before);
    assert_eq!(refusal_in(&honest().to_string(), &fleet), Some(Refused::Another));
}

#[test]
fn answer_with_an_invalid_form_is_refused() {
    for text in ["", "{}", "[]", "null", "{\"ca.crt\":1}", "<html>"] {
        assert_eq!(refusal(text), Some(Refused::Form), "{text:?}");
    }
    for gone in ["ca.crt", "uid", "tokens"] {
        let mut answer = honest();
        answer.as_object_mut().unwrap().remove(gone);
        assert_eq!(refusal(&answer.to_string()), Some(Refused::Form), "{gone}");
    }
    // Fields of later releases are ignored.
    let mut answer = honest();
    answer["kubernetes"] = "v1.40.0".into();
    assert_eq!(refusal(&answer.to_string()), None);
}

/// A damaged response is refused, or still names the right accounts.
#[test]
fn damaged_answer_never_panics_and_names_no_other_account() {
    crate::connection::tls::install_provider();
    let (fleet, name): (_, ClusterName) = (fleet(), "m1".parse().unwrap());
    let (honest, mut state) = (honest().to_string().into_bytes(), 7_u64);
    let mut next = |below: usize| {
        // The linear congruential generator of Knuth's MMIX.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for _ in 0..20_000 {
        let mut damaged = honest.clone();
        for _ in 0..=next(3) {
            let at = next(damaged.len());
            match next(3) {
                0 => damaged[at] = next(256) as u8,
                1 => damaged.truncate(at.max(1)),
                _ => drop(damaged.drain(at..(at + next(40)).min(damaged.len()))),
            }
            if damaged.is_empty() {
                break;
            }
        }
        let text = String::from_utf8_lossy(&damaged);
        if let Ok(checked) = check(&text, &name, &fleet[&name], &fleet, Timestamp::from_second(500).unwrap())
        {
            for (data, account) in [(&checked.member, IMPERSONATOR), (&checked.manager, MANAGER)] {
                let said = Token::of(std::str::from_utf8(&data["token"].0).unwrap()).account.unwrap();
                assert_eq!((said.namespace.as_str(), said.name.as_str()), (NAMESPACE, account));
            }
        }
    }
}
