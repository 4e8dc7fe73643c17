//! Sets the caller's token on each request, and runs the credential plugin again when the token expires: a
//! command may outlast the token, as an installation or a followed log does.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Response};
use kube::client::Body;
use tokio::sync::{Mutex, watch};
use tower::{BoxError, Service};

use super::logged::unwrapped;
use crate::child_output::LIMIT;
use crate::cluster::client::ClientError;
use crate::cluster::credential::{Obtained, Plugin};

/// Wraps a client without a token. `obtained` is the first credential of the plugin.
pub(super) fn renewed(client: kube::Client, plugin: Plugin, obtained: Obtained) -> kube::Client {
    let namespace = client.default_namespace().to_owned();
    let source = Source { plugin, current: watch::Sender::new(obtained), renewing: Mutex::new(()) };
    kube::Client::new(Renewed { client, source: Arc::new(source) }, namespace)
}

#[derive(Clone)]
struct Renewed {
    client: kube::Client,
    source: Arc<Source>,
}

struct Source {
    plugin: Plugin,
    current: watch::Sender<Obtained>,
    /// One request renews for all.
    renewing: Mutex<()>,
}

impl Source {
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

impl Service<Request<Body>> for Renewed {
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
