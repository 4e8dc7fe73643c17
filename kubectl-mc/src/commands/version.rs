//! Implements `kubectl mc version`: prints the versions of the plugin and of the sidecar behind the host.

use serde_json::json;

use crate::argv::Scanned;
use crate::cli::{self, DataFormat, Flags, VersionArgs};
use crate::cluster::client;
use crate::cluster::context::{ClusterContext, HostOptions};
use crate::cluster::sidecar_version::SidecarVersion;
use crate::env::Env;
use crate::error::Failure;
use crate::exit::ExitStatus;
use crate::json;
use crate::printer::Printer;
use crate::settings::Settings;
use crate::yaml;

pub(super) fn run(
    arguments: &VersionArgs,
    flags: &Flags,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let VersionArgs { client, output } = arguments;
    let server = if *client { None } else { server(flags, env, printer) };
    let Some(format) = output else {
        printer.out_line(&client_line());
        if let Some(SidecarVersion { version, commit }) = server {
            printer.out_line(&format!("Sidecar Version: {}", cli::with_commit(version.raw(), commit.raw())));
        }
        return Ok(ExitStatus::Success);
    };
    let object = |version: &str, commit: &str| json!({"gitCommit": commit, "gitVersion": version});
    let mut versions = json!({"clientVersion": object(cli::GIT_VERSION, cli::GIT_COMMIT)});
    if let Some(SidecarVersion { version, commit }) = server {
        versions["sidecarVersion"] = object(version.raw(), commit.raw());
    }
    printer.out(&match format {
        DataFormat::Json => json::text(&versions, 0) + "\n",
        DataFormat::Yaml => yaml::text(&versions, 0),
    });
    Ok(ExitStatus::Success)
}

/// The line of the plugin's own version.
pub(super) fn client_line() -> String {
    format!("Client Version: {}", cli::version())
}

/// The sidecar's version; if there is none, a note gives the reason.
fn server(flags: &Flags, env: &Env, printer: &Printer) -> Option<SidecarVersion> {
    let asked = Settings::host_of(flags, env).and_then(|options| ask(&options, env));
    match asked {
        Ok(version) => Some(version),
        Err(failure) => {
            printer.note_line(&format!("note: the sidecar's version is unknown: {failure}"));
            None
        }
    }
}

fn ask(options: &HostOptions, env: &Env) -> Result<SidecarVersion, Failure> {
    let host = ClusterContext::load(options, env)?;
    let failed = |reason: &str| Failure::new(format!("{}: {reason}", host.describe()));
    if host.hub.is_foreign() {
        return Err(failed("the hub has no such sidecar"));
    }
    let reply = client::get(&host, &Scanned::default(), env, &SidecarVersion::path(), "application/json");
    let reply = reply.map_err(|error| failed(&error.reason()))?;
    SidecarVersion::of(&reply).map_err(|reason| failed(&reason))
}
