//! Runs a real OpenID provider (`tests/openid`), with a user who logs in with a password: in a
//! browser, which is a script around curl, or on another device.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::programs;

use crate::oidc::also_trust;
use crate::proxy_authority::ProxyAuthority;
use crate::script;

/// The provider. It ends with this process.
pub struct OpenIdProvider {
    pub url: String,
    _child: Child,
    folder: TempDir,
}

/// One provider for all tests. The bed's host accepts its tokens after a while: `sub` is the user, with
/// [`PREFIX`].
pub fn openid_provider() -> Result<&'static OpenIdProvider> {
    static PROVIDER: OnceLock<Result<OpenIdProvider, String>> = OnceLock::new();
    let start = || {
        let provider = OpenIdProvider::start()?;
        also_trust(&provider.trusted()?)?;
        Ok(provider)
    };
    let started = PROVIDER.get_or_init(|| start().map_err(|error: anyhow::Error| format!("{error:#}")));
    started.as_ref().map_err(|error| anyhow!("{error}"))
}

impl OpenIdProvider {
    fn start() -> Result<Self> {
        let (authority, folder) = (ProxyAuthority::new()?, tempfile::tempdir()?);
        let file = |name: &str| folder.path().join(name);
        let signed = authority.server(&["127.0.0.1"])?;
        fs::write(file("ca.pem"), authority.pem())?;
        fs::write(file("tls.crt"), signed.certificate)?;
        fs::write(file("tls.key"), signed.key)?;
        let mut child = Command::new(programs::openid_provider())
            .arg(format!("--certificate={}", file("tls.crt").display()))
            .arg(format!("--key={}", file("tls.key").display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(file("log"))?)
            .spawn()
            .context("cannot start the OpenID provider")?;
        let mut url = String::new();
        BufReader::new(child.stdout.take().context("no pipe")?).read_line(&mut url)?;
        let provider = Self { url: url.trim().to_owned(), _child: child, folder };
        ensure!(provider.url.starts_with("https://"), "it did not start: {}", provider.log()?);
        Ok(provider)
    }

    pub fn authority(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Its entry in the host's configuration.
    fn trusted(&self) -> Result<Value> {
        Ok(json!({
            "issuer": {
                "url": self.url, "audiences": ["kubectl", "device"], "audienceMatchPolicy": "MatchAny",
                "certificateAuthority": fs::read_to_string(self.authority())?,
            },
            "claimMappings": {"username": {"claim": "sub", "prefix": PREFIX}},
        }))
    }

    /// The number of requests to this path that it has answered.
    pub fn requests(&self, path: &str) -> Result<usize> {
        let path = format!("path={path} ");
        Ok(self.log()?.lines().filter(|line| line.contains(&path)).count())
    }

    fn log(&self) -> Result<String> {
        Ok(fs::read_to_string(self.folder.path().join("log"))?)
    }

    /// A folder with a browser, for PATH. Its user logs in wherever the browser is sent, and it
    /// records the address.
    pub fn browser(&self) -> Result<PathBuf> {
        let folder = self.folder.path().join("bin");
        script::write(&folder.join("xdg-open"), &self.script(BROWSER))?;
        Ok(folder)
    }

    /// The last address that the browser was sent to.
    pub fn visited(&self) -> Result<String> {
        Ok(fs::read_to_string(self.folder.path().join("visited"))?)
    }

    /// Enters, as the user, the code that another device shows.
    pub fn enter(&self, code: &str) -> Result<()> {
        let path = self.folder.path().join("device");
        script::write(&path, &self.script(DEVICE))?;
        let output = Command::new(path).arg(code).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    fn script(&self, text: &str) -> String {
        // OpenSSL regards rcgen's certificate as its own issuer, so curl does not verify the
        // server, which is known here.
        let head = format!(
            "#!/usr/bin/env bash\nset -euo pipefail\nfolder='{}' issuer='{}'\n",
            self.folder.path().display(),
            self.url
        );
        head + "curl() { command curl --silent --show-error --fail --location --max-time 60 --insecure \
                --noproxy '*' --cookie \"$jar\" --cookie-jar \"$jar\" \"$@\"; }\njar=\"$(mktemp -p \"$folder\")\"\n"
            + text
    }
}

/// The prefix of the users' names.
const PREFIX: &str = "login:";
/// The user's name at the host.
pub const USER: &str = "login:id1";

/// Fills in a page with a name and a password, which redirects to the sender of the browser.
const BROWSER: &str = r#"exec >"$folder/browser.log" 2>&1
echo "$1" >"$folder/visited"
id="$(curl "$1" | sed -n 's/.*name="id" value="\([^"]*\)".*/\1/p')"
curl --data username=test-user@localhost --data password=verysecure --data "id=$id" "$issuer/login/username"
"#;
/// Fills in a page with the code, a name and a password, then one that asks for consent.
const DEVICE: &str = r#"curl "$issuer/device/?user_code=$1" >"$folder/device.log"
curl --data "user_code=$1" --data username=test-user@localhost --data password=verysecure "$issuer/device/login" >>"$folder/device.log"
curl "$issuer/device/confirm?action=allowed" | tee -a "$folder/device.log" | grep -q 'authorization allowed'
"#;
