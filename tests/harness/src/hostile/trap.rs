//! The attacker's end of a stolen connection: a TLS server that records each request, and a proxy
//! that connects each `CONNECT` to this server, whatever its target is. The trap's certificate is
//! for the bed's address, so a client that trusts its authority accepts it as any server there.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use anyhow::Result;
use tokio::sync::watch;

use crate::fake_member::{FakeMember, Manners, Request, Step, reply};

/// The trap, until this is dropped.
pub struct Trap {
    server: FakeMember,
    proxy: SocketAddr,
    heads: Heads,
}

/// The heads of all requests, in the order of their arrival.
type Heads = Arc<watch::Sender<Vec<String>>>;

impl Trap {
    pub fn start() -> Result<Self> {
        let manners = Manners { probed: true, forgets: true, ..Manners::default() };
        let heads = Heads::default();
        let served = Arc::clone(&heads);
        let server = FakeMember::with("trap", manners, move |request| {
            record(&served, request.head.clone());
            answer(request)
        })?;
        let listener = TcpListener::bind((server.address.ip(), 0))?;
        let (proxy, behind) = (listener.local_addr()?, server.address);
        let proxied = Arc::clone(&heads);
        // It ends with the process. Each connection ends with its client.
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let heads = Arc::clone(&proxied);
                std::thread::spawn(move || lead(client, behind, &heads));
            }
        });
        Ok(Self { server, proxy, heads })
    }

    /// The server's URL.
    pub fn url(&self) -> String {
        format!("https://{}", self.server.address)
    }

    /// The URL of the proxy, which also answers requests without TLS.
    pub fn proxy(&self) -> String {
        format!("http://{}", self.proxy)
    }

    /// The authority of the server's certificate.
    pub fn authority(&self) -> &str {
        self.server.ca()
    }

    /// The heads of all requests so far, including those to the proxy.
    pub fn heads(&self) -> Vec<String> {
        self.heads.borrow().clone()
    }
}

fn record(heads: &Heads, head: String) {
    heads.send_modify(|all| all.push(head));
}

/// Answers like a host with two members, so that a command goes on to its next request.
fn answer(request: &Request) -> Vec<Step> {
    let body = match request.target() {
        target if target.contains("/clusters?") || target.ends_with("/clusters") => {
            r#"{"kind": "ClusterList", "apiVersion": "proxy.kubectl-mc.dev/v1alpha1", "metadata": {}, "items": [{"metadata": {"name": "m1"}}, {"metadata": {"name": "m2"}}]}"#
        }
        target if target.contains("/api") => {
            r#"{"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": []}"#
        }
        _ => "{}",
    };
    reply("200 OK", "Content-Type: application/json\r\n", body)
}

/// Records the head that a client of the proxy sent, and connects a CONNECT to the trap.
fn lead(mut client: TcpStream, behind: SocketAddr, heads: &Heads) -> std::io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?.take(MOST));
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    let is_connect = head.starts_with("CONNECT ");
    record(heads, head);
    if !is_connect {
        return client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}");
    }
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
    let mut server = TcpStream::connect(behind)?;
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(std::net::Shutdown::Write);
    });
    std::io::copy(&mut server, &mut client).map(drop)
}

/// The maximum size of a head in bytes.
const MOST: u64 = 64 * 1024;
