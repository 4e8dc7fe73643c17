//! Authenticates the caller of a request. An unknown caller has few slots and does not keep an HTTP/2
//! connection.

use http::{Request, Version};

use crate::connection::head_limit::HeadLimit;
use crate::identity::authentication::{Authenticated, By};
use crate::identity::peer::{Peer, Waiting};
use crate::limits::upload::Upload;
use crate::request::cors;
use crate::request::error::Error;
use crate::request::record::Record;
use crate::request::services::Services;

/// Authenticates the caller and records the outcome. `waiting` ends when the caller is known or refused.
pub async fn authenticate(
    services: &Services,
    peer: &Peer,
    waiting: Option<Waiting>,
    request: &mut Request<Upload>,
    record: &Record,
) -> Result<Authenticated, Error> {
    let is_stranger = !peer.is_known();
    if is_stranger {
        record.hold().of_stranger(peer.place_of_stranger().inspect_err(|_| peer.retire())?);
    }
    let caller = services.authenticator.authenticate(peer, request.headers_mut()).await;
    match &caller {
        Ok(caller) if caller.by != By::Nothing => {
            peer.mark_authenticated();
            if is_stranger {
                record.hold().of_stranger(None);
            }
        }
        Err(failed) if !failed.error.is_refusal() => {}
        // An HTTP/2 connection costs a server more than its client, so unknown callers do not keep one
        // (CVE-2023-44487). The host's own connection carries all callers.
        _ if request.version() == Version::HTTP_2 && !services.authenticator.is_front_proxy(peer) => {
            peer.retire()
        }
        _ => {}
    }
    drop(waiting);
    let caller = caller.map_err(|failed| record.login_failed(failed))?;
    record.logged_in(&caller.identity);
    if caller.by == By::RequestHeader {
        // The front proxy's connection carries all callers, and its heads may be large because of identities.
        HeadLimit::CALLER.check(request.headers())?;
    } else {
        // The host decides about the pages of its own callers. This check comes after the login, so
        // that the audit names the user whose browser was abused.
        cors::check_origin(services.cors.as_ref(), request, record.is_upgrade())?;
    }
    Ok(caller)
}
