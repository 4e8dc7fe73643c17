//! Compares the plugin's interpretation of kubeconfigs with that of client-go: a Go program
//! (`tests/kubeconfig`) reads the same files. Needs Go.
//!
//! - [`cases`]: named kubeconfigs
//! - [`generated`]: random ones
//! - [`servers`]: connections to servers with certificates of many kinds

mod cases;
mod generated;
mod servers;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use aws_lc_rs::digest;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Authorization, Transport, Trust};
use crate::argv::Scanned;
use crate::cluster::client;
use crate::cluster::context::{ClusterContext, HostOptions};
use crate::cluster::credential::Plugin;
use crate::env::{self, Env};

/// A program's interpretation of a context; errors are not compared, only whether there is one.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Answer {
    #[serde(skip_serializing_if = "String::is_empty")]
    error: String,
    server: String,
    roots: Option<Vec<String>>,
    insecure: bool,
    server_name: String,
    proxy: String,
    disable_compression: bool,
    headers: Option<Vec<String>>,
    client_certificate: String,
    exec: Option<Exec>,
    namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    connected: String,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Exec {
    command: String,
    args: Vec<String>,
    env: Vec<String>,
    version: String,
    mode: String,
    cluster_info: bool,
}

/// A question to both programs.
#[derive(Clone, Debug, Default)]
struct Question {
    /// The files of `KUBECONFIG`.
    files: Vec<PathBuf>,
    context: String,
    environment: BTreeMap<String, String>,
    connect: bool,
}

/// The Go program, which answers any number of questions.
struct ClientGo {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl ClientGo {
    fn start() -> Self {
        let program = testbed::programs::build_kubeconfig_reader().unwrap();
        let mut command = Command::new(program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).env_clear();
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output }
    }

    fn ask(&mut self, question: &Question) -> Answer {
        let Question { files, context, environment, connect } = question;
        let line =
            json!({"files": files, "context": context, "environment": environment, "connect": connect});
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap()
    }
}

impl Drop for ClientGo {
    fn drop(&mut self) {
        // The program exits at the end of its input.
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

/// The plugin's interpretation of the same files.
fn plugin(question: &Question) -> Answer {
    answer(question).unwrap_or_else(|error| Answer { error, ..Answer::default() })
}

fn answer(question: &Question) -> Result<Answer, String> {
    let (host, env) = loaded(question)?;
    let scanned = Scanned::default();
    let plugin = Plugin::of(&host, &scanned, &env);
    let transport =
        client::transport_of(&host, &scanned, &env).map_err(|error| crate::error::chain(&error))?;
    if transport.trust != Trust::System {
        // Reading the roots of this machine takes time.
        transport.tls().map_err(|error| error.to_string())?;
    }
    let Transport { server, namespace, proxy, authorization, server_name, trust, identity, .. } = &transport;
    let mut headers = Vec::new();
    if let Authorization::Fixed(value) | Authorization::File(_, value) = authorization {
        headers.push(format!("authorization: {}", String::from_utf8_lossy(value.as_bytes())));
    }
    headers.extend(impersonation(&transport));
    headers.sort_unstable();
    let roots = match trust {
        Trust::Roots(roots) => {
            let mut roots: Vec<_> = roots.iter().map(|root| fingerprint(root)).collect();
            roots.sort_unstable();
            roots.dedup();
            Some(roots)
        }
        Trust::System | Trust::Insecure => None,
    };
    let text = |uri: &http::Uri| uri.to_string().trim_end_matches('/').to_owned();
    Ok(Answer {
        server: text(server),
        roots,
        insecure: *trust == Trust::Insecure,
        server_name: server_name.as_ref().map(|name| name.to_str().into_owned()).unwrap_or_default(),
        proxy: proxy.as_ref().map(text).unwrap_or_default(),
        disable_compression: host.cluster.disable_compression.unwrap_or_default(),
        headers: Some(headers),
        client_certificate: identity.as_ref().map(|key| fingerprint(&key.cert[0])).unwrap_or_default(),
        exec: plugin.map(|plugin| exec(&plugin)),
        namespace: namespace.clone().unwrap_or_else(|| "default".to_owned()),
        ..Answer::default()
    })
}

fn loaded(question: &Question) -> Result<(ClusterContext, Env), String> {
    let files = std::env::join_paths(&question.files).unwrap();
    let variables = question.environment.iter().map(|(name, value)| (name.as_str(), value.into()));
    let env: Env = variables.chain([(env::KUBECONFIG, files)]).collect();
    let options = HostOptions::plain(None, Some(question.context.clone()));
    let host = ClusterContext::load(&options, &env).map_err(|error| error.to_string())?;
    Ok((host, env))
}

fn impersonation(transport: &Transport) -> Vec<String> {
    let user = &transport.impersonation;
    let single = [("impersonate-user", &user.impersonate), ("impersonate-uid", &user.impersonate_uid)];
    let mut lines: Vec<_> =
        single.into_iter().filter_map(|(name, value)| Some(format!("{name}: {}", value.as_ref()?))).collect();
    lines.extend(user.impersonate_groups.iter().flatten().map(|group| format!("impersonate-group: {group}")));
    for (key, values) in user.impersonate_user_extra.iter().flatten() {
        lines.extend(values.iter().map(|value| format!("impersonate-extra-{}: {value}", key.to_lowercase())));
    }
    lines
}

fn exec(plugin: &Plugin) -> Exec {
    let exec = plugin.exec();
    let variable = |variable: &std::collections::HashMap<String, String>| {
        format!("{}={}", variable["name"], variable["value"])
    };
    let mode =
        exec.interactive_mode.as_ref().map_or_else(|| "IfAvailable".to_owned(), |mode| format!("{mode:?}"));
    Exec {
        command: exec.command.clone().unwrap_or_default(),
        args: exec.args.clone().unwrap_or_default(),
        env: exec.env.iter().flatten().map(variable).collect(),
        version: exec.api_version.clone().unwrap_or_default(),
        mode,
        cluster_info: exec.provide_cluster_info,
    }
}

fn fingerprint(der: &[u8]) -> String {
    let hash = digest::digest(&digest::SHA256, der);
    hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Both answers, with equal errors; `Err` if they differ.
fn compare(client_go: &mut ClientGo, question: &Question) -> Result<Answer, String> {
    let (theirs, ours) = (client_go.ask(question), plugin(question));
    let is_equal = match (theirs.error.is_empty(), ours.error.is_empty()) {
        (true, true) => normalized(theirs) == ours,
        (false, false) => true,
        _ => false,
    };
    if is_equal {
        return Ok(ours);
    }
    let theirs = client_go.ask(question);
    let files: Vec<_> = question.files.iter().filter_map(|file| fs::read(file).ok()).collect();
    let text: Vec<_> = files.iter().map(|file| String::from_utf8_lossy(file)).collect();
    Err(format!("client-go: {theirs:?}\nplugin:    {ours:?}\nof {}\n{question:?}", text.join("\n=====\n")))
}

/// client-go's answer without differences in spelling.
fn normalized(mut theirs: Answer) -> Answer {
    // `http::Uri` adds a slash, which both programs ignore.
    for text in [&mut theirs.server, &mut theirs.proxy] {
        text.truncate(text.trim_end_matches('/').len());
    }
    // The name and the password are in the headers.
    if let Some((scheme, rest)) = theirs.server.split_once("://")
        && let Some((_, host)) = rest.split_once('@')
    {
        theirs.server = format!("{scheme}://{host}");
    }
    theirs
}

/// A folder with one kubeconfig, whose context is `c`.
fn folder(text: &[u8]) -> (tempfile::TempDir, Question) {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "config", text);
    (folder, Question { files: vec![file], context: "c".to_owned(), ..Question::default() })
}

fn write(folder: &Path, name: &str, content: &[u8]) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, content).unwrap();
    path
}
