//! Implements `kubectl mc logout`: removes what `login` stored and wrote.

use super::binding::Binding;
use super::oidc;
use super::source::Source;
use super::store::Store;
use super::user_entry::{self, Removed};
use crate::cli::Flags;
use crate::cluster::connection;
use crate::cluster::context::ClusterContext;
use crate::env::Env;
use crate::error::{Failure, chain};
use crate::exit::ExitStatus;
use crate::printer::Printer;
use crate::settings::Settings;

pub(crate) fn run(flags: &Flags, env: &Env, printer: &Printer) -> Result<ExitStatus, Failure> {
    let host = ClusterContext::load(&Settings::host_of(flags, env)?, env)?;
    let source = user_entry::exec(&host).and_then(Source::of_user).map(|(_, source)| source);
    let binding = Binding::of_host(&user_entry::login(&host), &host)?;
    let store = Store::new(&binding, env)?;
    let _turn = store.turn()?;
    if let Some(Source::Oidc(options)) = &source
        && let Ok(Some((record, _))) = store.load()
        && record.arguments == Source::Oidc(options.clone()).arguments(&binding)
    {
        // The credential is removed from this machine even if the revocation fails.
        let revoked = connection::run(async { Ok(oidc::revoke(options, &record, env).await) })?;
        if let Err(error) = revoked {
            printer.note_line(&format!("warning: the refresh token was not revoked: {}", chain(&error)));
        }
    }
    let was_stored = store.remove()?;
    if source.is_none() {
        if !was_stored {
            return Err(Failure::new(format!(
                "`kubectl mc login` stored no credential for {}",
                host.context_name()
            )));
        }
        printer.note_line(&format!("removed the credential of {}", host.context_name()));
        return Ok(ExitStatus::Success);
    }
    let user = match user_entry::remove(&host, env)? {
        Removed::Restored(Some(user)) => format!("its user is {user:?} again"),
        Removed::Restored(None) => "it has no user".to_owned(),
        Removed::Kept => "choose another user: kubectl config set-context NAME --user=USER".to_owned(),
    };
    printer.note_line(&format!("logged out of {}; {user}", host.context_name()));
    Ok(ExitStatus::Success)
}
