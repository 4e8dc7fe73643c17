//! Opens a tunnel through a proxy with CONNECT (RFC 9110, 9.3.6). hyper-util's version does not report the
//! proxy's answer.

use http::{HeaderValue, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tower_service::Service;

use super::lookup::BoxError;

/// Connects to a proxy with `connector`, and through it to the requested address.
#[derive(Clone, Debug)]
pub(super) struct Tunnel<C> {
    proxy: Uri,
    connector: C,
    authorization: Option<HeaderValue>,
}

impl<C> Tunnel<C> {
    pub(super) fn new(proxy: Uri, connector: C) -> Self {
        Self { proxy, connector, authorization: None }
    }

    /// Sets `Proxy-Authorization`.
    pub(super) fn with_auth(self, mut value: HeaderValue) -> Self {
        value.set_sensitive(true);
        Self { authorization: Some(value), ..self }
    }

    pub(super) async fn call<S>(&mut self, address: Uri) -> Result<TokioIo<S>, BoxError>
    where
        C: Service<Uri, Response = TokioIo<S>>,
        C::Error: Into<BoxError>,
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut stream = self.connector.call(self.proxy.clone()).await.map_err(Into::into)?.into_inner();
        connect(&mut stream, &address, self.authorization.as_ref()).await?;
        Ok(TokioIo::new(stream))
    }
}

async fn connect<S>(stream: &mut S, to: &Uri, authorization: Option<&HeaderValue>) -> Result<(), BoxError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (host, port) = (to.host().unwrap_or_default(), to.port_u16().unwrap_or(443));
    let mut request = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n").into_bytes();
    if let Some(value) = authorization {
        request.extend([b"Proxy-Authorization: ", value.as_bytes(), b"\r\n"].concat());
    }
    request.extend(b"\r\n");
    stream.write_all(&request).await?;
    stream.flush().await?;
    let (mut head, mut piece) = (Vec::new(), [0; 1024]);
    // In TLS the client sends first, so no bytes follow the head of a successful answer.
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut piece).await? {
            0 => return Err(Error::Closed.into()),
            _ if head.len() > MAX_HEAD => return Err(Error::NoHttp.into()),
            read => head.extend(&piece[..read]),
        }
    }
    let status = status(&head).ok_or(Error::NoHttp)?;
    if status.is_success() { Ok(()) } else { Err(Error::Refused(status).into()) }
}

/// `HTTP/1.1 200 OK`
fn status(head: &[u8]) -> Option<StatusCode> {
    let rest = head.strip_prefix(b"HTTP/1.")?;
    let code = rest.get(2..5).filter(|_| rest.get(1) == Some(&b' '))?;
    StatusCode::from_bytes(code).ok()
}

/// Why a proxy did not connect. The proxy's text is left out, because it is untrusted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum Error {
    #[error("it answered CONNECT by {0}")]
    Refused(StatusCode),
    #[error("it closed the connection before it answered CONNECT")]
    Closed,
    #[error("its answer to CONNECT is no HTTP response")]
    NoHttp,
}

/// The same as in hyper-util.
const MAX_HEAD: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    /// The result of a proxy's answer, and the request that the proxy received.
    async fn answered(answer: &[u8], authorization: Option<&HeaderValue>) -> (Result<(), Error>, String) {
        let (mut stream, mut proxy) = duplex(64 * 1024);
        proxy.write_all(answer).await.unwrap();
        proxy.shutdown().await.unwrap();
        let to = "https://[2001:db8::1]/".parse().unwrap();
        let result = connect(&mut stream, &to, authorization).await;
        drop(stream);
        let mut asked = String::new();
        proxy.read_to_string(&mut asked).await.unwrap();
        (result.map_err(|error| *error.downcast().unwrap()), asked)
    }

    #[tokio::test]
    async fn connect_request_names_host_and_port() {
        let (result, asked) = answered(b"HTTP/1.1 200 Connection Established\r\n\r\n", None).await;
        assert_eq!(result, Ok(()));
        assert_eq!(asked, "CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: [2001:db8::1]:443\r\n\r\n");
        let basic = HeaderValue::from_static("Basic dTpw");
        let (result, asked) = answered(b"HTTP/1.0 204 \r\nVia: x\r\n\r\n", Some(&basic)).await;
        assert_eq!(result, Ok(()));
        assert!(asked.ends_with("\r\nProxy-Authorization: Basic dTpw\r\n\r\n"), "{asked}");
    }

    #[tokio::test]
    async fn proxy_refusal_shows_the_status_but_not_its_text() {
        let (result, _) = answered(b"HTTP/1.1 500 \x1b[2J\r\nContent-Length: 3\r\n\r\nwhy", None).await;
        assert_eq!(result.unwrap_err().to_string(), "it answered CONNECT by 500 Internal Server Error");
    }

    #[tokio::test]
    async fn invalid_proxy_answers_are_errors() {
        let long = [b"HTTP/1.1 200 OK\r\nX: ".as_slice(), &[b'x'; 10_000]].concat();
        for (answer, error) in [
            (b"".as_slice(), Error::Closed),
            (b"HTTP/1.1 200 OK\r\n", Error::Closed),
            (b"SSH-2.0-x\r\n\r\n", Error::NoHttp),
            (b"HTTP/1.1 2\r\n\r\n", Error::NoHttp),
            (b"HTTP/1.12200 OK\r\n\r\n", Error::NoHttp),
            (&long, Error::NoHttp),
        ] {
            assert_eq!(answered(answer, None).await.0, Err(error), "{}", answer.escape_ascii());
        }
    }
}
