use tokio::io::AsyncReadExt;

use super::*;

/// The response of a server at the port.
async fn ask(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

async fn listening() -> (Redirects, u16) {
    let redirects = Redirects::listen(Some(0)).await.unwrap();
    let port = redirects.port;
    (redirects, port)
}

#[tokio::test]
async fn only_the_login_with_the_state_ends_the_wait() {
    let (redirects, port) = listening().await;
    let code = redirects.code("state");
    let asks = async {
        for target in [
            "/favicon.ico",
            "/",
            "/?code=stolen",
            "/?code=stolen&state=other",
            "/?error=x&state=other",
            "/?code=&state=state",
            "/other?code=c&state=state",
        ] {
            assert!(ask(port, &get(target)).await.starts_with("HTTP/1.1 404 "), "{target}");
        }
        let post = "POST /?code=stolen&state=state HTTP/1.1\r\n\r\n";
        assert!(ask(port, post).await.starts_with("HTTP/1.1 404 "));
        let answer = ask(port, &get("/?code=a%2Bb%20c&state=state&session_state=x")).await;
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("logged in"), "{answer}");
    };
    let (code, ()) = tokio::join!(code, asks);
    assert_eq!(code.unwrap(), "a+b c");
}

#[tokio::test]
async fn issuer_refusal_is_reported() {
    let (redirects, port) = listening().await;
    let target = "/?error=access_denied&error_description=not+today%1b&state=s";
    let request = get(target);
    let (code, _) = tokio::join!(redirects.code("s"), ask(port, &request));
    assert_eq!(code.unwrap_err().to_string(), "the issuer refused: access_denied: not today^[");
}

#[tokio::test]
async fn silent_and_endless_connections_do_not_block_the_login() {
    let (redirects, port) = listening().await;
    let code = redirects.code("s");
    let asks = async {
        let mut silent = Vec::new();
        for _ in 0..MOST_AT_ONCE - 2 {
            silent.push(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
        }
        let mut endless = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        while endless.write_all(&[b'a'; 4096]).await.is_ok() {}
        ask(port, &get("/?code=c&state=s")).await;
    };
    let (code, ()) = tokio::join!(code, asks);
    assert_eq!(code.unwrap(), "c");
}

#[tokio::test]
async fn port_in_use_is_reported() {
    let (_redirects, port) = listening().await;
    let error = Redirects::listen(Some(port)).await.err().unwrap();
    assert_eq!(error.to_string(), format!("cannot listen on port {port} of localhost"));
}
