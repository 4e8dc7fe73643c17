//! Listens on the port to which a browser is redirected. Any process on this machine can connect to it, and
//! any web page can redirect a browser there: a request without the state of this login gets a response and
//! is ignored.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::login::oidc::error::OidcError;

pub(super) struct Redirects {
    /// Listeners for IPv4 and, if available, IPv6: browsers use either for localhost.
    listeners: Vec<TcpListener>,
    port: u16,
}

/// The parameters that a browser brings.
#[derive(Debug, PartialEq)]
enum Returned {
    Code(String),
    Refused { error: String, description: String },
}

impl Redirects {
    pub(super) async fn listen(wanted: Option<u16>) -> Result<Self, OidcError> {
        let ports = wanted.map_or_else(|| USUAL_PORTS.to_vec(), |port| vec![port]);
        let mut last = io::Error::from(io::ErrorKind::AddrInUse);
        for port in &ports {
            match TcpListener::bind(("127.0.0.1", *port)).await {
                Ok(listener) => {
                    let port = listener.local_addr().map_or(*port, |address| address.port());
                    let other = TcpListener::bind(("::1", port)).await.ok();
                    return Ok(Self { listeners: std::iter::once(listener).chain(other).collect(), port });
                }
                Err(error) => last = error,
            }
        }
        let ports = ports.iter().map(u16::to_string).collect::<Vec<_>>().join(" or ");
        Err(OidcError::Listen { ports, source: last })
    }

    pub(super) fn uri(&self) -> String {
        format!("http://localhost:{}", self.port)
    }

    /// Waits for the code of the login with this state.
    pub(super) async fn code(&self, state: &str) -> Result<String, OidcError> {
        let (sender, mut returned) = mpsc::channel::<Returned>(1);
        let places = Arc::new(Semaphore::new(MOST_AT_ONCE));
        // Dropping the set ends all tasks.
        let mut tasks = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                Some(returned) = returned.recv() => return returned.into_code(),
                accepted = accept(&self.listeners) => accepted,
            };
            // A connection above the limit is closed immediately, and the browser retries.
            let (Ok(stream), Ok(place)) = (accepted, places.clone().try_acquire_owned()) else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let (sender, state) = (sender.clone(), state.to_owned());
            tasks.spawn(async move {
                if let Ok(Ok(Some(returned))) = timeout(REQUEST_LIMIT, serve(stream, &state)).await {
                    let _ = sender.send(returned).await;
                }
                drop(place);
            });
            while tasks.try_join_next().is_some() {}
        }
    }
}

impl Returned {
    fn into_code(self) -> Result<String, OidcError> {
        match self {
            Self::Code(code) => Ok(code),
            Self::Refused { error, description } => {
                Err(OidcError::Refused { error: error.into(), description: description.into() })
            }
        }
    }

    /// Parses the target of a request; `None` without the state of this login.
    fn of(target: &str, state: &str) -> Option<Self> {
        let (path, query) = target.split_once('?')?;
        let value = |wanted: &str| {
            let mut fields = query.split('&').filter_map(|field| field.split_once('='));
            let (_, value) = fields.find(|(name, _)| *name == wanted)?;
            Some(percent_decode_str(&value.replace('+', " ")).decode_utf8().ok()?.into_owned())
        };
        if path != "/" || value("state")? != state {
            return None;
        }
        if let Some(error) = value("error") {
            return Some(Self::Refused {
                error,
                description: value("error_description").unwrap_or_default(),
            });
        }
        value("code").filter(|code| !code.is_empty()).map(Self::Code)
    }
}

/// Accepts the next connection of any listener.
async fn accept(listeners: &[TcpListener]) -> io::Result<TcpStream> {
    match listeners {
        [one, other] => tokio::select! {
            accepted = one.accept() => accepted,
            accepted = other.accept() => accepted,
        },
        [one, ..] => one.accept().await,
        [] => std::future::pending().await,
    }
    .map(|(stream, _)| stream)
}

/// Reads one request and responds to it.
async fn serve(mut stream: TcpStream, state: &str) -> io::Result<Option<Returned>> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut piece = [0; 2048];
        let read = stream.read(&mut piece).await?;
        head.extend_from_slice(&piece[..read]);
        if read == 0 || head.len() > LONGEST_HEAD {
            return Ok(None);
        }
    }
    let head = String::from_utf8_lossy(&head);
    let mut words = head.lines().next().unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let returned = if method == "GET" { Returned::of(target, state) } else { None };
    let (status, text) = match &returned {
        Some(Returned::Code(_)) => ("200 OK", "You are logged in. You can close this window."),
        Some(Returned::Refused { .. }) => ("200 OK", "The issuer refused the login: see the terminal."),
        None => ("404 Not Found", "This is not the login that the terminal waits for."),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n{text}",
        text.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    Ok(returned)
}

/// Enough for a password and a second factor.
pub(super) const LIMIT: Duration = Duration::from_secs(300);
/// The ports of kubelogin, which issuers may already allow.
const USUAL_PORTS: [u16; 2] = [8000, 18000];
/// Browsers open a few connections in advance.
const MOST_AT_ONCE: usize = 32;
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// Delay before the next connection if one could not be served.
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST_HEAD: usize = 64 * 1024;

#[cfg(test)]
mod tests;
