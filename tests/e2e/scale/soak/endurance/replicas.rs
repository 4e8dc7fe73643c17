//! Two replicas of the sidecar behind the host, and what a Deployment does to them when it rolls: a new one
//! is started and found by the host when it is ready, then an old one is told to end, and the host learns
//! of that a moment later.

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
    /// Puts two in the place of the bed's own.
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

    /// Who serves, now and whenever that changes.
    pub(super) fn subscribe(&mut self) -> Receiver<Serving> {
        let (listener, told) = channel();
        // The other end is here.
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

    /// How many requests they answered in all.
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
        // Kubelet and endpoint controller hear of a pod that is deleted each in its own time.
        let told = Instant::now();
        old.own.terminate()?;
        while let Some(left) = LAG.checked_sub(told.elapsed()) {
            std::thread::park_timeout(left);
        }
        host()?.delete(&path(&old.slice))?;
        self.tell()?;
        // What it still answers is counted for as long as it can be asked.
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
        // The bed's own is to serve the tests that come after.
        let _ = sidecar().and_then(|bed| slice("mc-sidecar", &bed.url, true));
        for replica in &self.running {
            let _ = host().and_then(|host| host.delete(&path(&replica.slice)));
        }
    }
}

/// Tells the host of an address of the sidecar's Service.
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

/// What the host takes to learn that a replica is going.
const LAG: Duration = Duration::from_secs(1);
