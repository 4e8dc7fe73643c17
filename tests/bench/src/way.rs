//! A route to a member: the URL, the credential and the headers of its requests.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use harness::bed::{host, sidecar};
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};
use testbed::{Cluster, Sidecar};

use crate::site::CERTIFIED_NAME;
use crate::wrk;

/// The routes to one member.
pub(crate) struct Ways {
    pub(crate) sidecar: Way,
    pub(crate) nginx: Way,
    pub(crate) direct: Way,
}

/// One route to a member.
pub(crate) struct Way {
    pub(crate) name: &'static str,
    /// The prefix of an API path.
    server: String,
    ca: PathBuf,
    token: String,
    /// The path that is requested instead of the ConfigMap.
    path: Option<String>,
    /// The user to impersonate. On the other routes, the proxy sets the user.
    act_as: Option<User>,
    /// The processes of the proxy, if there is one.
    pub(crate) pids: Vec<u32>,
}

/// A member, and the token that a proxy uses for it.
pub(crate) struct Upstream {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    pub(crate) ca: PathBuf,
    pub(crate) token: String,
}

/// A caller as the sidecar presents them to a member: a service account without its groups and uid.
#[derive(Clone)]
pub(crate) struct User {
    /// The user's own token, at the host.
    token: String,
    name: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

impl Ways {
    pub(crate) fn new(upstream: &Upstream, user: &User, nginx: SocketAddr, pids: Vec<u32>) -> Result<Self> {
        let sidecar = sidecar()?;
        let proxied = |name, server, pids| Way {
            name,
            server,
            ca: sidecar.ca_certificate.clone(),
            // nginx replaces it with the member's token, but still has to read it.
            token: user.token.clone(),
            path: None,
            act_as: None,
            pids,
        };
        Ok(Self {
            sidecar: proxied(
                "sidecar",
                format!("{}{CLUSTERS}/{}/proxy", sidecar.url, upstream.name),
                vec![sidecar.pid],
            ),
            nginx: proxied("nginx", format!("https://{nginx}"), pids),
            direct: Way {
                name: "direct",
                server: format!("https://{}", upstream.address),
                ca: upstream.ca.clone(),
                token: upstream.token.clone(),
                path: None,
                act_as: Some(user.clone()),
                pids: Vec::new(),
            },
        })
    }

    pub(crate) fn all(&self) -> [&Way; 3] {
        [&self.sidecar, &self.nginx, &self.direct]
    }
}

impl Way {
    /// A member at a path below a server, as the caller with this token.
    pub(crate) fn at(name: &'static str, server: String, ca: &Path, token: &str, pids: Vec<u32>) -> Self {
        Self { name, server, ca: ca.to_owned(), token: token.to_owned(), path: None, act_as: None, pids }
    }

    /// The same through another sidecar.
    pub(crate) fn by(&self, sidecar: &Sidecar) -> Self {
        let (_, path) = self.server.split_once(CLUSTERS).unwrap_or_default();
        Self {
            name: self.name,
            server: format!("{}{CLUSTERS}{path}", sidecar.url),
            ca: sidecar.ca_certificate.clone(),
            token: self.token.clone(),
            path: None,
            act_as: None,
            pids: vec![sidecar.pid],
        }
    }

    /// The same through the host's kube-apiserver, whose process counts as well.
    pub(crate) fn through(&self, host: &Cluster) -> Result<Self> {
        let (_, path) = self.server.split_once(CLUSTERS).unwrap_or_default();
        Ok(Self {
            name: "host",
            server: format!("{}{CLUSTERS}{path}", host.server),
            ca: host.ca_certificate.clone(),
            token: self.token.clone(),
            path: None,
            act_as: None,
            pids: [self.pids.as_slice(), &[host.apiserver_pid()?]].concat(),
        })
    }

    /// The same to another registered cluster.
    pub(crate) fn to_cluster(&self, name: &'static str, cluster: &str) -> Self {
        let (url, _) = self.server.split_once(CLUSTERS).unwrap_or_default();
        Self {
            name,
            server: format!("{url}{CLUSTERS}/{cluster}/proxy"),
            ca: self.ca.clone(),
            token: self.token.clone(),
            path: None,
            act_as: None,
            pids: self.pids.clone(),
        }
    }

    /// The same with another path.
    pub(crate) fn asking(self, path: String) -> Self {
        Self { path: Some(path), ..self }
    }

    /// The URL of the requests.
    pub(crate) fn url(&self) -> String {
        format!("{}{}", self.server, self.path.as_deref().unwrap_or(CONFIG_MAP))
    }

    /// The same without the server.
    pub(crate) fn path_of_url(&self) -> String {
        let url = self.url();
        let (_, path) = url.split_once(CLUSTERS).unwrap_or_default();
        format!("{CLUSTERS}{path}")
    }

    /// The headers of a request.
    pub(crate) fn headers(&self) -> Vec<(String, String)> {
        match &self.act_as {
            Some(user) => user.headers(&self.token),
            None => vec![bearer(&self.token)],
        }
    }

    /// The same for kubectl.
    pub(crate) fn kubeconfig(&self, folder: &Path) -> Result<PathBuf> {
        let mut user = json!({"token": self.token});
        if let Some(User { token: _, name, groups: _, extra }) = &self.act_as {
            user["as"] = json!(name);
            user["as-user-extra"] = json!(extra);
        }
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "way",
            "clusters": [{"name": "way", "cluster": {
                "server": self.server, "certificate-authority": self.ca, "tls-server-name": CERTIFIED_NAME,
            }}],
            "users": [{"name": "way", "user": user}],
            "contexts": [{"name": "way", "context": {"cluster": "way", "user": "way"}}],
        });
        let path = folder.join(format!("{}.kubeconfig", self.name));
        fs::write(&path, config.to_string())?;
        Ok(path)
    }

    /// Sends requests until the route answers.
    pub(crate) fn warm_up(&self) -> Result<()> {
        eventually(&format!("{} answers", self.url()), SOON, || {
            wrk::run(&self.url(), &self.headers(), 1, Duration::from_secs(1)).map(Some)
        })?;
        Ok(())
    }
}

impl User {
    /// The user of this token, by a TokenReview of the host.
    pub(crate) fn of_token(token: &str) -> Result<Self> {
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token},
        });
        let answer = host()?.create("/apis/authentication.k8s.io/v1/tokenreviews", &review)?;
        let user = &answer["status"]["user"];
        let name = user["username"].as_str().context("the host does not know the caller")?.to_owned();
        let extra = match &user["extra"] {
            Value::Null => BTreeMap::new(),
            extra => serde_json::from_value(extra.clone())?,
        };
        let groups = serde_json::from_value(user["groups"].clone())?;
        Ok(Self { token: token.to_owned(), name, groups, extra })
    }

    /// The headers with which the sidecar, using this token, presents the user to a member.
    pub(crate) fn headers(&self, token: &str) -> Vec<(String, String)> {
        let mut headers = vec![bearer(token), ("Impersonate-User".to_owned(), self.name.clone())];
        for (key, values) in &self.extra {
            let name = format!("Impersonate-Extra-{}", key.replace('/', "%2F"));
            headers.extend(values.iter().map(|value| (name.clone(), value.clone())));
        }
        headers
    }

    /// The headers with which the host's front proxy presents the user to the sidecar.
    pub(crate) fn remote_headers(&self) -> Vec<(String, String)> {
        let mut headers = vec![("x-remote-user".to_owned(), self.name.clone())];
        headers.extend(self.groups.iter().map(|group| ("x-remote-group".to_owned(), group.clone())));
        for (key, values) in &self.extra {
            let name = format!("x-remote-extra-{}", key.replace('/', "%2f"));
            headers.extend(values.iter().map(|value| (name.clone(), value.clone())));
        }
        headers
    }
}

fn bearer(token: &str) -> (String, String) {
    ("Authorization".to_owned(), format!("Bearer {token}"))
}

/// The path of the requests.
pub(crate) const CONFIG_MAP: &str = "/api/v1/namespaces/e2e-bench/configmaps/small";
const CLUSTERS: &str = "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters";
