//! Forwards a request of kubectl with the caller's credential, and carries its upgrade (RFC 9110,
//! 7.8).

use bytes::Bytes;
use http::header::{self, HeaderMap};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body as HttpBody, Incoming};
use kube::client::Body;
use serde_json::json;

use crate::cluster::client;
use crate::kubectl::loopback::{self, Answers, Token};

/// The client of the server, and the token that kubectl must send.
pub(super) struct Relay {
    pub(super) client: kube::Client,
    pub(super) token: Token,
}

impl Answers for Relay {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        self.pass_on(request).await
    }
}

impl Relay {
    /// The server's answer, or a Status with the reason why there is none.
    async fn pass_on<B>(&self, mut request: Request<B>) -> Response<Body>
    where
        B: HttpBody + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if !self.token.is_in(request.headers()) {
            return refusal(
                StatusCode::UNAUTHORIZED,
                "the trace proxy of kubectl mc serves its own kubectl only",
            );
        }
        let is_upgrade = request.headers().contains_key(header::UPGRADE);
        let kubectl = is_upgrade.then(|| hyper::upgrade::on(&mut request));
        let (mut head, body) = request.into_parts();
        // kubectl also has its requests completely in memory; its streams are upgrades.
        let Ok(body) = Limited::new(body, LARGEST_BODY).collect().await else {
            return refusal(StatusCode::BAD_REQUEST, "the trace proxy could not read the request");
        };
        clean(&mut head.headers, is_upgrade);
        let request = Request::from_parts(head, Body::from(body.to_bytes()));
        let mut answer = match self.client.send(request).await {
            Ok(answer) => answer,
            Err(error) => {
                let error = client::failed(error);
                return refusal(StatusCode::BAD_GATEWAY, &format!("{error}: {}", error.reason()));
            }
        };
        match (answer.status() == StatusCode::SWITCHING_PROTOCOLS, kubectl) {
            (true, Some(kubectl)) => {
                tokio::spawn(loopback::splice(kubectl, hyper::upgrade::on(&mut answer)));
            }
            _ => remove_hop_by_hop(answer.headers_mut()),
        }
        *answer.version_mut() = http::Version::HTTP_11;
        answer
    }
}

/// Removes the headers that the client sets: the credential, including the flags `--as…`, and the
/// server's name.
fn clean(headers: &mut HeaderMap, is_upgrade: bool) {
    let of_client =
        |name: &str| name.starts_with("impersonate-") || name == "authorization" || name == "host";
    let names: Vec<_> = headers.keys().filter(|name| of_client(name.as_str())).cloned().collect();
    for name in names {
        headers.remove(name);
    }
    if !is_upgrade {
        remove_hop_by_hop(headers);
    }
}

/// Removes the fields of one connection (RFC 9110, 7.6.1).
fn remove_hop_by_hop(headers: &mut HeaderMap) {
    for name in [header::CONNECTION, header::TE, header::TRANSFER_ENCODING, header::UPGRADE] {
        headers.remove(name);
    }
    headers.remove("keep-alive");
}

fn refusal(code: StatusCode, message: &str) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": if code == StatusCode::UNAUTHORIZED { "Unauthorized" } else { "" },
        "code": code.as_u16(),
    });
    let mut response = Response::new(Body::from(Bytes::from(status.to_string())));
    *response.status_mut() = code;
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// More than a kube-apiserver accepts (3 MiB by default).
const LARGEST_BODY: usize = 64 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::{Arc, OnceLock};

    use http_body_util::Full;
    use tower::service_fn;

    use super::*;

    /// The answer to a request with these headers, and the headers that the server received.
    async fn sent(headers: &[(&str, &str)]) -> (Response<Body>, Option<HeaderMap>) {
        let got = Arc::new(OnceLock::new());
        let server = {
            let got = Arc::clone(&got);
            service_fn(move |request: Request<Body>| {
                let _ = got.set(request.headers().clone());
                async { Ok::<_, Infallible>(Response::new(Body::from(b"pods".to_vec()))) }
            })
        };
        let relay = Relay { client: kube::Client::new(server, "default"), token: Token("secret".to_owned()) };
        let mut request = Request::builder().uri("/api/v1/pods");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = relay.pass_on(request.body(Full::<Bytes>::default()).unwrap()).await;
        (answer, got.get().cloned())
    }

    #[tokio::test]
    async fn only_requests_with_the_token_are_sent_on() {
        for headers in [
            &[][..],
            &[("authorization", "Bearer secre")],
            &[("authorization", "Bearer secret2")],
            &[("authorization", "Basic secret")],
        ] {
            let (answer, got) = sent(headers).await;
            assert_eq!((answer.status(), got), (StatusCode::UNAUTHORIZED, None), "{headers:?}");
        }
        let (answer, got) = sent(&[("authorization", "Bearer secret")]).await;
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.collect().await.unwrap().to_bytes(), "pods");
        assert!(got.is_some());
    }

    #[tokio::test]
    async fn unreachable_server_is_an_answer_with_the_reason() {
        let gone = service_fn(async |_: Request<Body>| {
            Err::<Response<Body>, _>(std::io::Error::other("connection refused by host.example"))
        });
        let relay = Relay { client: kube::Client::new(gone, "default"), token: Token("secret".to_owned()) };
        let request = Request::builder().header("authorization", "Bearer secret");
        let answer = relay.pass_on(request.body(Full::<Bytes>::default()).unwrap()).await;
        assert_eq!(answer.status(), StatusCode::BAD_GATEWAY);
        let status = answer.collect().await.unwrap().to_bytes();
        let status: serde_json::Value = serde_json::from_slice(&status).unwrap();
        assert_eq!((&status["kind"], &status["code"]), (&json!("Status"), &json!(502)));
        let message = status["message"].as_str().unwrap();
        assert!(message.contains("connection refused by host.example"), "{message}");
    }

    #[tokio::test]
    async fn server_gets_no_field_of_the_proxys_own_connection() {
        let (_, got) = sent(&[
            ("authorization", "Bearer secret"),
            ("host", "127.0.0.1:1"),
            ("impersonate-user", "jane"),
            ("impersonate-extra-a", "b"),
            ("connection", "keep-alive"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("accept", "application/json"),
        ])
        .await;
        let names: Vec<_> = got.unwrap().keys().map(ToString::to_string).collect();
        assert_eq!(names, ["accept"]);
    }
}
