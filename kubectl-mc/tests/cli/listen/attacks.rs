//! Attacks by a page of another site, another user of the machine, or a tool that sends nonsense.

use std::io::Write;

use super::listening::{Listening, bed, get, read_all};

/// Sends each request, and expects this status and no request to the host.
fn refused(requests: impl Fn(&Listening) -> Vec<(String, u16)>) {
    let bed = bed();
    let listener = Listening::start(&bed, &["m1", "m2"]);
    for (request, code) in requests(&listener) {
        let answer = listener.send(&request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {code}")), "{request}\n{answer}");
        assert_eq!(bed.requests(), [""; 0], "{request}");
        assert!(!answer.contains(&listener.token), "{answer}");
        if code != 431 && !answer.contains("content-length: 0") {
            assert!(answer.contains("kubectl-mc listener: "), "{request}\n{answer}");
        }
    }
    // The listener still serves.
    assert!(listener.get("/m1/api").starts_with("HTTP/1.1 200"));
}

#[test]
fn another_user_without_the_token_gets_nothing() {
    refused(|listener| {
        let host = format!("localhost:{}", listener.port);
        let whole = get(&host, "/m1/api", &listener.token);
        let line = format!("Authorization: Bearer {}\r\n", listener.token);
        let half = &listener.token[..20];
        [
            String::new(),
            "Authorization: Bearer \r\n".to_owned(),
            format!("Authorization: Bearer {half}\r\n"),
            format!("Authorization: Bearer {}x\r\n", listener.token),
            format!("Authorization: Basic {}\r\n", listener.token),
            format!("Cookie: token={}\r\n", listener.token),
            format!("Proxy-{line}"),
            format!("{line}{line}"),
        ]
        .into_iter()
        .map(|other| (whole.replace(&line, &other), 401))
        .chain([
            (get(&host, &format!("/m1/api?token={}", listener.token), ""), 401),
            // Whether a cluster exists is not shown either.
            (get(&host, "/m9/api", ""), 401),
            (get(&host, "/m1/../api", ""), 401),
        ])
        .collect()
    });
}

#[test]
fn page_of_another_site_gets_nothing_even_with_the_token() {
    refused(|listener| {
        let (port, token) = (listener.port, &listener.token);
        let with = |line: &str| {
            get(&format!("m1.localhost:{port}"), "/api", token)
                .replace("Connection:", &format!("{line}\r\nConnection:"))
        };
        vec![
            // DNS rebinding: the name of the page's site leads to this address.
            (get(&format!("evil.example:{port}"), "/m1/api", token), 403),
            (get("evil.example", "/m1/api", token), 403),
            (get(&format!("m1.localhost.evil.example:{port}"), "/api", token), 403),
            (get(&format!("m1.localhost:{}", port - 1), "/api", token), 403),
            (get("", "/m1/api", token), 403),
            (with("Host: evil.example"), 403),
            (with("Origin: https://evil.example"), 403),
            (with("Origin: null"), 403),
            // A page from a program on another cluster, or from another program on this machine.
            (with(&format!("Origin: http://m2.localhost:{port}")), 403),
            (with("Origin: http://localhost:3000"), 403),
            (with("Sec-Fetch-Site: cross-site"), 403),
            (with("Sec-Fetch-Site: same-site"), 403),
        ]
    });
}

#[test]
fn path_that_could_leave_the_cluster_is_refused() {
    refused(|listener| {
        let (port, token) = (listener.port, &listener.token);
        let mut requests = Vec::new();
        for path in [
            "/../m2/proxy/api",
            "/api/../../../m2/proxy",
            "/%2e%2e/m2",
            "/..%2f..%2Fm2",
            "/%252e%252e/m2",
            "/..;/m2",
            "//m2/api",
            "/..\\m2",
            "/%5c..%5cm2",
            "/api%00",
            "/api%0d%0aX:%20y",
            "/api%",
        ] {
            requests.push((get(&format!("m1.localhost:{port}"), path, token), 400));
            requests.push((get(&format!("127.0.0.1:{port}"), &format!("/m1{path}"), token), 400));
        }
        for path in
            ["/m1%2fapi", "/m%31/api", "/M1/api", "/m1;x/api", "/%2fm1/api", "/./m1/api", "/../m1/api"]
        {
            requests.push((get(&format!("127.0.0.1:{port}"), path, token), 404));
        }
        requests
    });
}

#[test]
fn ambiguous_request_is_refused() {
    refused(|listener| {
        let (port, token) = (listener.port, &listener.token);
        let head = |line: &str| {
            format!(
                "{line} HTTP/1.1\r\nHost: m1.localhost:{port}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n"
            )
        };
        vec![
            (format!("{}\r\n", head("GET http://m1.localhost/api")), 400),
            (format!("{}\r\n", head("CONNECT m1.localhost:443")), 400),
            (format!("{}\r\n", head("OPTIONS *")), 400),
            (format!("{}\r\n", head("TRACE /api")), 400),
            (format!("{}\r\n", head("get /api")), 400),
            (format!("{}Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", head("POST /api")), 400),
            (format!("{}Content-Length: +3\r\n\r\nabc", head("POST /api")), 400),
            (format!("{}Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", head("POST /api")), 400),
            (format!("{}X: a\r\n b\r\n\r\n", head("GET /api")), 400),
            (
                format!("{}Connection: Impersonate-User\r\nImpersonate-User: jane\r\n\r\n", head("GET /api")),
                400,
            ),
            (format!("{}Impersonate-Usr: jane\r\n\r\n", head("GET /api")), 400),
            (
                format!(
                    "{}Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 5\r\n\r\nhello",
                    head("GET /api")
                ),
                400,
            ),
            (format!("{}{}\r\n", head("GET /api"), "X: y\r\n".repeat(200)), 431),
        ]
    });
}

/// The body of a request must not become a request.
#[test]
fn body_with_two_lengths_smuggles_nothing() {
    let bed = bed();
    let listener = Listening::start(&bed, &["m1"]);
    let smuggled = format!("0\r\n\r\nGET /m1/smuggled HTTP/1.1\r\nHost: localhost:{}\r\n\r\n", listener.port);
    for lengths in [
        format!("Content-Length: {}\r\nTransfer-Encoding: chunked", smuggled.len()),
        format!("Transfer-Encoding: chunked\r\nContent-Length: {}", smuggled.len()),
    ] {
        let head = get(&format!("localhost:{}", listener.port), "/m1/first", &listener.token)
            .replace("GET", "POST")
            .replace("Connection: close", &lengths);
        listener.send(&format!("{head}{smuggled}"));
        let requests = bed.requests();
        assert!(requests.len() <= 1, "{requests:?}");
        assert!(requests.iter().all(|head| head.contains("/proxy/first ")), "{requests:?}");
        let count =
            |name: &str| requests.iter().filter(|head| head.to_ascii_lowercase().contains(name)).count();
        assert!(count("transfer-encoding: ") + count("content-length: ") <= requests.len(), "{requests:?}");
    }
}

/// Another user's program opens connections and sends nothing, half a head, or TLS bytes.
#[test]
fn silent_connections_take_no_place_of_a_tool() {
    let bed = bed();
    let listener = Listening::start(&bed, &["m1"]);
    let mut silent: Vec<_> = (0..300)
        .map(|number| {
            let mut stream = listener.connect();
            let begin: &[u8] =
                [&b""[..], b"GET /m1/api HTTP/1.1\r\nHost: ", b"\x16\x03\x01\x02\x00"][number % 3];
            stream.write_all(begin).unwrap();
            stream
        })
        .collect();
    assert!(listener.get("/m1/api").starts_with("HTTP/1.1 200"));
    // The oldest ones were closed for newer ones, before their timeout.
    assert_eq!(read_all(&mut silent[0]), "");
}

#[test]
fn huge_head_is_cut_off() {
    let bed = bed();
    let listener = Listening::start(&bed, &["m1"]);
    let request = get(&format!("localhost:{}", listener.port), "/m1/api", &listener.token);
    for (size, is_sent) in [(100, true), (1024, false)] {
        let huge = format!("Accept: {}\r\nConnection:", "x".repeat(size * 1024));
        let answer = listener.send(&request.replace("Connection:", &huge));
        // The reset of a connection with unread bytes can overtake the answer.
        let expected = if is_sent { answer.starts_with("HTTP/1.1 200") } else { refuses(&answer) };
        assert!(expected, "{size} {answer}");
        assert_eq!(bed.requests().len(), usize::from(is_sent), "{size}");
    }
}

fn refuses(answer: &str) -> bool {
    answer.is_empty() || answer.starts_with("HTTP/1.1 431")
}

#[test]
fn head_without_an_end_is_cut_off() {
    let bed = bed();
    let listener = Listening::start(&bed, &["m1"]);
    let mut stream = listener.connect();
    stream
        .write_all(format!("GET /m1/api HTTP/1.1\r\nHost: localhost:{}\r\n", listener.port).as_bytes())
        .unwrap();
    // It ends at the timeout of the first request, which is shorter than that of the test.
    assert_eq!(read_all(&mut stream), "");
}

#[test]
fn names_of_tls_and_of_the_request_must_agree() {
    let bed = bed();
    let listener = Listening::start(&bed, &["m1", "m2"]);
    let request = get(&format!("m2.localhost:{}", listener.port), "/api", &listener.token);
    let answer = listener.send_by_tls("m1.localhost", &request);
    assert!(answer.starts_with("HTTP/1.1 421"), "{answer}");
    assert_eq!(bed.requests(), [""; 0]);
}
