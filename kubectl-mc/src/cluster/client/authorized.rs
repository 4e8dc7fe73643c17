//! Sets the caller's credential on each request. A command, such as an installation or a followed
//! log, may take longer than the credential is valid: a file with a token is read again after a
//! minute, and the credential plugin runs again when its token expires.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Response};
use kube::client::Body;
use tokio::sync::{Mutex, watch};
use tower::{BoxError, Service};

use super::logged::unwrapped;
use crate::child_output::LIMIT;
use crate::cluster::client::error::ClientError;
use crate::cluster::credential::{Obtained, Plugin};
use crate::cluster::transport::{self, Authorization};

/// Wraps a client without a credential. `plugin` has the first credential of a credential plugin.
pub(crate) fn authorized(
    client: kube::Client,
    authorization: Authorization,
    plugin: Option<(Plugin, Obtained)>,
) -> kube::Client {
    let source = match (plugin, authorization) {
        (Some((plugin, obtained)), _) => {
            let current = watch::Sender::new(obtained);
            Source::Plugin(Box::new(Renewal { plugin, current, renewing: Mutex::new(()) }))
        }
        (None, Authorization::Fixed(header)) => Source::Fixed(header),
        (None, Authorization::File(file, header)) => {
            Source::File(file, watch::Sender::new((header, Instant::now())))
        }
        (None, Authorization::None) => return client,
    };
    let namespace = client.default_namespace().to_owned();
    kube::Client::new(Authorized { client, source: Arc::new(source) }, namespace)
}

#[derive(Clone)]
struct Authorized {
    client: kube::Client,
    source: Arc<Source>,
}

enum Source {
    Fixed(HeaderValue),
    File(PathBuf, watch::Sender<(HeaderValue, Instant)>),
    Plugin(Box<Renewal>),
}

impl Source {
    async fn authorization(&self) -> Result<HeaderValue, BoxError> {
        match self {
            Self::Fixed(header) => Ok(header.clone()),
            Self::File(file, current) => {
                let (header, read) = current.borrow().clone();
                if read.elapsed() < REREAD {
                    return Ok(header);
                }
                // If the file is gone, its last token stays in use.
                let header = transport::token_of_file(file).unwrap_or(header);
                current.send_replace((header.clone(), Instant::now()));
                Ok(header)
            }
            Self::Plugin(renewal) => renewal.authorization().await,
        }
    }
}

/// A credential plugin and its last answer.
struct Renewal {
    plugin: Plugin,
    current: watch::Sender<Obtained>,
    /// One request renews for all.
    renewing: Mutex<()>,
}

impl Renewal {
    async fn authorization(&self) -> Result<HeaderValue, BoxError> {
        if !self.current.borrow().is_valid() {
            let _alone = self.renewing.lock().await;
            if !self.current.borrow().is_valid() {
                let obtained = self.plugin.within(Some(LIMIT), self.plugin.obtain_beside()).await?;
                self.current.send_replace(obtained.map_err(ClientError::Setup)?);
            }
        }
        let token = self.current.borrow().token().map(str::to_owned);
        let token = token.ok_or("the credential plugin returned no token when it was run again")?;
        let mut value = HeaderValue::try_from(format!("Bearer {token}"))?;
        value.set_sensitive(true);
        Ok(value)
    }
}

impl Service<Request<Body>> for Authorized {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let (client, source) = (self.client.clone(), Arc::clone(&self.source));
        Box::pin(async move {
            request.headers_mut().insert(AUTHORIZATION, source.authorization().await?);
            client.send(request).await.map_err(unwrapped)
        })
    }
}

/// client-go's interval.
const REREAD: Duration = Duration::from_secs(50);
