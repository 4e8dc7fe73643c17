//! Tests `kubectl mc listen`: the ways to a cluster, the credential, and how it starts and ends.

mod attacks;
mod listening;
mod streams;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use self::listening::{Listening, bed, get};
use crate::bed::Bed;

const PROXY: &str = "/pre/apis/proxy.kubectl-mc.dev/v1alpha1/clusters";

#[test]
fn every_form_of_a_name_leads_to_its_cluster() {
    let bed = bed();
    let listener = Listening::start(&bed, &["m1", "m2"]);
    let port = listener.port;
    for (host, path, cluster) in [
        (format!("m1.localhost:{port}"), "/api/v1/pods?limit=5&x=%2F", "m1"),
        (format!("M2.LOCALHOST:{port}"), "/api/v1/pods?limit=5&x=%2F", "m2"),
        (format!("127.0.0.1:{port}"), "/m1/api/v1/pods?limit=5&x=%2F", "m1"),
        (format!("localhost:{port}"), "/m2/api/v1/pods?limit=5&x=%2F", "m2"),
        (format!("[::1]:{port}"), "/m1/api/v1/pods?limit=5&x=%2F", "m1"),
    ] {
        for by_tls in [false, true] {
            let request = get(&host, path, &listener.token);
            let answer = match by_tls {
                true => listener.send_by_tls("localhost", &request),
                false => listener.send(&request),
            };
            assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("here"), "{host} {answer}");
            let request = bed.requests().remove(0);
            let target = format!("GET {PROXY}/{cluster}/proxy/api/v1/pods?limit=5&x=%2F HTTP/1.1\r\n");
            assert!(request.starts_with(&target), "{host}{path}: {request}");
        }
    }
    // If the host is an address, as in a kubeconfig, the TLS server name selects the cluster.
    let host = format!("127.0.0.1:{port}");
    let answer = listener.send_by_tls("m2.localhost", &get(&host, "/api/v1/pods", &listener.token));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(bed.requests().remove(0).starts_with(&format!("GET {PROXY}/m2/proxy/api/v1/pods ")));
}

#[test]
fn other_clusters_are_not_served() {
    let bed = bed();
    let listener = Listening::start(&bed, &["m1", "m2"]);
    let port = listener.port;
    // The host has m3.
    for (host, path) in [
        (format!("m3.localhost:{port}"), "/api"),
        (format!("127.0.0.1:{port}"), "/m3/api"),
        (format!("127.0.0.1:{port}"), "/api"),
        (format!("127.0.0.1:{port}"), "/"),
    ] {
        let answer = listener.send(&get(&host, path, &listener.token));
        assert!(answer.starts_with("HTTP/1.1 404") && answer.contains("m1, m2"), "{host}{path} {answer}");
    }
    assert_eq!(bed.requests(), [""; 0]);
}

#[test]
fn request_gets_the_callers_own_credential() {
    let bed = bed();
    let listener = Listening::start(&bed, &["m1"]);
    let request = format!(
        "GET /m1/api HTTP/1.1\r\nHost: localhost:{}\r\nAuthorization: Bearer {}\r\nCookie: a=b\r\n\
         X-Remote-User: root\r\nImpersonate-User: jane\r\nUser-Agent: tool\r\nConnection: close\r\n\r\n",
        listener.port, listener.token
    );
    assert!(listener.send(&request).starts_with("HTTP/1.1 200"));
    let head = bed.requests().remove(0).to_ascii_lowercase();
    let mut lines: Vec<_> = head.lines().skip(1).filter(|line| !line.is_empty()).collect();
    lines.sort_unstable();
    let host = bed.server().split('/').nth(2).unwrap();
    assert_eq!(
        lines,
        [
            "authorization: bearer secret",
            &format!("host: {host}"),
            "impersonate-user: jane",
            "user-agent: tool"
        ]
    );
}

#[test]
fn expired_token_is_renewed_while_the_listener_runs() {
    let bed = bed();
    let expired = r#"{\"apiVersion\": \"client.authentication.k8s.io/v1\", \"status\": {\"token\": \"token-$n\", \"expirationTimestamp\": \"2020-01-01T00:00:00Z\"}}"#;
    bed.credential_plugin(&format!("echo run >> runs; n=$(wc -l < runs); echo \"{expired}\""));
    let listener = Listening::start(&bed, &["m1"]);
    let tokens: Vec<_> = (0..2)
        .map(|_| {
            assert!(listener.get("/m1/api").starts_with("HTTP/1.1 200"));
            let head = bed.requests().remove(0).to_ascii_lowercase();
            head.lines().find(|line| line.starts_with("authorization")).unwrap().to_owned()
        })
        .collect();
    assert!(tokens[0].contains("token-") && tokens[0] != tokens[1], "{tokens:?}");
}

/// The kubeconfig limits the tool to another user's rights.
#[test]
fn impersonating_kubeconfig_allows_no_other_user() {
    let bed = bed();
    let mut config: serde_json::Value = serde_json::from_str(&bed.read("kubeconfig")).unwrap();
    config["users"][0]["user"]["as"] = "jane".into();
    fs::write(bed.path("kubeconfig"), config.to_string()).unwrap();
    let listener = Listening::start(&bed, &["m1"]);
    let own = get(&format!("localhost:{}", listener.port), "/m1/api", &listener.token);
    assert!(listener.send(&own).starts_with("HTTP/1.1 200"));
    assert!(bed.requests().remove(0).to_ascii_lowercase().contains("impersonate-user: jane\r\n"));
    let other = own.replace("Connection:", "Impersonate-User: root\r\nConnection:");
    assert!(listener.send(&other).starts_with("HTTP/1.1 403"));
    assert_eq!(bed.requests(), [""; 0]);
}

#[test]
fn redirect_stays_on_the_listener() {
    let bed = Bed::serving(|path| {
        if path.ends_with("/clusters") || path.contains("/clusters?") {
            return (200, "application/json", listening::LIST.to_owned()).into();
        }
        let answer = crate::bed::Answer::from((302, "text/plain", String::new()));
        match path.split_once("/proxy/") {
            Some((_, "away")) => answer.with("Location", "https://elsewhere.example/"),
            _ => answer.with("Location", &format!("{PROXY}/m1/proxy/ui/?a=b")),
        }
    });
    let listener = Listening::start(&bed, &["m1"]);
    let location = |answer: &str| {
        let line = answer.lines().find(|line| line.to_ascii_lowercase().starts_with("location: "));
        line.map(|line| line[10..].to_owned())
    };
    let by_path = listener.get("/m1/ui");
    assert_eq!(location(&by_path).as_deref(), Some("/m1/ui/?a=b"), "{by_path}");
    let host = format!("m1.localhost:{}", listener.port);
    let by_host = listener.send(&get(&host, "/ui", &listener.token));
    assert_eq!(location(&by_host).as_deref(), Some("/ui/?a=b"), "{by_host}");
    let away = listener.get("/m1/away");
    assert!(away.starts_with("HTTP/1.1 502") && location(&away).is_none(), "{away}");
}

#[test]
fn unreachable_host_is_a_status_with_the_hop() {
    let bed = bed();
    let listener = Listening::start(&bed, &["--contexts", "-C", "host"]);
    let mut config: serde_json::Value = serde_json::from_str(&bed.read("kubeconfig")).unwrap();
    drop(listener);
    config["clusters"][0]["cluster"]["server"] = "http://127.0.0.1:1/".into();
    fs::write(bed.path("kubeconfig"), config.to_string()).unwrap();
    let listener = Listening::start(&bed, &["--contexts", "-C", "host"]);
    let answer = listener.get("/host/api");
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    assert!(answer.contains("kubectl-mc listener: cannot send the request to cluster host: "), "{answer}");
}

#[test]
fn signal_ends_the_listener_and_removes_its_files() {
    for (signal, words) in [("-INT", &["m1"][..]), ("-TERM", &["m1", "--write-kubeconfig=mine.yaml"])] {
        let bed = bed();
        let mut listener = Listening::start(&bed, words);
        let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        for file in listener.files() {
            assert_eq!(mode(&file), 0o600, "{file:?}");
        }
        assert_eq!(mode(listener.certificates.parent().unwrap()), 0o700);
        let id = listener.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        assert_eq!(listener.child.wait().unwrap().code(), Some(130));
        for file in listener.files() {
            assert!(!file.exists(), "{file:?}");
        }
        let states = fs::read_dir(bed.path("home/.local/state/kubectl-mc")).unwrap();
        assert_eq!(states.count(), 0, "the folder of the run is left");
    }
}

#[test]
fn kubeconfig_has_a_context_for_each_cluster() {
    let bed = bed();
    let listener = Listening::start(&bed, &["-C", "m2,m1"]);
    let text = fs::read_to_string(&listener.kubeconfig).unwrap();
    for (name, count) in [
        ("tls-server-name: m1.localhost\n", 1),
        ("tls-server-name: m2.localhost\n", 1),
        ("namespace: ns\n", 2),
        (&*format!("server: https://127.0.0.1:{}\n", listener.port), 2),
        (&*listener.token, 1),
        ("current-context: m2\n", 1),
        ("secret", 0),
    ] {
        assert_eq!(text.matches(name).count(), count, "{name} {text}");
    }
}

#[test]
fn file_of_the_user_is_never_replaced() {
    let bed = bed();
    let own = bed.read("kubeconfig");
    let ran = bed.run(&["listen", "m1", "--write-kubeconfig", "kubeconfig"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("File exists") && ran.err.contains("name another one"), "{ran:?}");
    assert_eq!(bed.read("kubeconfig"), own);
    let mut listener = Listening::start(&bed, &["m1", "--write-kubeconfig=mine.yaml"]);
    fs::write(bed.path("mine.yaml"), "another program's").unwrap();
    listener.interrupt();
    assert_eq!(bed.read("mine.yaml"), "another program's");
}

#[test]
fn token_is_in_no_output_log_or_argument() {
    let bed = bed();
    let mut listener = Listening::start(&bed, &["m1", "-v=9"]);
    assert!(listener.get("/m1/api").starts_with("HTTP/1.1 200"));
    let arguments = fs::read(format!("/proc/{}/cmdline", listener.child.id())).unwrap_or_default();
    assert!(!String::from_utf8_lossy(&arguments).contains(&listener.token));
    let (out, err) = listener.interrupt();
    assert!(err.contains("/clusters/m1/proxy/api"), "{err}");
    assert!(!err.contains(&listener.token) && !out.contains(&listener.token), "{out}{err}");
}

#[test]
fn token_can_be_turned_off_with_a_warning() {
    let bed = bed();
    let mut listener = Listening::start(&bed, &["m1", "--no-token"]);
    assert_eq!(listener.token, "");
    let plain =
        format!("GET /m1/api HTTP/1.1\r\nHost: localhost:{}\r\nConnection: close\r\n\r\n", listener.port);
    assert!(listener.send(&plain).starts_with("HTTP/1.1 200"));
    let foreign = plain.replace("Host: localhost", "Host: evil.example");
    assert!(listener.send(&foreign).starts_with("HTTP/1.1 403"));
    assert!(listener.interrupt().1.contains("warning: --no-token lets every user"));
}

#[test]
fn unusable_arguments_are_refused() {
    let bed = bed();
    let ran = bed.run(&["listen", "m1", "--address=0.0.0.0"]);
    assert!(ran.code == Some(2) && ran.err.contains("only a loopback address is allowed"), "{ran:?}");
    let ran = bed.run(&["listen", "m9"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let ran = bed.run_with("KUBECTL_MC_READONLY", "1", &["listen", "m1"]);
    assert!(ran.code == Some(2) && ran.err.contains("refusing `listen`"), "{ran:?}");
    let config = bed.read("kubeconfig").replace("\"host\"", "\"My/Host\"");
    fs::write(bed.path("kubeconfig"), config).unwrap();
    let ran = bed.run(&["listen", "--contexts", "-C", "My/Host"]);
    let said = "error: context My/Host cannot be part of a host name: only lower case letters, digits and '-' are allowed, at most 63\n";
    assert!(ran.code == Some(2) && ran.err.starts_with(said), "{ran:?}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let ran = self::bed().run(&["listen", "m1", "--port", &port]);
    assert!(ran.code == Some(1) && ran.err.contains("cannot listen on 127.0.0.1 port"), "{ran:?}");
    let mut child = self::bed().command(&["listen"]).stderr(Stdio::null()).spawn().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2), "no cluster is chosen");
}
