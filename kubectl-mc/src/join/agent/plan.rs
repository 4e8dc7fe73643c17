//! Describes the agent that the flags request, and how it reaches the host.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use kube::config::Cluster;
use kubectl_mc_api::ClusterName;
use kubectl_mc_api::direct;
use kubectl_mc_api::manifests::{self, Agent, AgentValues, HostConnection};
use serde_json::Value;

use crate::cli::{AgentArgs, AgentTokenLife, RELEASED_IMAGE};
use crate::error::{Context, Failure};
use crate::join::address;
use crate::join::agent::found::Found;
use crate::join::agent::trust::{SET_CA, Trust, unusable_ca};
use crate::join::endpoint::{self, Endpoint};

/// The agent to run on the member.
pub(crate) struct AgentPlan {
    cluster: ClusterName,
    image: Option<String>,
    values: AgentValues,
    pub(crate) host: HostConnection,
    /// Whether a flag gave the host's server, whose address is then not checked for locality.
    is_given: bool,
    /// How the agent verifies the host, if a flag says so.
    trust: Option<Trust>,
    /// Whether a flag gave the TLS server name.
    is_name_given: bool,
    pub(crate) token: Option<AgentTokenLife>,
}

impl AgentPlan {
    /// `host` is the server and the cluster of the host's context. Without it, only a server from a flag is
    /// known.
    pub(crate) fn of(
        name: &ClusterName,
        arguments: &AgentArgs,
        host: Option<(&str, &Cluster)>,
    ) -> Result<Self, Failure> {
        let AgentArgs {
            agent: _,
            enroll: _,
            enroll_for: _,
            agent_image,
            agent_values,
            agent_server,
            // Read together.
            agent_server_ca: _,
            agent_trust_system_roots: _,
            agent_tls_server_name,
            agent_proxy,
            agent_token,
        } = arguments;
        let values = match agent_values {
            Some(file) => read(file).map_err(|reason| {
                Failure::usage(format!("cannot read the agent's values of {}: {reason}", file.display()))
            })?,
            None => AgentValues::default(),
        };
        if !is_target(&values.target) {
            return Err(Failure::usage(format!(
                "target {:?} of the agent's values is not HOST:PORT",
                values.target
            )));
        }
        let image = agent_image.clone().or_else(|| values.image.reference());
        let cluster = host.map(|(_, cluster)| cluster);
        let server = agent_server.clone().or_else(|| host.map(|(server, _)| server.to_owned()));
        let server = server.ok_or_else(|| {
            set_server("the host's address is unknown: its context is not in the kubeconfig".to_owned())
        })?;
        let trust = Trust::read(arguments)?;
        let ca = match &trust {
            Some(trust) => trust.ca().map(str::to_owned),
            None => cluster.map(endpoint::ca).transpose().map_err(unusable_ca)?.flatten(),
        };
        let is_unverified = |cluster: &Cluster| cluster.insecure_skip_tls_verify == Some(true);
        if trust.is_none() && ca.is_none() && agent_server.is_none() && cluster.is_some_and(is_unverified) {
            return Err(Failure::usage(
                "the host's context does not verify the host's certificate, and an agent must",
            )
            .with_hint(SET_CA));
        }
        let of_context = || cluster.and_then(|cluster| cluster.tls_server_name.clone());
        let filled = |text: String| Some(text).filter(|text| !text.is_empty());
        let host = HostConnection {
            server: endpoint::checked(&server).map_err(|reason| {
                set_server(format!("the host's server {server:?} cannot be used by an agent: {reason}"))
            })?,
            ca,
            tls_server_name: agent_tls_server_name.clone().or_else(of_context).and_then(filled),
            // The proxy of the kubeconfig is for this machine.
            proxy_url: agent_proxy.clone(),
        };
        Ok(Self {
            cluster: name.clone(),
            image: image.or_else(|| RELEASED_IMAGE.map(str::to_owned)),
            values,
            host,
            is_given: agent_server.is_some(),
            trust,
            is_name_given: agent_tls_server_name.is_some(),
            token: *agent_token,
        })
    }

    /// Verifies the host's direct endpoint with the CA that the host publishes, if the agent dials that
    /// endpoint and no flag gave the CA or the TLS server name.
    pub(crate) fn with_direct_endpoint(mut self, config_map: &Value) -> Self {
        let is_trust_given = self.trust.is_some() || self.is_name_given;
        let published = direct::published(config_map).filter(|_| self.is_given && !is_trust_given);
        if let Some((_, ca)) = published.filter(|(server, _)| server.url() == self.host.server) {
            self.host.ca = ca;
            self.host.tls_server_name = None;
        }
        self
    }

    /// The same agent, which enrolls its member with tokens of this lifetime.
    pub(crate) fn enrolling(mut self, until: Timestamp, token_life: Duration) -> Self {
        self.values.extra_args.extend([
            format!("--enroll-until={until}"),
            format!("--enroll-token-duration={}s", token_life.as_secs()),
        ]);
        self
    }

    /// All objects of the member except the Secret, in the order in which they are applied.
    pub(crate) fn objects(&self) -> Result<Vec<Value>, Failure> {
        let image = self.image.clone().ok_or_else(|| {
            Failure::new("no image of mc-sidecar for the agent: this build of kubectl-mc does not name one")
                .with_hint("set it by --agent-image=IMAGE")
        })?;
        let (cluster, values) = (self.cluster.clone(), self.values.clone());
        Agent { cluster, image, values }.objects().context(|| "cannot make the agent's manifests")
    }

    /// The same plan, without a request to the host for a better address.
    pub(crate) fn for_others(self) -> Result<Self, Failure> {
        match (self.unpinned(), self.locality()) {
            (_, Some(what)) => Err(set_server(format!(
                "the host's server {} is {what}: the agent cannot reach it",
                self.host.server
            ))),
            (Some(unpinned), None) => Err(unpinned),
            (None, None) => Ok(self),
        }
    }

    /// Why the agent cannot verify the host: there is neither a CA nor the flag to do without one.
    pub(crate) fn unpinned(&self) -> Option<Failure> {
        let is_unpinned = self.host.ca.is_none() && self.trust != Some(Trust::SystemRoots);
        is_unpinned.then(|| {
            Failure::usage(format!(
                "the certificate authority of the host's server {} is unknown: the agent would send its token to any server \
                 of that name with a certificate of a public authority",
                self.host.server
            ))
            .with_hint(
                "write the root certificate of the host's authority into FILE, and add --agent-server-ca=FILE: \
                 `openssl s_client -connect HOST:443 </dev/null` names it at the greatest depth; to accept every public \
                 authority: --agent-trust-system-roots",
            )
        })
    }

    /// The member's connection, which the agent carries. An agent that another tool installed keeps its
    /// target.
    pub(crate) fn endpoint(&self, found: Option<&Found>, ca: Option<String>) -> Endpoint {
        let theirs = found.filter(|found| found.owner().is_some()).and_then(Found::target);
        let theirs = theirs.filter(|target| is_target(target));
        Endpoint::via_agent(theirs.as_deref().unwrap_or(&self.values.target), ca)
    }

    /// Why only this machine can use the host's address.
    pub(crate) fn locality(&self) -> Option<&'static str> {
        if self.is_given { None } else { address::local(&self.host.server) }
    }
}

fn is_target(text: &str) -> bool {
    let authority = text.parse::<http::uri::Authority>().ok();
    authority.is_some_and(|authority| authority.port_u16().is_some() && !text.contains('@'))
}

fn read(file: &PathBuf) -> Result<AgentValues, String> {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    AgentValues::parse(&text).map_err(|error: manifests::Error| error.to_string())
}

fn set_server(text: String) -> Failure {
    Failure::usage(text)
        .with_hint("set the URL of the host that the member reaches: --agent-server=https://…")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> ClusterName {
        "m1".parse().unwrap()
    }

    fn cluster() -> Cluster {
        Cluster { certificate_authority_data: Some("UEVN".to_owned()), ..Cluster::default() }
    }

    #[test]
    fn agent_uses_the_server_of_the_host_context() {
        let host = Cluster {
            tls_server_name: Some("kubernetes".to_owned()),
            proxy_url: Some("socks5://localhost:1080".to_owned()),
            ..cluster()
        };
        let plan = AgentPlan::of(&name(), &AgentArgs::default(), Some(("https://h:6443/", &host))).unwrap();
        let expected = HostConnection {
            server: "https://h:6443".to_owned(),
            ca: Some("PEM".to_owned()),
            tls_server_name: Some("kubernetes".to_owned()),
            proxy_url: None,
        };
        assert_eq!(plan.host, expected);
        assert!(plan.locality().is_none());
    }

    #[test]
    fn flags_override_the_context_of_the_host() {
        let arguments = AgentArgs {
            agent_server: Some("https://lb.example".to_owned()),
            agent_tls_server_name: Some("mc".to_owned()),
            agent_proxy: Some("http://proxy:3128".to_owned()),
            ..AgentArgs::default()
        };
        let plan = AgentPlan::of(&name(), &arguments, Some(("https://127.0.0.1:6443", &cluster()))).unwrap();
        let data = plan.host.data();
        assert_eq!([&data["server"], &data["tls-server-name"]], ["https://lb.example", "mc"]);
        assert_eq!(data["proxy-url"], "http://proxy:3128");
        assert!(plan.locality().is_none(), "it was given");
        let of_context =
            AgentPlan::of(&name(), &AgentArgs::default(), Some(("https://127.0.0.1:6443", &cluster())));
        let of_context = of_context.unwrap();
        assert_eq!(of_context.locality(), Some("a loopback address"));
        assert!(of_context.for_others().is_err() && plan.for_others().is_ok());
        assert!(AgentPlan::of(&name(), &arguments, None).is_ok());
    }

    #[test]
    fn direct_endpoint_is_verified_as_the_host_publishes_it() {
        let published = serde_json::json!({"data": {"server": "https://mc.example", "ca.crt": "PUBLISHED"}});
        let ca = |server: &str, tls_server_name: Option<&str>| {
            let arguments = AgentArgs {
                agent_server: Some(server.to_owned()),
                agent_tls_server_name: tls_server_name.map(str::to_owned),
                ..AgentArgs::default()
            };
            let host = Cluster { tls_server_name: Some("kubernetes".to_owned()), ..cluster() };
            let plan = AgentPlan::of(&name(), &arguments, Some(("https://h", &host))).unwrap();
            let HostConnection { ca, tls_server_name, .. } = plan.with_direct_endpoint(&published).host;
            (ca.unwrap(), tls_server_name)
        };
        let of_context = || ("PEM".to_owned(), Some("kubernetes".to_owned()));
        assert_eq!(ca("https://mc.example/", None), ("PUBLISHED".to_owned(), None));
        assert_eq!(ca("https://private.example", None), of_context());
        assert_eq!(ca("https://mc.example", Some("kubernetes")), of_context());
    }

    #[test]
    fn unknown_or_unverifiable_host_is_refused() {
        let of = |server, cluster: &Cluster| {
            let plan = AgentPlan::of(&name(), &AgentArgs::default(), Some((server, cluster)));
            plan.err().unwrap().to_string()
        };
        let insecure = Cluster { insecure_skip_tls_verify: Some(true), ..Cluster::default() };
        assert!(of("https://h", &insecure).contains("an agent must"));
        assert!(of("http://h", &cluster()).contains("it must be https"));
        let unknown = AgentPlan::of(&name(), &AgentArgs::default(), None).err().unwrap();
        assert!(unknown.hint.unwrap().to_string().contains("--agent-server="));
    }

    #[test]
    fn host_without_a_known_ca_needs_a_flag() {
        let of = |arguments: &AgentArgs, cluster: &Cluster| {
            AgentPlan::of(&name(), arguments, Some(("https://h", cluster))).unwrap()
        };
        let (none, default) = (Cluster::default(), AgentArgs::default());
        let error = of(&default, &none).for_others().err().unwrap();
        assert!(error.to_string().contains("authority of the host's server https://h is unknown"), "{error}");
        let hint = error.hint.unwrap().to_string();
        assert!(hint.contains("--agent-server-ca=FILE") && hint.contains("--agent-trust-system-roots"));
        assert!(of(&default, &cluster()).unpinned().is_none());
        let system = AgentArgs { agent_trust_system_roots: true, ..AgentArgs::default() };
        let insecure = Cluster { insecure_skip_tls_verify: Some(true), ..Cluster::default() };
        for known in [&none, &cluster(), &insecure] {
            let plan = of(&system, known);
            assert!(plan.unpinned().is_none() && plan.host.ca.is_none());
        }
        // The published CA of the direct endpoint decides, not that of the context.
        let endpoint = |data| {
            let arguments = AgentArgs { agent_server: Some("https://mc".to_owned()), ..AgentArgs::default() };
            of(&arguments, &cluster()).with_direct_endpoint(&serde_json::json!({"data": data})).unpinned()
        };
        assert!(endpoint(serde_json::json!({"server": "https://mc", "ca.crt": "PEM"})).is_none());
        assert!(endpoint(serde_json::json!({"server": "https://mc"})).is_some());
    }

    #[test]
    fn target_of_the_agent_is_the_server_of_its_member() {
        let mut plan =
            AgentPlan::of(&name(), &AgentArgs::default(), Some(("https://h", &cluster()))).unwrap();
        let server = |plan: &AgentPlan, found: Option<&Found>| plan.endpoint(found, None).server;
        assert_eq!(server(&plan, None), "https://kubernetes.default.svc");
        plan.values.target = "10.96.0.1:443".to_owned();
        assert_eq!(server(&plan, Some(&Found::default())), "https://10.96.0.1");
        let with = |arg: &str| Found {
            deployment: Some(serde_json::json!({
                "metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}},
                "spec": {"template": {"spec": {"containers": [{"args": ["agent", arg]}]}}},
            })),
            ..Found::default()
        };
        assert_eq!(server(&plan, Some(&with("--target=10.0.0.9:6443"))), "https://10.0.0.9:6443");
        assert_eq!(server(&plan, Some(&with("--target=x y"))), "https://10.96.0.1");
    }

    #[test]
    fn image_is_that_of_the_flag_before_the_values() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "image: {repository: r, tag: v1}\nreplicas: 1\n").unwrap();
        let arguments = AgentArgs { agent_values: Some(file.path().to_owned()), ..AgentArgs::default() };
        let plan = AgentPlan::of(&name(), &arguments, Some(("https://h", &cluster()))).unwrap();
        let text = |plan: &AgentPlan| serde_json::to_string(&plan.objects().unwrap()).unwrap();
        assert!(text(&plan).contains(r#""image":"r:v1""#) && text(&plan).contains(r#""replicas":1"#));
        let arguments = AgentArgs { agent_image: Some("flag".to_owned()), ..arguments };
        let plan = AgentPlan::of(&name(), &arguments, Some(("https://h", &cluster()))).unwrap();
        assert!(text(&plan).contains(r#""image":"flag""#));
        for wrong in ["securePort: 1\n", "target: kubernetes\n", "target: 'https://m1:6443'\n"] {
            std::fs::write(file.path(), wrong).unwrap();
            let plan = AgentPlan::of(&name(), &arguments, Some(("https://h", &cluster())));
            assert!(plan.is_err(), "{wrong}");
        }
    }
}
