//! A login by OpenID Connect works with a real provider, which the host's kube-apiserver trusts.

use anyhow::{Context, Result, ensure};
use harness::caller::Caller;
use harness::oidc::RELOADED;
use harness::openid_provider::{OpenIdProvider, USER, openid_provider};
use harness::scene::Scene;
use harness::turn::Turn;
use harness::wait::{SOON, eventually};

use super::Person;

/// A user, and the provider that authenticates them.
struct Login {
    provider: &'static OpenIdProvider,
    person: Person,
    /// Locks the provider, because the test counts its requests.
    _turn: Turn,
}

impl Login {
    fn new() -> Result<Self> {
        let turn = Turn::take("openid-provider")?;
        let provider = openid_provider()?;
        let mut person = Person::new()?;
        let mut path = provider.browser()?.into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        person.plugin = person.plugin.env("PATH", path);
        Ok(Self { provider, person, _turn: turn })
    }

    fn flags(&self, client: &str) -> Vec<String> {
        vec![
            "login".to_owned(),
            format!("--oidc-issuer-url={}", self.provider.url),
            format!("--oidc-client-id={client}"),
            format!("--oidc-certificate-authority={}", self.provider.authority().display()),
        ]
    }

    /// Logs in with the browser, as soon as the host trusts the issuer.
    fn in_browser(&self) -> Result<String> {
        let mut flags = self.flags("kubectl");
        flags.push("--oidc-redirect-port=0".to_owned());
        eventually("the host takes tokens of the provider", RELOADED, || {
            let output = self.person.plugin.start(&flags)?.finish(SOON)?;
            ensure!(output.code == 0, "{output:?}");
            Ok(Some(output.stderr))
        })
    }

    /// The number of token requests to the provider.
    fn tokens(&self) -> Result<usize> {
        self.provider.requests("/oauth/token")
    }
}

#[test]
fn browser_login_serves_host_and_members_until_logout() -> Result<()> {
    let login = Login::new()?;
    let scene = Scene::on("m1", "login-browser")?;
    let known = Caller::bearer(USER, &[], "not used".to_owned())?;
    scene.welcome(&known)?;
    let stderr = login.in_browser()?;
    ensure!(stderr.contains(&format!(" as {USER} until ")), "{stderr}");
    let address = login.provider.visited()?;
    for field in ["code_challenge_method=S256", "scope=openid%20offline_access", "&state=", "&nonce="] {
        ensure!(address.contains(field), "{address}");
    }
    ensure!(login.person.name()? == USER);
    let read = ["-C", "m1", "get", "configmaps", "-n", &scene.name, "-o", "name"];
    ensure!(login.person.plugin.ok(&read)?.contains("kube-root-ca.crt"));
    let alone = login.person.plugin.home().join("alone.yaml");
    std::fs::write(&alone, login.person.plugin.ok(&["kubeconfig", "m1", "--standalone"])?)?;
    let on_member = login.person.kubectl.clone().env("KUBECONFIG", &alone);
    ensure!(on_member.ok(&read[2..])?.contains("kube-root-ca.crt"));
    let revoked = login.provider.requests("/revoke")?;
    login.person.plugin.ok(&["logout"])?;
    ensure!(login.provider.requests("/revoke")? == revoked + 1, "the refresh token is still good");
    ensure!(login.person.kubectl.run(&["auth", "whoami"])?.code != 0);
    ensure!(login.person.file().is_err());
    let output = on_member.run(&read[2..])?;
    output.failure(&["there is no login for https://", "hint: log in: kubectl mc login"])?;
    Ok(())
}

/// The provider accepts each refresh token once.
#[test]
fn expired_token_is_refreshed_once_for_all_processes() -> Result<()> {
    let login = Login::new()?;
    login.in_browser()?;
    login.person.expire()?;
    let before = login.tokens()?;
    let words = ["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"];
    let start = |_| login.person.kubectl.start(&words);
    let running = (0..8).map(start).collect::<Result<Vec<_>>>()?;
    for one in running {
        ensure!(one.finish(SOON)?.success()? == USER);
    }
    ensure!(login.tokens()? == before + 1, "{} tokens", login.tokens()? - before);
    Ok(())
}

#[test]
fn refused_refresh_token_asks_for_a_login_and_opens_no_browser() -> Result<()> {
    let login = Login::new()?;
    login.in_browser()?;
    let address = login.provider.visited()?;
    let file = login.person.file()?;
    let mut record: serde_json::Value = serde_json::from_slice(&std::fs::read(&file)?)?;
    record["refresh_token"] = "another".into();
    std::fs::write(&file, record.to_string())?;
    login.person.expire()?;
    let output = login.person.kubectl.run(&["auth", "whoami"])?;
    let stderr = output.failure(&["the login has expired, and there is no terminal to log in at"])?;
    ensure!(stderr.contains("hint: log in again: kubectl mc login"), "{stderr}");
    ensure!(login.provider.visited()? == address);
    // Without flags the login uses the previous method.
    login.person.plugin.ok(&["login"])?;
    ensure!(login.person.name()? == USER);
    Ok(())
}

#[test]
fn code_is_entered_on_another_device() -> Result<()> {
    let login = Login::new()?;
    // Once this returns, the host trusts the issuer.
    login.in_browser()?;
    let secret = login.person.plugin.home().join("secret");
    std::fs::write(&secret, "secret\n")?;
    let mut flags = login.flags("device");
    flags.push("--oidc-device-code".to_owned());
    flags.push(format!("--oidc-client-secret-file={}", secret.display()));
    let mut running = login.person.plugin.start(&flags)?;
    let output = std::cell::RefCell::new(String::new());
    running.wait_until("the code", SOON, |_, stderr| {
        *output.borrow_mut() = String::from_utf8_lossy(stderr).into_owned();
        output.borrow().contains('\n')
    })?;
    let stderr = output.into_inner();
    let code = stderr.trim().rsplit(' ').next().context("no code")?;
    ensure!(stderr.starts_with(&format!("open {}", login.provider.url)), "{stderr}");
    login.provider.enter(code)?;
    let output = running.finish(SOON)?;
    ensure!(output.code == 0, "{output:?}");
    ensure!(login.person.name()? == USER);
    Ok(())
}
