//! The kinds, each with the result of kubectl.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::{ok, pods};
use crate::bed::Answer;

type Encoding = fn(&str) -> Vec<u8>;

/// A kubeconfig with the context `c`, and what the server answers to a list of pods.
#[derive(Clone)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// Whether kubectl succeeds.
    pub(super) works: bool,
    /// With `$SERVER`, `$CA` and others of the trial.
    pub(super) kubeconfig: String,
    pub(super) encoding: Encoding,
    /// Whether a command that also has another context gets that one's answer.
    pub(super) is_readable: bool,
    pub(super) context: &'static str,
    /// The credential plugin `./plugin`.
    pub(super) plugin: String,
    pub(super) environment: Vec<(&'static str, &'static str)>,
    /// Flags of kubectl, as words of a shell.
    pub(super) flags: &'static str,
    pub(super) is_self_signed: bool,
    pub(super) answer: Arc<dyn Fn(&str) -> Answer + Send + Sync>,
}

impl Kind {
    fn new(name: &'static str, works: bool, kubeconfig: String) -> Self {
        Self {
            name,
            works,
            kubeconfig,
            encoding: |text| text.as_bytes().to_vec(),
            is_readable: true,
            context: "c",
            plugin: String::new(),
            environment: Vec::new(),
            flags: "",
            is_self_signed: false,
            answer: Arc::new(|_| pods()),
        }
    }

    /// A list request that gets this answer.
    fn answered(
        name: &'static str,
        works: bool,
        answer: impl Fn(&str) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self { answer: Arc::new(answer), ..Self::new(name, works, user("token: t")) }
    }

    fn exec(name: &'static str, works: bool, credential: &str) -> Self {
        let exec =
            "exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin, interactiveMode: Never}";
        let plugin = format!("#!/bin/sh\ncat <<'EOF'\n{credential}\nEOF\n");
        Self { plugin, ..Self::new(name, works, user(exec)) }
    }

    fn proxied(name: &'static str, works: bool, no_proxy: &'static str) -> Self {
        let cluster =
            "server: 'https://0.0.0.0:$PORT', tls-server-name: 127.0.0.1, certificate-authority-data: $CA";
        // Nothing listens on port 1. For 0.0.0.0 the environment holds, unlike for a loopback address.
        let environment = vec![("HTTPS_PROXY", "http://127.0.0.1:1"), ("NO_PROXY", no_proxy)];
        Self { environment, ..Self::new(name, works, config(cluster, "token: t")) }
    }
}

fn socks(scheme: &'static str, works: bool) -> Kind {
    let cluster = format!(
        "server: 'https://kinds.invalid:6443', tls-server-name: 127.0.0.1, certificate-authority-data: $CA, \
         proxy-url: '{scheme}://127.0.0.1:$SOCKS'"
    );
    Kind::new(scheme, works, config(&cluster, "token: t"))
}

fn config(cluster: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: k\n  cluster: {{{cluster}}}\nusers:\n- name: u\n  user: {{{user}}}\n\
         contexts:\n- name: c\n  context: {{cluster: k, user: u, namespace: ns}}\n"
    )
}

fn trusting(trust: &str) -> String {
    config(&format!("server: '$SERVER', {trust}"), "token: t")
}

fn user(user: &str) -> String {
    config("server: '$SERVER', certificate-authority-data: $CA", user)
}

/// Another user, cluster or context in addition to the usable ones.
fn beside(entry: &str) -> String {
    let good = user("token: t");
    match entry.split_once(' ') {
        Some(("user", entry)) => good.replace("contexts:\n", &format!("- {entry}\ncontexts:\n")),
        Some((_, entry)) => format!("{good}- {entry}\n"),
        None => good,
    }
}

const EXEC: &str = "apiVersion: client.authentication.k8s.io/v1, command: x";

/// How the file is read, and which context is used.
pub(super) fn files() -> Vec<Kind> {
    let new = Kind::new;
    let unreadable = |name, kubeconfig| Kind { is_readable: false, ..Kind::new(name, false, kubeconfig) };
    let utf16 = |text: &str| {
        [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect::<Vec<_>>()
    };
    let two = "- name: bracket\n  context: {cluster: k, user: other, namespace: ns}\n- name: 'br[a]cket'\n  context: {cluster: k, user: u, namespace: ns}\n";
    let piped = Kind { flags: "--kubeconfig <(cat config)", ..new("from a pipe", true, user("token: t")) };
    let ghost =
        format!("{}---\ncontexts: [{{name: ghost, context: {{cluster: k, user: u}}}}]\n", user("token: t"));
    vec![
        new("context without cluster", true, beside("context {name: x, context: {user: u}}")),
        new("context with null cluster", true, beside("context {name: x, context: {cluster: ~}}")),
        new("unnamed entry", true, beside("context {context: {cluster: k}}")),
        new("null entry", true, beside("context ~")),
        new(
            "auth-provider with null config",
            true,
            beside("user {name: p, user: {auth-provider: {name: oidc, config: ~}}}"),
        ),
        new(
            "auth-provider with null value",
            true,
            beside("user {name: p, user: {auth-provider: {name: x, config: {a: ~}}}}"),
        ),
        new("extension without body", true, beside("user {name: p, user: {extensions: [{name: e}]}}")),
        new(
            "null boolean",
            true,
            beside(&format!("user {{name: p, user: {{exec: {{{EXEC}, provideClusterInfo: ~}}}}}}")),
        ),
        new(
            "null variable",
            true,
            beside(&format!("user {{name: p, user: {{exec: {{{EXEC}, env: [{{name: A, value: ~}}]}}}}}}")),
        ),
        new(
            "unknown interactiveMode of another user",
            true,
            beside(&format!("user {{name: p, user: {{exec: {{{EXEC}, interactiveMode: Maybe}}}}}}")),
        ),
        new("own unknown interactiveMode", false, user(&format!("exec: {{{EXEC}, interactiveMode: Maybe}}"))),
        new("equal keys", true, user("token: first, token: last")),
        Kind { encoding: utf16, ..new("UTF-16", true, user("token: t")) },
        new("base64 with line breaks", true, trusting("certificate-authority-data: \"$CA_FOLDED\"")),
        unreadable("one user name twice", beside("user {name: u, user: {token: other}}")),
        Kind { context: "ghost", ..unreadable("context of a second document", ghost.clone()) },
        new("second document", true, ghost),
        Kind {
            context: "br[a]cket",
            ..new(
                "name that is a glob",
                true,
                format!("{}{two}", beside("user {name: other, user: {token: other}}")),
            )
        },
        piped,
    ]
}

/// The credential that the server gets.
pub(super) fn credentials() -> Vec<Kind> {
    let new = Kind::new;
    vec![
        new("token with a line break", false, user("token: \"t\\n\"")),
        new("tokenFile with a line break", true, user("tokenFile: token")),
        new("token and tokenFile", true, user("token: t, tokenFile: token")),
        new("token and exec", true, user(&format!("token: t, exec: {{{EXEC}, interactiveMode: Never}}"))),
        new("empty token with tokenFile", true, user("token: '', tokenFile: token")),
        new("empty client-certificate", true, user("token: t, client-certificate: ''")),
        new("missing tokenFile", false, user("tokenFile: missing")),
        Kind::exec(
            "exec that answers in YAML",
            true,
            "apiVersion: client.authentication.k8s.io/v1\nkind: ExecCredential\nstatus: {token: of-yaml}",
        ),
        Kind::exec(
            "exec with a token that ends in a line break",
            false,
            r#"{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "t\n"}}"#,
        ),
    ]
}

/// The accepted server certificates, and the proxy in between.
pub(super) fn connections() -> Vec<Kind> {
    let new = Kind::new;
    vec![
        new(
            "authority beside insecure-skip-tls-verify",
            false,
            trusting("certificate-authority-data: $CA, insecure-skip-tls-verify: true"),
        ),
        new("insecure-skip-tls-verify", true, trusting("insecure-skip-tls-verify: true")),
        new(
            "tls-server-name that is no name",
            false,
            trusting("certificate-authority-data: $CA, tls-server-name: 'not a name'"),
        ),
        Kind {
            is_self_signed: true,
            ..new(
                "self-signed certificate as its own authority",
                true,
                trusting("certificate-authority-data: $CA"),
            )
        },
        new("pinned certificate", true, trusting("certificate-authority-data: $CA_LEAF")),
        new("undecodable certificate in a bundle", true, trusting("certificate-authority-data: $CA_BROKEN")),
        new("no authority", false, trusting("tls-server-name: 127.0.0.1")),
        Kind::proxied("proxy of the environment", false, ""),
        Kind::proxied("NO_PROXY of everything", true, "*"),
        Kind::proxied("NO_PROXY of a network", true, "10.0.0.0/8,0.0.0.0/8"),
        Kind::proxied("NO_PROXY of an address", true, "0.0.0.0"),
        Kind::proxied("NO_PROXY of another port", false, "0.0.0.0:1"),
        socks("socks5", true),
        // client-go has no socks5h; its socks5 lets the proxy resolve the name.
        socks("socks5h", false),
    ]
}

/// The outcomes that count as a result.
pub(super) fn outcomes() -> Vec<Kind> {
    let tries = AtomicUsize::new(0);
    vec![
        Kind::answered("list without a kind", false, |_| ok(&json!({}))),
        Kind::answered("half a list", false, |_| {
            Answer::from((200, "application/json", r#"{"kind": "PodList", "items": [{"#.to_owned()))
        }),
        Kind::answered("401 without a body", false, |_| Answer::from((401, "text/plain", String::new()))),
        Kind::answered("redirect without a body", false, |_| {
            Answer::from((302, "text/plain", String::new()))
        }),
        Kind::answered("HTML of a gateway", false, |_| {
            Answer::from((502, "text/html", "<html>Bad Gateway</html>".to_owned()))
        }),
        Kind::answered("compressed list", true, |_| pods().gzipped(0)),
        Kind::answered("cut compressed list", false, |_| pods().gzipped(5)),
        Kind::answered("Retry-After", true, move |_| match tries.fetch_add(1, Ordering::Relaxed) % 2 {
            0 => Answer::from((429, "text/plain", "later".to_owned())).with("Retry-After", "0"),
            _ => pods(),
        }),
    ]
}

/// A SOCKS5 proxy (RFC 1928) that connects every name to this port; returns its own port.
pub(super) fn socks_proxy(to: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            std::thread::spawn(move || relay(client?, to));
        }
    });
    port
}

fn relay(mut client: TcpStream, to: u16) -> std::io::Result<()> {
    let mut greeting = [0; 2];
    client.read_exact(&mut greeting)?;
    client.read_exact(&mut vec![0; greeting[1].into()])?;
    client.write_all(&[5, 0])?;
    let mut request = [0; 5];
    client.read_exact(&mut request)?;
    // 3: a name, which the proxy resolves.
    if request[3] != 3 {
        return Err(std::io::ErrorKind::Unsupported.into());
    }
    client.read_exact(&mut vec![0; usize::from(request[4]) + 2])?;
    client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0])?;
    let mut server = TcpStream::connect(("127.0.0.1", to))?;
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from_client, &mut to_server);
        to_server.shutdown(Shutdown::Write)
    });
    std::io::copy(&mut server, &mut client)?;
    client.shutdown(Shutdown::Write)
}
