//! Two replicas of the sidecar behind the host restart as in a rollout of a Deployment: a new
//! replica starts, and the host finds it when it is ready. Then an old one gets SIGTERM, and the
//! host learns about that a moment later.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::bed::{SYSTEM, host, sidecar};
use harness::caller::Caller;
use harness::http1::Endpoint;
use harness::own_sidecar::{Difference, OwnSidecar};
use serde_json::{Value, json};

/// The replicas that are in service.
pub(super) type Serving = Vec<Endpoint>;

pub(super) struct Replicas {
    caller: Caller,
    running: VecDeque<Replica>,
    started: usize,
    listeners: Vec<Sender<Serving>>,
    served: u64,
}

struct Replica {
    own: OwnSidecar,
    slice: String,
}

impl Replicas {
    /// Replaces the bed's sidecar with two replicas.
    pub(super) fn start(caller: &Caller) -> Result<Self> {
        let mut replicas = Self {
            caller: caller.clone(),
            running: VecDeque::new(),
            started: 0,
            listeners: Vec::new(),
            served: 0,
        };
        replicas.add()?;
        replicas.add()?;
        slice("mc-sidecar", &sidecar()?.url, false)?;
        Ok(replicas)
    }

    /// The serving replicas, now and after each change.
    pub(super) fn subscribe(&mut self) -> Receiver<Serving> {
        let (listener, told) = channel();
        // The receiver still exists here.
        let _ = listener.send(self.serving().unwrap_or_default());
        self.listeners.push(listener);
        told
    }

    /// Restarts both, one after the other.
    pub(super) fn roll(&mut self) -> Result<()> {
        for _ in 0..2 {
            self.add()?;
            self.remove()?;
        }
        Ok(())
    }

    /// The total number of requests that the replicas answered.
    pub(super) fn served(&self) -> Result<u64> {
        self.running.iter().try_fold(self.served, |sum, replica| Ok(sum + replica.served()?))
    }

    fn add(&mut self) -> Result<()> {
        let flags = &["--shutdown-delay-duration=5", "--shutdown-grace-period=5"];
        let own = OwnSidecar::with(&Difference { flags, ..Difference::default() })?;
        self.started += 1;
        let slice = format!("mc-sidecar-{}", self.started);
        self::slice(&slice, &own.sidecar.url, true)?;
        self.running.push_back(Replica { own, slice });
        self.tell()
    }

    fn remove(&mut self) -> Result<()> {
        let mut old = self.running.pop_front().context("no replica")?;
        // The kubelet and the endpoint controller learn of a deleted pod at different times.
        let told = Instant::now();
        old.own.terminate()?;
        while let Some(left) = LAG.checked_sub(told.elapsed()) {
            std::thread::park_timeout(left);
        }
        host()?.delete(&path(&old.slice))?;
        self.tell()?;
        // Counts its answers for as long as its metrics are available.
        let mut served = old.served()?;
        while let Ok(now) = old.served() {
            served = now;
            std::thread::park_timeout(Duration::from_millis(200));
        }
        let ended = old.own.ended()?;
        self.served += served;
        ensure!(ended.success(), "a replica ended with {ended}: {}", old.own.log()?);
        Ok(())
    }

    fn serving(&self) -> Result<Serving> {
        let certificate = self.caller.certificate.as_deref();
        self.running.iter().map(|replica| replica.own.endpoint(certificate)).collect()
    }

    fn tell(&mut self) -> Result<()> {
        let serving = self.serving()?;
        self.listeners.retain(|listener| listener.send(serving.clone()).is_ok());
        Ok(())
    }
}

impl Replica {
    fn served(&self) -> Result<u64> {
        Ok(self.own.metric("apiserver_request_total")? as u64)
    }
}

impl Drop for Replicas {
    fn drop(&mut self) {
        // Restores the bed's sidecar for the following tests.
        let _ = sidecar().and_then(|bed| slice("mc-sidecar", &bed.url, true));
        for replica in &self.running {
            let _ = host().and_then(|host| host.delete(&path(&replica.slice)));
        }
    }
}

/// Writes an address of the sidecar's Service on the host.
fn slice(name: &str, url: &str, ready: bool) -> Result<Value> {
    let (ip, port) = url.trim_start_matches("https://").rsplit_once(':').context("no port")?;
    let port: u16 = port.parse()?;
    host()?.apply(
        &path(name),
        &json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": "mc-sidecar"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [ip], "conditions": {"ready": ready}}],
            "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
        }),
    )
}

fn path(slice: &str) -> String {
    format!("/apis/discovery.k8s.io/v1/namespaces/{SYSTEM}/endpointslices/{slice}")
}

/// The time until the host learns that a replica ends.
const LAG: Duration = Duration::from_secs(1);
