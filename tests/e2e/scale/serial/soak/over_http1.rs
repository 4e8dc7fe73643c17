//! Callers send requests over HTTP/1.1. One connection carries several requests, of several
//! callers.

use std::collections::HashMap;
use std::fmt::Write;

use anyhow::Result;
use harness::front_proxy;
use harness::http1::{Connection, member_path};
use harness::noise::Dice;
use harness::own_sidecar::OwnSidecar;

use super::callers::{Callers, Way, Who};
use super::{Tally, nasty};

pub(super) fn ask(
    seed: u64,
    way: Way,
    own: &OwnSidecar,
    callers: &Callers,
    members: &[&str],
    tally: &Tally,
) -> Result<()> {
    let callers = callers.by(way);
    let vouching = if way == Way::FrontProxyHttp1 { Some(front_proxy::certificate()?) } else { None };
    let mut dice = Dice::new(seed);
    // Callers with the same certificate share a connection.
    let mut connections: HashMap<usize, Connection> = HashMap::new();
    while let Some(number) = tally.next() {
        let (place, who) = callers[dice.below(callers.len())];
        let certified = if way == Way::Certificate { place } else { 0 };
        let request = Request::by_chance(&mut dice, way, (place, who), number, members);
        let mut connection = match connections.remove(&certified) {
            Some(connection) => connection,
            None => own.endpoint(who.certificate.as_deref().or(vouching.as_ref()))?.connect()?,
        };
        let answer = connection.send(&request.bytes()).and_then(|()| connection.response());
        match answer {
            Ok(answer) => {
                tally.answer(&request.tag(), request.honest(), Some(answer.status()), &answer.body);
                if answer.head.value("connection").is_none_or(|value| value != "close") {
                    connections.insert(certified, connection);
                }
            }
            Err(error) => {
                if error.to_string().contains("no answer in time") {
                    tally.wrong(format!(
                        "no answer: {} {} {:?}",
                        request.method, request.target, request.nasty
                    ));
                }
                tally.answer(&request.tag(), request.honest(), None, &[]);
            }
        }
    }
    Ok(())
}

/// One random request.
pub(super) struct Request<'a> {
    pub(super) method: &'static str,
    pub(super) target: String,
    pub(super) says: &'a [(String, String)],
    pub(super) nasty: &'static str,
    pub(super) body: Vec<u8>,
    tag: (usize, u64),
    kind: &'static str,
}

impl<'a> Request<'a> {
    pub(super) fn by_chance(
        dice: &mut Dice,
        way: Way,
        (place, who): (usize, &'a Who),
        number: u64,
        members: &[&str],
    ) -> Self {
        let kinds = if dice.below(10) == 0 { super::member::FAULTS } else { super::member::HONEST };
        let kind = kinds[dice.below(kinds.len())];
        let nasties = nasty::of(way, who);
        let nasty = if dice.below(5) == 0 { nasties[dice.below(nasties.len())] } else { "" };
        let creates = kind == "create" || (kind != "get" && dice.below(4) == 0 && kind != "watch");
        let body = if creates { vec![b'b'; dice.size(8192)] } else { Vec::new() };
        let (before, after) = match kind {
            "inner" => ("/api/v1/namespaces/n/pods/p/proxy", ""),
            "watch" => ("/api/v1", "?watch=1"),
            _ => ("/api/v1", ""),
        };
        let member = members[dice.below(members.len())];
        let target = member_path(member, &format!("{before}/soak/{place}/{number}/{kind}{after}"));
        let method = if creates { "POST" } else { "GET" };
        Self { method, target, says: &who.says, nasty, body, tag: (place, number), kind }
    }

    /// The beginning of its answer.
    pub(super) fn tag(&self) -> String {
        format!("{}/{}/", self.tag.0, self.tag.1)
    }

    /// Whether the request has to succeed.
    pub(super) fn honest(&self) -> bool {
        self.nasty.is_empty() && super::member::HONEST.contains(&self.kind)
    }

    fn bytes(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\nHost: sidecar\r\n", self.method, self.target);
        for (name, value) in self.says {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        if !self.nasty.is_empty() {
            head += self.nasty;
            head += "\r\n";
        }
        if !self.body.is_empty() {
            let _ = write!(head, "Content-Length: {}\r\n", self.body.len());
        }
        head += "\r\n";
        [head.as_bytes(), &self.body].concat()
    }

    pub(super) fn lines(&self) -> Vec<(&str, &str)> {
        let nasty = self.nasty.split("\r\n").filter_map(|line| line.split_once(": "));
        self.says.iter().map(|(name, value)| (name.as_str(), value.as_str())).chain(nasty).collect()
    }
}
