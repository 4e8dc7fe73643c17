//! Defines the flags of `login` and `logout`, and those of the credential plugin that `login` writes into the
//! kubeconfig.

use std::fmt;
use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum};

#[derive(Debug, Args)]
#[command(after_help = LOGIN_EXAMPLES)]
pub(crate) struct LoginArgs {
    /// File that holds a token; - is standard input [default: prompt for it]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cache_plugin", "oidc_issuer_url", "command"])]
    pub(crate) token_file: Option<PathBuf>,
    /// Cache what the credential plugin of the context's user returns
    #[arg(long, conflicts_with_all = ["oidc_issuer_url", "command"])]
    pub(crate) cache_plugin: bool,
    #[command(flatten)]
    pub(crate) oidc: OidcArgs,
    /// File that holds the secret of the client, if it has one
    #[arg(long, value_name = "FILE", requires = "oidc_issuer_url", help_heading = OIDC)]
    pub(crate) oidc_client_secret_file: Option<PathBuf>,
    /// Where the credential is stored
    #[arg(long, value_name = "STORE", default_value = "auto")]
    pub(crate) credential_store: CredentialStore,
    /// Command that prints a token or an ExecCredential; it is run again when that expires
    #[arg(value_name = "COMMAND", last = true, conflicts_with = "oidc_issuer_url")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = LOGOUT_EXAMPLES)]
pub(crate) struct LogoutArgs {}

/// A login by OpenID Connect, with the names of the flags of kube-apiserver.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub(crate) struct OidcArgs {
    /// URL of the issuer, as the host's kube-apiserver has it
    #[arg(long, value_name = "URL", requires = "oidc_client_id", help_heading = OIDC)]
    pub(crate) oidc_issuer_url: Option<String>,
    /// ID of the client
    #[arg(long, value_name = "ID", requires = "oidc_issuer_url", help_heading = OIDC)]
    pub(crate) oidc_client_id: Option<String>,
    /// Scope besides openid; repeated
    #[arg(long, value_name = "SCOPE", requires = "oidc_issuer_url", help_heading = OIDC)]
    pub(crate) oidc_extra_scope: Vec<String>,
    /// Authority of the issuer's certificate, as a PEM file [default: those of the system]
    #[arg(long, value_name = "FILE", requires = "oidc_issuer_url", help_heading = OIDC)]
    pub(crate) oidc_certificate_authority: Option<PathBuf>,
    /// Log in on another device, by a code: for machines without a browser
    #[arg(long, requires = "oidc_issuer_url", help_heading = OIDC)]
    pub(crate) oidc_device_code: bool,
    /// Port on localhost to which the browser returns; 0 is any [default: 8000, else 18000]
    #[arg(long, value_name = "PORT", requires = "oidc_issuer_url", help_heading = OIDC)]
    pub(crate) oidc_redirect_port: Option<u16>,
    /// Print the address of the login and open no browser
    #[arg(long, requires = "oidc_issuer_url", help_heading = OIDC)]
    pub(crate) oidc_skip_open_browser: bool,
}

/// Where a login is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CredentialStore {
    /// The keyring, or a file where there is none
    Auto,
    /// The keyring of the operating system
    Keyring,
    /// A file that only its owner can read
    File,
}

impl fmt::Display for CredentialStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Keyring => "keyring",
            Self::File => "file",
        })
    }
}

/// The credential plugin: what a kubeconfig runs.
#[derive(Debug, Parser)]
#[command(name = "kubectl-mc credential", disable_help_subcommand = true)]
pub(crate) struct CredentialArgs {
    /// Name of the login: that of the context that it was made for
    #[arg(long, value_name = "NAME")]
    pub(crate) login: String,
    /// Server that the login is for
    #[arg(long, value_name = "URL")]
    pub(crate) server: String,
    #[command(flatten)]
    pub(crate) oidc: OidcArgs,
    /// Command that prints a token or an ExecCredential
    #[arg(value_name = "COMMAND", last = true)]
    pub(crate) command: Vec<String>,
}

const OIDC: &str = "OpenID Connect";

const LOGIN_EXAMPLES: &str = "\
Stores a credential for the host in the keyring of the operating system and
lets the host's context of your kubeconfig use it. The kubeconfig holds no
secret: kubectl, helm and others run the plugin (kubectl-mc credential), which
returns it for requests to this host only and renews it once for all of them.

Examples:
  # A token, typed or pasted
  kubectl mc login --context=hub

  # OpenID Connect in the browser; --oidc-device-code where there is none
  kubectl mc login --oidc-issuer-url=https://id.example --oidc-client-id=k8s

  # What a slow credential plugin returns, until it expires
  kubectl mc login --cache-plugin

  # A command that prints a token
  kubectl mc login -- vault read -field=token kubernetes/creds/dev

  # Again, in the same way
  kubectl mc login";

const LOGOUT_EXAMPLES: &str = "\
Removes the credential of the host, and lets the context use the user that it
had before `kubectl mc login`. A refresh token is revoked where the issuer can
do that.

Examples:
  kubectl mc logout
  kubectl mc logout --context=hub";
