//! The plugin in the hands of a victim who has a login at the real host, with a kubeconfig or a hub of an attacker.
//! Whatever the command is, the attacker gets no credential of the host, none of the attacker's
//! commands runs, no control character reaches the terminal, and the command ends in bounded time
//! and memory.

mod kubeconfigs;
mod lying_hubs;
mod shells;

use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use harness::bed::{bed, kubectl};
use harness::caller::Caller;
use harness::hostile::shells::CANARY;
use harness::hostile::texts::acted_on;
use harness::hostile::trap::Trap;
use harness::tool::{Output, Tool};
use serde_json::json;

/// A user with a login at the bed's host.
struct Victim {
    /// The plugin, with a limit for its memory and that of its children.
    plugin: Tool,
    trap: Trap,
    /// The requests at the trap that were checked so far.
    judged: Cell<usize>,
    failures: RefCell<Vec<String>>,
}

impl Victim {
    fn new() -> Result<Self> {
        let caller = Caller::token("theo")?;
        let plugin = Tool::client("prlimit".into(), &caller)?.with(&[MEMORY, PLUGIN]);
        let victim =
            Self { plugin, trap: Trap::start()?, judged: Cell::default(), failures: RefCell::default() };
        let bin = victim.path("bin");
        fs::create_dir(&bin)?;
        for name in ["kubectl-mc", "kubectl_complete-mc", "kmc", "another-name"] {
            std::os::unix::fs::symlink(PLUGIN, bin.join(name))?;
        }
        let plugin = victim.plugin.clone().env("PATH", victim.programs()?);
        let victim = Self { plugin: plugin.env("KUBECTL_MC_COMPLETION_TIMEOUT", "30s"), ..victim };
        let host = &bed()?.host;
        let authority = STANDARD.encode(fs::read(&host.ca_certificate)?);
        // `login` edits YAML in the style of kubectl.
        let text = format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- cluster:\n    certificate-authority-data: {authority}\n    \
             server: {}\n  name: {CLUSTER}\ncontexts:\n- context:\n    cluster: {CLUSTER}\n  name: {LOGIN}\n\
             current-context: {LOGIN}\n",
            host.server
        );
        fs::write(victim.path(REAL), text)?;
        fs::write(victim.path("token"), TOKEN)?;
        let at_host = victim.plugin.clone().env("KUBECONFIG", victim.path(REAL));
        at_host.ok(&["login", "--credential-store=file", "--token-file=token"])?;
        fs::remove_file(victim.path("token"))?;
        // The victim trusts the credential plugins that they use, and no other.
        fs::create_dir_all(victim.path(".kube"))?;
        let listed: Vec<_> = ["kubectl-mc", "kmc", "another-name", "kubectl", "env", PLUGIN]
            .map(|name| json!({"name": name}))
            .to_vec();
        let kuberc = json!({
            "apiVersion": "kubectl.config.k8s.io/v1beta1", "kind": "Preference",
            "credentialPluginPolicy": "Allowlist", "credentialPluginAllowlist": listed,
        });
        fs::write(victim.path(".kube/kuberc"), kuberc.to_string())?;
        // Otherwise no test would show that the attacker does not get the login.
        let whoami = Tool::client(kubectl()?, &caller)?.env("HOME", victim.plugin.home());
        let whoami = whoami.env("KUBECONFIG", victim.path(REAL)).env("PATH", victim.programs()?);
        let name = whoami.ok(&["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"])?;
        ensure!(name == "theo", "the login is not that of the victim: {name}");
        Ok(victim)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.plugin.home().join(name)
    }

    /// The victim's `PATH`.
    fn programs(&self) -> Result<OsString> {
        let folders = [self.path("bin"), bed()?.bin.clone(), "/usr/bin".into(), "/bin".into()];
        Ok(std::env::join_paths(folders)?)
    }

    /// The file of the login.
    fn login(&self) -> Result<PathBuf> {
        let folder = self.path(".local/state/kubectl-mc");
        let mut files = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
        files.find(|file| file.extension().is_some_and(|end| end == "json")).context("no login is stored")
    }

    /// The user that the login made in the victim's kubeconfig.
    fn user(&self) -> Result<String> {
        let text = fs::read_to_string(self.path(REAL))?;
        let user = text.lines().find_map(|line| line.trim().strip_prefix("user: "));
        Ok(user.with_context(|| format!("the login has no user: {text}"))?.to_owned())
    }

    /// The plugin with this kubeconfig of the attacker, before the victim's own.
    fn with(&self, text: &[u8]) -> Result<Tool> {
        let file = self.path("of-the-attacker");
        fs::write(&file, text)?;
        let list = std::env::join_paths([file, self.path(REAL)])?;
        Ok(self.plugin.clone().env("KUBECONFIG", list))
    }

    /// Runs a command to its end, and checks its output.
    fn runs(&self, plugin: &Tool, words: &[&str]) -> Result<Output> {
        let output = plugin.start(words)?.finish(BOUND).with_context(|| format!("{words:?}"))?;
        ensure!(
            (0..=125).contains(&output.code) && output.code != PANICKED,
            "{words:?} was killed, or panicked: {output:?}"
        );
        let has_tabs = words[0] == "__complete";
        for text in [output.text(), output.stderr.clone()] {
            ensure!(
                acted_on(&text, has_tabs).is_none(),
                "{words:?}: {:?} in {text:?}",
                acted_on(&text, has_tabs)
            );
            ensure!(!text.contains(TOKEN), "{words:?} prints the credential: {text}");
        }
        self.is_safe(words)?;
        Ok(output)
    }

    /// Starts a listener, and ends it once it listens. If it refuses to listen, it is checked like
    /// the others.
    fn listens(&self, plugin: &Tool, words: &[&str]) -> Result<()> {
        let mut listener = plugin.start(words)?;
        let begun = listener.wait_for("Listening on", BOUND);
        let (out, err) = (listener.stdout(), listener.stderr());
        ensure!(begun.is_ok() || err.contains("error: "), "{words:?}: {begun:?}");
        for text in [out, err] {
            ensure!(acted_on(&text, false).is_none(), "{words:?}: {text:?}");
        }
        drop(listener);
        self.is_safe(words)
    }

    /// Checks that the attacker has no credential, and that none of the attacker's commands ran.
    fn is_safe(&self, words: &[&str]) -> Result<()> {
        let heads = self.trap.heads();
        for head in heads.iter().skip(self.judged.replace(heads.len())) {
            ensure!(!head.contains(TOKEN), "{words:?} sent the credential to the attacker: {head}");
        }
        let has_run = fs::remove_file(self.path(CANARY)).is_ok();
        ensure!(!has_run, "{words:?} ran a command of the attacker");
        Ok(())
    }

    /// Records a failure, so that one run shows the failures of all commands.
    fn note(&self, attack: &str, result: Result<()>) {
        self.failures.borrow_mut().extend(result.err().map(|error| format!("{attack}: {error:#}")));
    }

    /// The failures of all commands.
    fn judge(&self) -> Result<()> {
        let failures = self.failures.borrow();
        ensure!(failures.is_empty(), "{}", failures.join("\n\n"));
        Ok(())
    }
}

const PLUGIN: &str = env!("CARGO_BIN_EXE_kubectl-mc");
/// The name of the login and of its context.
const LOGIN: &str = "real-host";
/// The cluster of the login in the victim's kubeconfig.
const CLUSTER: &str = "real";
/// The victim's kubeconfig.
const REAL: &str = "real-kubeconfig";
/// The credential of the login.
const TOKEN: &str = "theo-token";
/// The plugin needs 100 MiB for the longest list that it accepts, and kubectl as much.
const MEMORY: &str = "--data=536870912";
/// How long a command may take on a busy machine.
const BOUND: Duration = Duration::from_secs(120);
/// The exit code of a Rust program that panicked.
const PANICKED: i32 = 101;
