//! Defines the source of a login's credential. The kubeconfig contains it as the arguments of the credential
//! plugin.

use std::ffi::OsStr;
use std::io::IsTerminal;
use std::path::Path;

use clap::Parser;
use kube::config::ExecConfig;

use super::binding::Binding;
use super::command;
use super::oidc;
use super::record::Record;
use crate::cli::{CredentialArgs, OidcArgs};
use crate::cluster::credential::CREDENTIAL;
use crate::env::Env;
use crate::error::{Failure, mc};
use crate::printer::Printer;

/// The source of a credential.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Source {
    /// A token from the user.
    Token,
    /// The output of a command.
    Command(Vec<String>),
    Oidc(OidcArgs),
}

impl Source {
    pub(super) fn of_arguments(arguments: CredentialArgs) -> Self {
        if arguments.oidc.oidc_issuer_url.is_some() {
            Self::Oidc(arguments.oidc)
        } else if arguments.command.is_empty() {
            Self::Token
        } else {
            Self::Command(arguments.command)
        }
    }

    /// Reads the name and the source of a login from a user's entry that `login` wrote; `None` for any other
    /// entry.
    pub(super) fn of_user(exec: &ExecConfig) -> Option<(String, Self)> {
        let program = Path::new(exec.command.as_deref()?).file_stem().and_then(OsStr::to_str)?;
        let arguments = exec.args.as_deref().unwrap_or_default();
        // Some installations add the version or the platform to the name.
        if !program.replace('_', "-").starts_with(PROGRAM)
            || arguments.first().map(String::as_str) != Some(CREDENTIAL)
        {
            return None;
        }
        let arguments = CredentialArgs::try_parse_from(arguments).ok()?;
        Some((arguments.login.clone(), Self::of_arguments(arguments)))
    }

    /// The arguments of the credential plugin for this login.
    pub(super) fn arguments(&self, binding: &Binding) -> Vec<String> {
        let (login, server) =
            (format!("--login={}", binding.name()), format!("--server={}", binding.server()));
        let mut arguments = vec![CREDENTIAL.to_owned(), login, server];
        match self {
            Self::Token => {}
            Self::Command(command) => {
                arguments.push("--".to_owned());
                arguments.extend(command.iter().cloned());
            }
            Self::Oidc(oidc) => {
                let mut flag = |name: &str, value: Option<String>| {
                    arguments.extend(value.map(|value| format!("--oidc-{name}={value}")));
                };
                flag("issuer-url", oidc.oidc_issuer_url.clone());
                flag("client-id", oidc.oidc_client_id.clone());
                for scope in &oidc.oidc_extra_scope {
                    flag("extra-scope", Some(scope.clone()));
                }
                let authority = oidc.oidc_certificate_authority.as_ref();
                flag("certificate-authority", authority.map(|file| file.display().to_string()));
                flag("redirect-port", oidc.oidc_redirect_port.map(|port| port.to_string()));
                let switches = [
                    ("--oidc-device-code", oidc.oidc_device_code),
                    ("--oidc-skip-open-browser", oidc.oidc_skip_open_browser),
                ];
                let given = switches.iter().filter(|(_, is_given)| *is_given);
                arguments.extend(given.map(|(switch, _)| (*switch).to_owned()));
            }
        }
        arguments
    }

    /// The URL of the OpenID Connect issuer.
    pub(super) fn issuer(&self) -> Option<String> {
        if let Self::Oidc(options) = self { options.oidc_issuer_url.clone() } else { None }
    }

    /// Renews the stored login. Prompts only at a terminal.
    pub(super) async fn renew(
        &self,
        record: Record,
        env: &Env,
        printer: &Printer,
    ) -> Result<Record, Failure> {
        match self {
            Self::Token => Err(log_in_again(Failure::new("the token has expired"))),
            Self::Command(command) => {
                Ok(Record { credential: command::run(command, &record.variables)?, ..record })
            }
            Self::Oidc(options) => match oidc::refresh(options, &record, env).await {
                Ok(record) => Ok(record),
                Err(error) if error.needs_login() => {
                    if !std::io::stderr().is_terminal() {
                        let expired = "the login has expired, and there is no terminal to log in at";
                        return Err(log_in_again(Failure::new(expired).because(&error)));
                    }
                    Ok(oidc::login(options, record, env, printer).await?)
                }
                Err(error) => Err(error.into()),
            },
        }
    }

    /// Runs a full login. `record` contains the known data; `variables` are for a command.
    pub(super) async fn log_in(
        &self,
        record: Record,
        variables: &[(String, String)],
        env: &Env,
        printer: &Printer,
    ) -> Result<Record, Failure> {
        match self {
            Self::Token => Ok(record),
            Self::Command(command) => Ok(Record { credential: command::run(command, variables)?, ..record }),
            Self::Oidc(options) => Ok(oidc::login(options, record, env, printer).await?),
        }
    }
}

fn log_in_again(failure: Failure) -> Failure {
    failure.with_hint(mc("login").after("log in again"))
}

/// The name of the installed program.
pub(super) const PROGRAM: &str = "kubectl-mc";

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[String]) -> Source {
        Source::of_arguments(CredentialArgs::try_parse_from(arguments).unwrap())
    }

    #[test]
    fn arguments_round_trip() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let oidc = OidcArgs {
            oidc_issuer_url: Some("https://i/x".to_owned()),
            oidc_client_id: Some("kubectl".to_owned()),
            oidc_extra_scope: words(&["groups", "email"]),
            oidc_certificate_authority: Some("/ca file.pem".into()),
            oidc_device_code: true,
            oidc_redirect_port: Some(0),
            oidc_skip_open_browser: true,
        };
        let cluster = serde_json::json!({"server": "https://h:6443"});
        let binding = Binding::requested("hub", "https://h:6443", &cluster).unwrap();
        for source in
            [Source::Token, Source::Command(words(&["aws", "--server=x", "--", "y"])), Source::Oidc(oidc)]
        {
            assert_eq!(read(&source.arguments(&binding)), source);
        }
    }

    #[test]
    fn only_entries_written_by_login_are_recognized() {
        let exec = |command: &str, args: &[&str]| ExecConfig {
            command: Some(command.to_owned()),
            args: Some(args.iter().map(|&arg| arg.to_owned()).collect()),
            ..serde_json::from_str("{}").unwrap()
        };
        let own = ["credential", "--login=hub", "--server=https://h"];
        let login = Some(("hub".to_owned(), Source::Token));
        assert_eq!(Source::of_user(&exec("/bin/kubectl-mc", &own)), login);
        assert_eq!(Source::of_user(&exec("kubectl-mc.exe", &own)), login);
        assert_eq!(Source::of_user(&exec("aws", &own)), None);
        assert_eq!(Source::of_user(&exec("kubectl-mc", &["version"])), None);
        assert_eq!(Source::of_user(&exec("kubectl-mc", &["credential"])), None);
    }
}
