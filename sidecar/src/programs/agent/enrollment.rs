//! Enrolls the member: sends its CA and tokens of the sidecar's two accounts to the host, on request, until
//! the host confirms or the enrollment ends. Then the agent deletes the bindings that allow this, whether or
//! not the host answers. These bindings are the only state: another replica of the agent, or its next run,
//! finds them deleted.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{Method, Request, header};
use jiff::Timestamp;
use kubectl_mc_api::names::{AUDIENCES, ENROLLMENT, FLEET_GROUP, IMPERSONATOR, MANAGER, NAMESPACE};
use kubectl_mc_api::token_life::of_manager;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::config::Config;
use crate::outbound::tunnel::enrollment::{Handover, Tokens};

/// Whether the agent may send the credentials, and until when.
pub(super) struct Enrollment {
    /// `None` if the agent does not enroll.
    until: Option<Timestamp>,
    token_life: Duration,
    kubeconfig: Option<PathBuf>,
    /// Whether the right was deleted.
    is_over: AtomicBool,
}

/// Why the agent sends nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("the enrollment is over")]
    Over,
    #[error("{0}")]
    Failed(String),
}

impl Enrollment {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            until: config.enroll_until,
            token_life: config.enroll_token_duration,
            kubeconfig: config.kubeconfig.clone(),
            is_over: AtomicBool::new(false),
        }
    }

    /// Collects the member's CA and tokens.
    pub(super) async fn hand_over(&self) -> Result<Handover, Error> {
        let is_open = self.until.is_some_and(|until| Timestamp::now() < until);
        if !is_open || self.is_over.load(Ordering::Relaxed) {
            return Err(Error::Over);
        }
        let handed = timeout(TIMEOUT, async { self.member().await?.hand_over(self.token_life).await });
        let handed = handed.await.unwrap_or_else(|_| Err(failed(LATE)));
        match &handed {
            Ok(_) => info!("handed the member's CA and tokens to the host"),
            Err(Error::Over) => self.is_over.store(true, Ordering::Relaxed),
            Err(error) => warn!(%error, "cannot enroll"),
        }
        handed
    }

    /// Deletes the agent's right to do so.
    pub(super) async fn end(&self) -> Result<(), Error> {
        let deleted = timeout(TIMEOUT, async { self.member().await?.delete_bindings().await });
        deleted.await.unwrap_or_else(|_| Err(failed(LATE)))?;
        self.is_over.store(true, Ordering::Relaxed);
        info!("deleted the right to enroll");
        Ok(())
    }

    /// Deletes the right at the end of the enrollment, even without a connection to a host. Never resolves.
    pub(super) async fn expire(&self) {
        let Some(until) = self.until else { return std::future::pending().await };
        loop {
            // Waits in short steps, because the clock may be set in the meantime.
            let left = Duration::try_from(until.duration_since(Timestamp::now())).unwrap_or_default();
            sleep(left.min(LONGEST_WAIT)).await;
            if self.is_over.load(Ordering::Relaxed) {
                return std::future::pending().await;
            }
            if Timestamp::now() < until {
                continue;
            }
            if let Err(error) = self.end().await {
                warn!(%error, "cannot delete the right to enroll");
                sleep(PAUSE).await;
            }
        }
    }

    async fn member(&self) -> Result<Member, Error> {
        crate::host::client::new(self.kubeconfig.as_deref())
            .await
            .map(Member)
            .map_err(|e| failed(&format!("{e:#}")))
    }
}

/// The API of the member, used as the agent's account.
struct Member(kube::Client);

impl Member {
    async fn hand_over(&self, life: Duration) -> Result<Handover, Error> {
        let manager = self.token(MANAGER, of_manager(life)).await?;
        let impersonator = self.token(IMPERSONATOR, life).await?;
        let roots = self.get(&format!("/api/v1/namespaces/{NAMESPACE}/configmaps/kube-root-ca.crt")).await?;
        let system = self.get("/api/v1/namespaces/kube-system").await?;
        self.write_audiences(&manager["spec"]["audiences"]).await?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(Handover {
            ca: text(&roots["data"]["ca.crt"]),
            uid: text(&system["metadata"]["uid"]),
            tokens: Tokens {
                impersonator: text(&impersonator["status"]["token"]),
                manager: text(&manager["status"]["token"]),
            },
        })
    }

    async fn token(&self, account: &str, life: Duration) -> Result<Value, Error> {
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"audiences": [], "expirationSeconds": life.as_secs()},
        });
        let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token");
        self.ask(Method::POST, &path, "application/json", Some(&request)).await
    }

    /// Restricts the manager to token requests for the audiences that the API server fills in by default.
    async fn write_audiences(&self, audiences: &Value) -> Result<(), Error> {
        let audiences: Vec<_> =
            audiences.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let rule = json!({
            "apiGroups": [FLEET_GROUP], "resources": ["audiences"], "resourceNames": [audiences.join(",")],
            "verbs": ["use"],
        });
        let path = format!("{RBAC}/namespaces/{NAMESPACE}/roles/{AUDIENCES}");
        let patch = json!({"rules": [rule]});
        self.ask(Method::PATCH, &path, "application/merge-patch+json", Some(&patch)).await.map(drop)
    }

    /// Each binding grants its own deletion.
    async fn delete_bindings(&self) -> Result<(), Error> {
        for path in [
            format!("{RBAC}/namespaces/{NAMESPACE}/rolebindings/{ENROLLMENT}"),
            format!("{RBAC}/clusterrolebindings/{ENROLLMENT}"),
        ] {
            match self.ask(Method::DELETE, &path, "application/json", None).await {
                Ok(_) | Err(Error::Over) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn get(&self, path: &str) -> Result<Value, Error> {
        self.ask(Method::GET, path, "application/json", None).await
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Option<&Value>,
    ) -> Result<Value, Error> {
        let what = format!("{method} {path}");
        let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, content_type);
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = request.body(body).map_err(|error| failed(&error.to_string()))?;
        match self.0.request(request).await {
            Ok(answer) => Ok(answer),
            // Without the bindings every request is forbidden.
            Err(kube::Error::Api(status)) if status.code == 403 => Err(Error::Over),
            Err(kube::Error::Api(status)) if status.code == 404 && what.starts_with("DELETE") => {
                Ok(Value::Null)
            }
            Err(error) => Err(failed(&format!("{what}: {error}"))),
        }
    }
}

fn failed(why: &str) -> Error {
    Error::Failed(why.chars().take(MAX_REASON).collect())
}

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const LATE: &str = "the member's API server did not answer in time";
/// Less than the sidecar's timeout for an answer.
const TIMEOUT: Duration = Duration::from_secs(8);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_secs(10);
const MAX_REASON: usize = 300;
