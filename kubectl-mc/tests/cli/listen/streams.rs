//! Streams through the listener: upgrades, watches, uploads, and the end of either side.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::time::Duration;

use super::listening::{LIST, Listening, get, read_all};
use crate::bed::{Bed, Stream};

/// A host whose members run this script for each request, by its head.
fn bed(script: impl Fn(&str, &mut Stream) + Send + Sync + 'static) -> Bed {
    let bed = Bed::scripted(move |head, stream| {
        match head.lines().next().unwrap_or_default().contains("/proxy/") {
            true => script(head, stream),
            false => stream.answer((200, "application/json", LIST.to_owned())),
        }
    });
    bed.secure();
    bed
}

fn upgrade(listener: &Listening, protocol: &str) -> TcpStream {
    let request = get(&format!("m1.localhost:{}", listener.port), "/api/v1/exec", &listener.token);
    let request = request.replace(
        "Connection: close",
        &format!("Connection: keep-alive, Upgrade\r\nUpgrade: {protocol}\r\nSec-WebSocket-Key: key\r\nX-Stream-Protocol-Version: v4"),
    );
    let mut stream = listener.connect();
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// Reads until the text has arrived.
fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let (mut all, mut byte) = (Vec::new(), [0]);
    while !all.ends_with(text.as_bytes()) {
        assert_eq!(stream.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&all));
        all.push(byte[0]);
    }
    String::from_utf8(all).unwrap()
}

#[test]
fn upgrade_carries_both_directions_and_both_ends() {
    let (ends, ended) = mpsc::channel();
    let bed = bed(move |head, stream| {
        let head = head.to_ascii_lowercase();
        let protocol = if head.contains("upgrade: websocket") { "websocket" } else { "SPDY/3.1" };
        assert!(
            head.contains("connection: upgrade\r\n") && head.contains("authorization: bearer secret\r\n")
        );
        assert!(
            head.contains("sec-websocket-key: key\r\n") && head.contains("x-stream-protocol-version: v4\r\n")
        );
        stream.write(&format!(
            "HTTP/1.1 101 -\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\nSec-WebSocket-Accept: yes\r\nSet-Cookie: a=b\r\n\r\nhello"
        ));
        loop {
            let read = stream.read(64);
            match &*read {
                b"" => break,
                b"quit" => return,
                read => stream.write(&format!("<{}>", String::from_utf8_lossy(read))),
            }
        }
        ends.send(()).unwrap();
    });
    let listener = Listening::start(&bed, &["m1"]);
    for protocol in ["websocket", "SPDY/3.1"] {
        let mut tool = upgrade(&listener, protocol);
        let head = read_until(&mut tool, "\r\n\r\n").to_ascii_lowercase();
        assert!(head.starts_with("http/1.1 101") && head.contains("sec-websocket-accept: yes"), "{head}");
        assert!(!head.contains("set-cookie"), "{head}");
        assert_eq!(read_until(&mut tool, "hello"), "hello");
        tool.write_all(b"one").unwrap();
        assert_eq!(read_until(&mut tool, ">"), "<one>");
        // The end of the tool reaches the cluster.
        drop(tool);
        ended.recv().unwrap();
        // The end of the cluster reaches the tool.
        let mut tool = upgrade(&listener, protocol);
        read_until(&mut tool, "hello");
        tool.write_all(b"quit").unwrap();
        assert_eq!(read_all(&mut tool), "");
    }
}

#[test]
fn refused_upgrade_is_an_ordinary_response() {
    let bed = bed(|_, stream| stream.answer((403, "application/json", "{\"kind\": \"Status\"}".to_owned())));
    let listener = Listening::start(&bed, &["m1"]);
    let mut tool = upgrade(&listener, "websocket");
    read_until(&mut tool, "{\"kind\": \"Status\"}");
}

#[test]
fn switch_that_was_not_requested_is_refused() {
    let bed = bed(|_, stream| {
        stream.write("HTTP/1.1 101 -\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n");
        stream.hold();
    });
    let listener = Listening::start(&bed, &["m1"]);
    let answer = listener.get("/m1/api");
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    let answer = read_until(&mut upgrade(&listener, "websocket"), "\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
}

#[test]
fn watch_arrives_at_once_and_ends_with_its_tool() {
    let (events, event) = mpsc::channel();
    let (ends, ended) = mpsc::channel();
    let event = std::sync::Arc::new(tokio::sync::Mutex::new(event));
    let bed = bed(move |_, stream| {
        stream.begin();
        stream.piece("first");
        // The second event exists only after the tool has read the first one.
        event.blocking_lock().recv().unwrap();
        stream.piece("second");
        stream.hold();
        ends.send(()).unwrap();
    });
    let listener = Listening::start(&bed, &["m1"]);
    let mut tool = listener.connect();
    let request = get(&format!("m1.localhost:{}", listener.port), "/api/v1/pods?watch=1", &listener.token);
    tool.write_all(request.as_bytes()).unwrap();
    read_until(&mut tool, "first");
    events.send(()).unwrap();
    read_until(&mut tool, "second");
    drop(tool);
    ended.recv().unwrap();
}

#[test]
fn tool_that_leaves_before_the_response_ends_the_request() {
    let (begins, begun) = mpsc::channel();
    let (ends, ended) = mpsc::channel();
    let bed = bed(move |_, stream| {
        begins.send(()).unwrap();
        stream.hold();
        ends.send(()).unwrap();
    });
    let listener = Listening::start(&bed, &["m1"]);
    let mut tool = listener.connect();
    let request = get(&format!("m1.localhost:{}", listener.port), "/api", &listener.token);
    tool.write_all(request.as_bytes()).unwrap();
    begun.recv().unwrap();
    drop(tool);
    ended.recv().unwrap();
}

#[test]
fn cut_response_has_no_clean_end() {
    let bed = bed(|_, stream| {
        stream.begin();
        stream.piece("half");
    });
    let listener = Listening::start(&bed, &["m1"]);
    let answer = listener.get("/m1/api");
    assert!(answer.contains("half") && !answer.ends_with("0\r\n\r\n"), "{answer}");
}

/// The listener keeps only a part of an upload in memory.
#[test]
fn upload_waits_for_the_cluster() {
    let (goes, go) = mpsc::channel();
    let go = std::sync::Arc::new(tokio::sync::Mutex::new(go));
    let bed = bed(move |head, stream| {
        assert!(head.to_ascii_lowercase().contains("content-length: 67108864\r\n"), "{head}");
        go.blocking_lock().recv().unwrap();
        let mut left = LARGE;
        while left > 0 {
            left -= stream.read(64 * 1024).len();
        }
        stream.answer((200, "text/plain", "all of it".to_owned()));
    });
    let listener = Listening::start(&bed, &["m1"]);
    let request = get(&format!("m1.localhost:{}", listener.port), "/api", &listener.token)
        .replace("GET", "POST")
        .replace("Connection:", &format!("Content-Length: {LARGE}\r\nConnection:"));
    let mut tool = listener.connect();
    tool.write_all(request.as_bytes()).unwrap();
    tool.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    let (mut sent, part) = (0, vec![b'x'; 64 * 1024]);
    let blocked = loop {
        match tool.write(&part) {
            Ok(count) => sent += count,
            Err(error) => break error,
        }
        assert!(sent < LARGE, "the listener took everything");
    };
    assert_eq!(blocked.kind(), ErrorKind::WouldBlock);
    goes.send(()).unwrap();
    tool.set_write_timeout(None).unwrap();
    while sent < LARGE {
        sent += tool.write(&part[..part.len().min(LARGE - sent)]).unwrap();
    }
    assert!(read_all(&mut tool).ends_with("all of it"));
}

const LARGE: usize = 64 * 1024 * 1024;
