//! Kinds of input for which kubectl plugins and multi-cluster tools often differ from kubectl. Each
//! runs with the real kubectl and, in every way, with the plugin against one server: both must
//! succeed with the same output, or both must fail, and the server must see the same credentials.

mod table;

use std::collections::BTreeSet;
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use self::table::Kind;
use crate::bed::{Answer, Bed, Ran};
use crate::tls_server::{Authority, Leaf, front_of};

#[test]
fn files_are_read_as_by_kubectl() {
    assert_as_kubectl(table::files());
}

#[test]
fn credentials_are_those_of_kubectl() {
    assert_as_kubectl(table::credentials());
}

#[test]
fn connections_are_those_of_kubectl() {
    assert_as_kubectl(table::connections());
}

#[test]
fn outcomes_are_those_of_kubectl() {
    assert_as_kubectl(table::outcomes());
}

#[test]
fn table_has_every_kind() {
    let kinds = [table::files(), table::credentials(), table::connections(), table::outcomes()].concat();
    let names: BTreeSet<_> = kinds.iter().map(|kind| kind.name).collect();
    assert!(names.len() == kinds.len() && names.len() >= 38, "{} kinds: {names:?}", kinds.len());
}

fn assert_as_kubectl(kinds: Vec<Kind>) {
    let failed: Vec<_> = kinds.into_iter().filter_map(|kind| Trial::new(kind).differences()).collect();
    assert!(failed.is_empty(), "{} kinds differ:\n\n{}", failed.len(), failed.join("\n\n"));
}

/// A kind with its server and its kubeconfig.
struct Trial {
    kind: Kind,
    bed: Bed,
    good: Bed,
}

impl Trial {
    fn new(kind: Kind) -> Self {
        let answer = kind.answer.clone();
        let bed = Bed::serving(move |path| match path.contains("/pods") {
            true => answer(path),
            false => discovery(path),
        });
        let kubectl = testbed::programs::build_kubectl().unwrap();
        bed.script("bin/kubectl", &format!("#!/bin/sh\nexec '{}' \"$@\"\n", kubectl.display()));
        let authority = Authority::new();
        let leaf = if kind.is_self_signed { Leaf::self_signed() } else { Leaf::signed_by(&authority) };
        let port = front_of(&leaf, bed.port());
        let trusted = if kind.is_self_signed { leaf.pem.clone() } else { authority.pem() };
        let folded: Vec<_> = STANDARD.encode(&trusted).as_bytes().chunks(64).map(<[u8]>::to_vec).collect();
        let folded = String::from_utf8(folded.join(&b"\\n"[..])).unwrap();
        let broken = "-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n";
        let mut text = kind.kubeconfig.clone();
        for (name, value) in [
            ("SERVER", format!("https://127.0.0.1:{port}")),
            ("PORT", port.to_string()),
            ("SOCKS", table::socks_proxy(port).to_string()),
            ("CA_FOLDED", folded),
            ("CA_BROKEN", STANDARD.encode(format!("{broken}{trusted}"))),
            ("CA_LEAF", STANDARD.encode(&leaf.pem)),
            ("CA", STANDARD.encode(&trusted)),
        ] {
            text = text.replace(&format!("${name}"), &value);
        }
        std::fs::write(bed.path("config"), (kind.encoding)(&text)).unwrap();
        std::fs::write(bed.path("token"), "from-a-file\n").unwrap();
        bed.script("plugin", &kind.plugin);
        let good = Bed::serving(|path| if path.contains("/pods") { pods() } else { discovery(path) });
        let other = json!({"clusters": [{"name": "g", "cluster": {"server": good.server()}}],
            "contexts": [{"name": "good", "context": {"cluster": "g", "user": ""}}]});
        std::fs::write(bed.path("good"), other.to_string()).unwrap();
        Self { kind, bed, good }
    }

    /// How the ways differ from kubectl, or kubectl from the table.
    fn differences(&self) -> Option<String> {
        let mut differences = Vec::new();
        let get = "get pods -o name";
        let (theirs, sent) = self.run(&format!("kubectl --context='{}' {get}", self.kind.context), &[]);
        if (theirs.code == Some(0)) != self.kind.works || self.kind.works && theirs.out != "pod/web\n" {
            differences.push(format!("kubectl: {theirs:?}"));
        }
        if self.kind.works && !sent.iter().all(|credential| credential.starts_with("Bearer ")) {
            differences.push(format!("kubectl sent {sent:?}"));
        }
        let plugin = env!("CARGO_BIN_EXE_kubectl-mc");
        let one = format!("{plugin} --contexts -C '{}' {get}", self.kind.context);
        for way in [&[][..], &[("KUBECTL_MC_DIRECT", "only")], &[("KUBECTL_MC_DIRECT", "0")]] {
            let (ours, seen) = self.run(&one, way);
            if (ours.code == Some(0)) != self.kind.works || ours.out != theirs.out {
                differences.push(format!("one cluster, {way:?}: {ours:?}\nkubectl: {theirs:?}"));
            }
            if seen != sent {
                differences.push(format!("one cluster, {way:?}: sent {seen:?}, and kubectl {sent:?}"));
            }
            if ours.err.contains("panicked") {
                differences.push(format!("a panic: {ours:?}"));
            }
        }
        // Without the flag, the other file is also read.
        if self.kind.flags.is_empty() {
            let two = format!("{plugin} --contexts -C '{},good' {get}", self.kind.context);
            for way in [&[][..], &[("KUBECTL_MC_DIRECT", "0")]] {
                let (ours, seen) = self.run(&two, way);
                let has = |context: &str| {
                    let rows = ours.out.lines().filter_map(|line| line.split_once(" | "));
                    rows.into_iter().any(|row| (row.0.trim_end(), row.1) == (context, "pod/web"))
                };
                let (has_row, has_good) = (has(self.kind.context), has("good") || !self.kind.is_readable);
                if (ours.code == Some(0)) != self.kind.works || has_row != self.kind.works || !has_good {
                    differences.push(format!("two clusters, {way:?}: {ours:?}"));
                }
                if seen != sent {
                    differences.push(format!("two clusters, {way:?}: sent {seen:?}, and kubectl {sent:?}"));
                }
            }
        }
        (!differences.is_empty()).then(|| format!("{}:\n{}", self.kind.name, differences.join("\n")))
    }

    /// Runs a shell command line, and returns the credentials that the server has seen.
    fn run(&self, words: &str, more: &[(&str, &str)]) -> (Ran, BTreeSet<String>) {
        let mut command = Command::new("bash");
        command.args(["-c", &format!("{words} {}", self.kind.flags)]);
        for (name, value) in self.bed.command(&[]).get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        let files = format!("{}:{}", self.bed.path("config").display(), self.bed.path("good").display());
        command.env_clear().env("KUBECONFIG", files).env("HOME", self.bed.path("home"));
        command.env("PATH", format!("{}:/usr/bin:/bin", self.bed.path("bin").display()));
        command.envs(self.kind.environment.iter().copied()).envs(more.iter().copied());
        let ran = command.current_dir(self.bed.path("")).stdin(std::process::Stdio::null()).output().unwrap();
        // Cached discovery must not be reused by the next way.
        let _ = std::fs::remove_dir_all(self.bed.path("home"));
        self.good.requests();
        let heads = self.bed.requests();
        let of_pods = heads.iter().filter(|head| head.contains("/pods"));
        let header = |head: &String| {
            let lines = head.lines().find(|line| line.to_lowercase().starts_with("authorization:"));
            lines.map(|line| line[14..].trim().to_owned()).unwrap_or_default()
        };
        (ran.into(), of_pods.map(header).collect())
    }
}

fn ok(body: &Value) -> Answer {
    Answer::from((200, "application/json", body.to_string()))
}

fn pods() -> Answer {
    let pod = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web", "namespace": "ns"}});
    ok(&json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [pod]}))
}

fn discovery(path: &str) -> Answer {
    let path = path.split('?').next().unwrap_or_default();
    if path.ends_with("/api") {
        return ok(&json!({"kind": "APIVersions", "versions": ["v1"]}));
    }
    if path.ends_with("/apis") {
        return ok(&json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": []}));
    }
    let pods = json!({"name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod",
        "verbs": ["get", "list"], "shortNames": ["po"]});
    ok(&json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": [pods]}))
}
