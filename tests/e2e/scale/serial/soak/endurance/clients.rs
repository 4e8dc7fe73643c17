//! Clients create, read, change and delete their own objects, alternately through the host and past
//! it, over two persistent connections each. When such a connection has ended, they do the same as
//! Go's client.

use std::io::ErrorKind;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::bed::bed;
use harness::caller::Caller;
use harness::http1::{Connection, Endpoint, Response, member_path};
use serde_json::{Value, json};

use super::replicas::Serving;
use super::{MEMBER, Tally, add, configmaps};

pub(super) struct Client<'a> {
    name: String,
    /// The path of its objects.
    folder: String,
    host: Endpoint,
    replicas: Receiver<Serving>,
    serving: Serving,
    /// The connections through the host and past it.
    connections: [Option<Connection>; 2],
    tally: &'a Tally,
}

impl<'a> Client<'a> {
    pub(super) fn new(
        number: u64,
        namespace: &str,
        caller: &Caller,
        replicas: Receiver<Serving>,
        tally: &'a Tally,
    ) -> Result<Self> {
        Ok(Self {
            name: format!("client-{number}"),
            folder: member_path(MEMBER, &configmaps(namespace)),
            host: Endpoint::cluster(&bed()?.host, caller.certificate.as_deref())?,
            serving: replicas.recv()?,
            replicas,
            connections: [None, None],
            tally,
        })
    }

    /// Sends requests at this interval until the run is over. Returns the names of all created objects.
    pub(super) fn run(mut self, every: Duration) -> Vec<String> {
        let (mut made, mut due) = (Vec::new(), self.tally.begin);
        for number in 0.. {
            let name = format!("{}-{number}", self.name);
            let object = format!("{}/{name}", self.folder);
            let labelled = format!("{}?labelSelector=client%3D{}", self.folder, self.name);
            let steps: [(&str, &str, Value, u16); 7] = [
                ("POST", &self.folder.clone(), config_map(&name, 0), 201),
                ("GET", &object, Value::Null, 200),
                ("PUT", &object, config_map(&name, 1), 200),
                ("GET", &labelled, Value::Null, 200),
                ("PATCH", &object, json!({"data": {"turn": "2"}}), 200),
                ("GET", &object, Value::Null, 200),
                ("DELETE", &object, Value::Null, 200),
            ];
            for (step, (method, path, body, wanted)) in steps.into_iter().enumerate() {
                self.tally.wait_until(due);
                if self.tally.is_over() {
                    return made;
                }
                due += every;
                add(&self.tally.asked);
                let way = (number + step) % 2;
                let answered = self.ask(way, method, path, &body).and_then(|answer| {
                    ensure!(answer.status() == wanted, "answered {}: {}", answer.status(), answer.text());
                    let told = answer.text();
                    ensure!(method == "DELETE" || told.contains(&name), "it is about something else: {told}");
                    Ok(())
                });
                let ways = ["through the host", "past the host"];
                self.tally.judge(&format!("{method} {path} {}", ways[way]), answered);
                if method == "POST" {
                    made.push(name.clone());
                }
            }
        }
        made
    }

    fn ask(&mut self, way: usize, method: &str, path: &str, body: &Value) -> Result<Response> {
        let kept = self.connections[way].take().filter(is_open);
        let again = kept.is_some() && method == "GET";
        let mut connection = kept.map_or_else(|| self.connect(way), Ok)?;
        let request = request(method, path, body, &self.name);
        let mut answer = connection.send(&request).and_then(|()| connection.response());
        // Go repeats a read that failed on a persistent connection.
        if answer.is_err() && again {
            add(&self.tally.again);
            connection = self.connect(way)?;
            answer = connection.send(&request).and_then(|()| connection.response());
        }
        let answer = answer?;
        if answer.head.value("connection") != Some("close") {
            self.connections[way] = Some(connection);
        }
        Ok(answer)
    }

    fn connect(&mut self, way: usize) -> Result<Connection> {
        if way == 0 {
            return self.host.connect();
        }
        if let Some(serving) = self.replicas.try_iter().last() {
            self.serving = serving;
        }
        // Alternates between the replicas, as a load balancer would.
        self.serving.rotate_left(1);
        self.serving.first().context("no replica serves")?.connect()
    }
}

/// Whether the peer has sent nothing, not even the end of the connection.
fn is_open(connection: &Connection) -> bool {
    let socket = connection.socket();
    let peeked = socket.set_nonblocking(true).and_then(|()| socket.peek(&mut [0]));
    let blocking = socket.set_nonblocking(false);
    blocking.is_ok() && peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

fn request(method: &str, path: &str, body: &Value, user_agent: &str) -> Vec<u8> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: cluster\r\nUser-Agent: {user_agent}\r\n");
    let mut document = String::new();
    if !body.is_null() {
        document = body.to_string();
        let content = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        head += &format!("Content-Type: {content}\r\nContent-Length: {}\r\n", document.len());
    }
    format!("{head}\r\n{document}").into_bytes()
}

pub(super) fn config_map(name: &str, turn: u32) -> Value {
    let client = name.rsplit_once('-').map_or(name, |(client, _)| client);
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"turn": turn.to_string()},
        "metadata": {"name": name, "labels": {"endurance": "yes", "client": client}},
    })
}
