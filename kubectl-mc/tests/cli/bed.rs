//! Runs the plugin in a temporary folder, with a fake kubectl and a fake host.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufReader, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::tls_server::{Authority, front};

mod stream;

pub(crate) use stream::Stream;
use stream::{read_head, serve};

/// A kubectl that prints its arguments, its KUBECONFIG and its standard input, and exits with 42.
const KUBECTL: &str = r#"#!/bin/sh
for word in "$@"; do echo "[$word]"; done
echo "KUBECONFIG=$KUBECONFIG"
cat
exit 42
"#;

/// The host's answer to a path.
#[derive(Clone)]
pub(crate) struct Answer {
    code: u16,
    content_type: &'static str,
    /// More header lines, each with its line end.
    headers: String,
    body: Vec<u8>,
}

impl From<(u16, &'static str, String)> for Answer {
    fn from((code, content_type, body): (u16, &'static str, String)) -> Self {
        Self { code, content_type, headers: String::new(), body: body.into_bytes() }
    }
}

impl Answer {
    /// Adds a header.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push_str(&format!("{name}: {value}\r\n"));
        self
    }

    /// Compresses the body, and omits its last bytes.
    pub(crate) fn gzipped(self, cut: usize) -> Self {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&self.body).unwrap();
        let mut body = encoder.finish().unwrap();
        body.truncate(body.len() - cut);
        Self { body, ..self }.with("Content-Encoding", "gzip")
    }

    /// The same answer from a member, as the sidecar forwards it.
    pub(crate) fn sent_by_member(self) -> Self {
        Self { headers: String::new(), ..self }.of("member")
    }

    /// Marks the answer as coming from this hop, as the sidecar does.
    pub(crate) fn of(self, hop: &str) -> Self {
        self.with("X-Kubectl-Mc-Hop", hop)
    }
}

pub(crate) struct Bed {
    folder: tempfile::TempDir,
    requests: Option<Receiver<String>>,
    server: String,
    port: u16,
    /// The server and its entry in the kubeconfig, once it has TLS.
    secure: OnceCell<String>,
    trusted: OnceCell<serde_json::Value>,
    /// Whether kubectl runs the commands that the plugin could run directly.
    by_kubectl: bool,
}

/// The exit code and the output of a run.
#[derive(Debug, PartialEq)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Bed {
    /// A bed with no server at the host's address.
    pub(crate) fn unreachable() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Self::new(listener.local_addr().unwrap().port(), None)
    }

    /// The host answers everything with `answer`.
    pub(crate) fn answering(answer: impl Into<Answer>) -> Self {
        let answer = answer.into();
        Self::serving(move |_| answer.clone())
    }

    pub(crate) fn serving<A: Into<Answer>>(answer: impl Fn(&str) -> A + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, requests) = mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                // A client that closes its connection must not affect the next one.
                let _ = serve(stream.unwrap(), &sender, &|path| answer(path).into());
            }
        });
        Self::new(port, Some(requests))
    }

    /// The host answers each request with this script, in a separate thread.
    pub(crate) fn streaming(script: impl Fn(&str, &mut Stream) + Send + Sync + 'static) -> Self {
        Self::scripted(move |head, stream| script(head.split(' ').nth(1).unwrap_or_default(), stream))
    }

    /// The same, with access to the whole head of the request.
    pub(crate) fn scripted(script: impl Fn(&str, &mut Stream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let script = std::sync::Arc::new(script);
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let (script, mut socket) = (script.clone(), BufReader::new(socket.unwrap()));
                std::thread::spawn(move || {
                    let Ok(head) = read_head(&mut socket) else { return };
                    script(&head, &mut Stream(socket));
                });
            }
        });
        Self::new(port, None)
    }

    fn new(port: u16, requests: Option<Receiver<String>>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = format!("http://127.0.0.1:{port}/pre");
        let kubeconfig = format!(
            r#"{{"current-context": "host",
                "clusters": [{{"name": "c", "cluster": {{"server": "{server}"}}}}],
                "contexts": [{{"name": "host", "context": {{"cluster": "c", "user": "u", "namespace": "ns"}}}}],
                "users": [{{"name": "u", "user": {{"token": "secret"}}}}]}}"#
        );
        fs::write(folder.path().join("kubeconfig"), kubeconfig).unwrap();
        let bed = Self {
            folder,
            requests,
            server,
            port,
            secure: OnceCell::new(),
            trusted: OnceCell::new(),
            by_kubectl: false,
        };
        bed.script("bin/kubectl", KUBECTL);
        bed
    }

    /// The same bed, where kubectl runs every command that is not the plugin's own.
    pub(crate) fn by_kubectl(self) -> Self {
        Self { by_kubectl: true, ..self }
    }

    /// The port of the host's server, without TLS.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Writes an executable.
    pub(crate) fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        harness::script::write(&path, text).unwrap();
        path
    }

    /// Gives the host TLS, without which no credential is sent.
    pub(crate) fn secure(&self) -> &Self {
        let authority = Authority::new();
        let server = format!("https://127.0.0.1:{}/pre", front(&authority, self.port));
        let mut config: serde_json::Value = serde_json::from_str(&self.read("kubeconfig")).unwrap();
        let trusted = serde_json::json!({
            "server": server, "certificate-authority-data": STANDARD.encode(authority.pem())});
        config["clusters"][0]["cluster"] = trusted.clone();
        self.trusted.set(trusted).unwrap();
        fs::write(self.path("kubeconfig"), config.to_string()).unwrap();
        self.secure.set(server).unwrap();
        self
    }

    /// Gives the user a credential plugin instead of the token.
    pub(crate) fn credential_plugin(&self, script: &str) {
        if self.secure.get().is_none() {
            self.secure();
        }
        let program = self.script("plugin", &format!("#!/bin/sh\n{script}\n"));
        let text = fs::read_to_string(self.path("kubeconfig")).unwrap();
        let mut config: serde_json::Value = serde_json::from_str(&text).unwrap();
        config["users"][0]["user"] = serde_json::json!({"exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": program, "interactiveMode": "Never"}});
        fs::write(self.path("kubeconfig"), config.to_string()).unwrap();
    }

    /// Leaves kubectl's discovery cache for cluster m1 as a run of kubectl would.
    pub(crate) fn warm(&self) {
        let host = self.server().split_once("://").unwrap().1.replace(':', "_");
        let member = "apis/proxy.kubectl_mc.dev/v1alpha1/clusters/m1/proxy";
        let folder = self.path("home/.kube/cache/discovery").join(host).join(member);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("servergroups.json"), "{}").unwrap();
    }

    /// A cluster of a kubeconfig whose server is below the path of the host.
    pub(crate) fn cluster_below(&self, path: &str) -> serde_json::Value {
        let mut cluster = self.trusted.get().cloned().unwrap_or_else(|| serde_json::json!({}));
        cluster["server"] = format!("{}/{path}", self.server()).into();
        cluster
    }

    /// The host's URL.
    pub(crate) fn server(&self) -> &str {
        self.secure.get().unwrap_or(&self.server)
    }

    /// `host "host" (…)`, as messages name it.
    pub(crate) fn host(&self) -> String {
        format!("host \"host\" ({})", self.server())
    }

    /// A kubectl that runs `script`, a function of the shell's variable `cluster`.
    pub(crate) fn kubectl(&self, script: &str) {
        let cluster = r#"cluster=$(sed 's#.*clusters/\([^/]*\)/proxy.*#\1#' "${KUBECONFIG%%:*}")"#;
        self.script("bin/kubectl", &format!("#!/bin/sh\n{cluster}\n{script}\n"));
    }

    /// The files that the plugin left in its cache folder, without `last-failed.json` and the
    /// overlays, which contain no secrets.
    pub(crate) fn left(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path("home/.cache/kubectl-mc")) else { return Vec::new() };
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| !name.starts_with("overlay-") && name != "last-failed.json").collect()
    }

    /// The heads of the requests since the last call.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.iter().flat_map(Receiver::try_iter).collect()
    }

    /// `kubectl-mc` with these arguments, in a separate environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-mc"));
        command
            .args(arguments)
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", self.path("bin").display()))
            .env("HOME", self.path("home"))
            .env("KUBECONFIG", self.path("kubeconfig"))
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        if self.by_kubectl {
            command.env("KUBECTL_MC_DIRECT", "0");
        }
        if self.secure.get().is_some() {
            // The plugin looks for a direct endpoint only on a host with TLS; this one has none.
            command.env("KUBECTL_MC_ROUTE", "host");
        }
        command
    }

    /// A host where every member answers, and a kubectl that runs this script.
    pub(crate) fn with_kubectl(script: &str) -> Self {
        let bed = Self::answering((200, "application/json", "{}".to_owned()));
        bed.kubectl(script);
        bed
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.command(arguments).output().unwrap().into()
    }

    pub(crate) fn run_with(&self, name: &str, value: impl AsRef<OsStr>, arguments: &[&str]) -> Ran {
        self.command(arguments).env(name, value).output().unwrap().into()
    }
}

impl Ran {
    pub(crate) fn new(code: i32, out: &str, err: &str) -> Self {
        Self { code: Some(code), out: out.to_owned(), err: err.to_owned() }
    }

    /// The arguments that the fake kubectl received.
    pub(crate) fn arguments(&self) -> Vec<&str> {
        self.out.lines().filter_map(|line| line.strip_prefix('[')?.strip_suffix(']')).collect()
    }

    /// The `KUBECONFIG` that the fake kubectl received: the overlay, then the rest.
    pub(crate) fn kubeconfig(&self) -> (&str, &str) {
        let list = self.out.lines().find_map(|line| line.strip_prefix("KUBECONFIG=")).unwrap();
        list.split_once(':').unwrap_or((list, ""))
    }

    /// The exit code and the error text of a run that failed before kubectl, with nothing on standard output.
    pub(crate) fn failed(&self) -> (i32, &str) {
        assert_eq!(self.out, "", "{self:?}");
        (self.code.unwrap(), &self.err)
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// A `metav1.Status` that names a hop, as the sidecar writes it.
pub(crate) fn status(code: u16, hop: &str, message: &str) -> Answer {
    let body = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message,
        "details": {"causes": [{"reason": "Hop", "message": hop}]},
    });
    Answer::from((code, "application/json", body.to_string())).of(hop)
}
