//! Measures the cost of showing each caller only their own clusters: with 1,000 clusters, the lists
//! of callers who have a right to all of them and of callers who have rights to 50 by name, and the
//! effect of such lists on another caller.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use harness::bed::host;
use harness::caller::Caller;
use harness::http1::Endpoint;
use harness::own_sidecar::OwnSidecar;
use harness::wait::{SOON, eventually};
use serde_json::{Value, json};

use crate::table::{Table, median};
use crate::usage::Cpu;

/// Clusters that the host knows, and the callers' rights.
struct Scene {
    clusters: usize,
    entered: usize,
}

/// One list.
struct Listed {
    milliseconds: f64,
    reviews: f64,
    /// Milliseconds of the sidecar's CPU time.
    cpu: f64,
}

pub(crate) fn measure(quick: bool) -> Result<[Table; 2]> {
    let (scene, rounds) = if quick { (Scene::new(40, 5)?, 1) } else { (Scene::new(1000, 50)?, ROUNDS) };
    let sidecar = OwnSidecar::start()?;
    let tables =
        [lists(&scene, &sidecar, rounds)?, beside(&scene, &sidecar, if quick { 20 } else { SAMPLES })?];
    scene.remove()?;
    Ok(tables)
}

fn lists(scene: &Scene, sidecar: &OwnSidecar, rounds: usize) -> Result<Table> {
    let mut table =
        Table::new(&["list by a caller with a right to", "time", "reviews", "CPU of the sidecar"]);
    for (right, group, seen) in
        [("all", ALL_GROUP, None), (&*format!("{} by name", scene.entered), NAMED_GROUP, Some(scene.entered))]
    {
        let (mut cold, mut warm) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            // Nothing is cached for this caller.
            let caller = Lister::new(sidecar, &format!("lister-{round}"), group)?;
            caller.login()?;
            cold.push(caller.list(sidecar, seen)?);
            warm.push(caller.list(sidecar, seen)?);
        }
        for (when, lists) in [("cold", &cold), ("warm", &warm)] {
            let middle = |of: fn(&Listed) -> f64| median(lists.iter().map(of));
            table.row([
                format!("{right}, {when}"),
                format!("{:.1} ms", middle(|list| list.milliseconds)),
                format!("{:.0}", middle(|list| list.reviews)),
                format!("{:.1} ms", middle(|list| list.cpu)),
            ]);
        }
    }
    Ok(table)
}

/// Measures another caller who requests one cluster after the other, alone and while others list without a
/// pause.
fn beside(scene: &Scene, sidecar: &OwnSidecar, samples: usize) -> Result<Table> {
    let other = |user: &str| -> Result<Vec<f64>> {
        let caller = Lister::new(sidecar, user, NAMED_GROUP)?;
        caller.login()?;
        let ask = |number: usize| {
            caller.get(&cluster(number % scene.clusters), number % scene.clusters < scene.entered)
        };
        (0..samples).map(ask).collect()
    };
    let alone = other("other-alone")?;
    let listers: Vec<_> = (0..LISTERS * 40)
        .map(|number| Lister::new(sidecar, &format!("busy-{number}"), NAMED_GROUP))
        .collect::<Result<_>>()?;
    let (next, over, listed) = (AtomicUsize::new(0), AtomicBool::new(false), AtomicUsize::new(0));
    let begin = Instant::now();
    let (busy, lists) = thread::scope(|scope| -> Result<_> {
        let listing: Vec<_> = (0..LISTERS)
            .map(|_| {
                scope.spawn(|| -> Result<()> {
                    while !over.load(Ordering::Relaxed) {
                        let lister = &listers[next.fetch_add(1, Ordering::Relaxed) % listers.len()];
                        lister.list(sidecar, Some(scene.entered))?;
                        listed.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                })
            })
            .collect();
        let busy = other("other-beside");
        let rate = listed.load(Ordering::Relaxed) as f64 / begin.elapsed().as_secs_f64();
        over.store(true, Ordering::Relaxed);
        for lister in listing {
            lister.join().map_err(|_| anyhow::anyhow!("a lister panicked"))??;
        }
        Ok((busy?, rate))
    })?;
    let mut table =
        Table::new(&["another caller's first question about a cluster", "p50", "p99", "lists/s beside"]);
    for (name, times, rate) in [("alone", &alone, 0.0), (&*format!("beside {LISTERS} listers"), &busy, lists)]
    {
        table.row([
            name.to_owned(),
            format!("{:.1} ms", quantile(times, 50)),
            format!("{:.1} ms", quantile(times, 99)),
            format!("{rate:.1}"),
        ]);
    }
    Ok(table)
}

impl Scene {
    fn new(clusters: usize, entered: usize) -> Result<Self> {
        let host = host()?;
        let scene = Self { clusters, entered };
        for number in 0..clusters {
            let name = cluster(number);
            host.apply(
                &format!("{MEMBER_CLUSTERS}/{name}"),
                &json!({
                    "apiVersion": "fleet.kubectl-mc.dev/v1alpha1", "kind": "MemberCluster",
                    "metadata": {"name": name}, "spec": {},
                }),
            )?;
        }
        let names: Vec<_> = (0..entered).map(cluster).collect();
        for (group, names) in [(ALL_GROUP, None), (NAMED_GROUP, Some(names))] {
            let mut rule = json!({"apiGroups": ["proxy.kubectl-mc.dev"], "resources": ["clusters/proxy"], "verbs": ["get"]});
            let mut attributes = json!({
                "group": "proxy.kubectl-mc.dev", "resource": "clusters", "subresource": "proxy", "verb": "get",
            });
            if let Some(names) = names {
                rule["resourceNames"] = json!(names);
                attributes["name"] = cluster(0).into();
            }
            let object = |kind: &str| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": group}});
            let mut role = object("ClusterRole");
            role["rules"] = json!([rule]);
            let mut binding = object("ClusterRoleBinding");
            binding["roleRef"] =
                json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": group});
            binding["subjects"] =
                json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}]);
            host.apply(&format!("{RBAC}/clusterroles/{group}"), &role)?;
            host.apply(&format!("{RBAC}/clusterrolebindings/{group}"), &binding)?;
            eventually("the right is there", SOON, || {
                Ok(host.may("bench", &[group.to_owned()], &attributes)?.then_some(()))
            })?;
        }
        Ok(scene)
    }

    fn remove(&self) -> Result<()> {
        let host = host()?;
        (0..self.clusters)
            .try_for_each(|number| host.delete(&format!("{MEMBER_CLUSTERS}/{}", cluster(number))).map(drop))
    }
}

/// A caller that opens a connection for each request, as kubectl does.
struct Lister(Endpoint);

impl Lister {
    fn new(sidecar: &OwnSidecar, user: &str, group: &str) -> Result<Self> {
        let caller = Caller::certificate(&format!("bench-{group}-{user}"), &[group])?;
        Ok(Self(sidecar.endpoint(caller.certificate.as_deref())?))
    }

    /// Sends a first request, so that checking the certificate and the right to list is not
    /// measured.
    fn login(&self) -> Result<()> {
        let answer = self.0.exchange(&request("/none-of-these"))?;
        ensure!(answer.status() == 404, "{} {}", answer.status(), answer.text());
        Ok(())
    }

    /// Lists the clusters. The list must have as many clusters as the caller may see.
    fn list(&self, sidecar: &OwnSidecar, seen: Option<usize>) -> Result<Listed> {
        let (reviews, cpu) = (reviews()?, Cpu::of(&[sidecar.pid()])?);
        let begin = Instant::now();
        let answer = self.0.exchange(&request(""))?;
        let milliseconds = begin.elapsed().as_secs_f64() * 1e3;
        ensure!(answer.status() == 200, "{} {}", answer.status(), answer.text());
        let cpu = (Cpu::of(&[sidecar.pid()])? - cpu).total * 1e3;
        let list: Value = serde_json::from_slice(&answer.body)?;
        let items = list["items"].as_array().context("no list")?.len();
        ensure!(seen.is_none_or(|seen| seen == items), "{items} clusters are shown, not {seen:?}");
        Ok(Listed { milliseconds, reviews: self::reviews()? - reviews, cpu })
    }

    /// The milliseconds of a request for one cluster.
    fn get(&self, name: &str, seen: bool) -> Result<f64> {
        let begin = Instant::now();
        let answer = self.0.exchange(&request(&format!("/{name}")))?;
        let milliseconds = begin.elapsed().as_secs_f64() * 1e3;
        ensure!(answer.status() == if seen { 200 } else { 404 }, "{} {}", answer.status(), answer.text());
        Ok(milliseconds)
    }
}

fn request(rest: &str) -> Vec<u8> {
    format!("GET {CLUSTERS}{rest} HTTP/1.1\r\nHost: sidecar\r\nAccept: application/json\r\nConnection: close\r\n\r\n")
        .into_bytes()
}

/// The number of reviews that the host has answered so far, according to its own metric.
fn reviews() -> Result<f64> {
    let metrics = host()?.request("GET", "/metrics", "", "")?.text();
    let lines = metrics.lines().filter(|line| {
        line.starts_with("apiserver_request_total{") && line.contains("resource=\"subjectaccessreviews\"")
    });
    Ok(lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
}

fn quantile(values: &[f64], percent: usize) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values
        .get((values.len() * percent / 100).min(values.len().saturating_sub(1)))
        .copied()
        .unwrap_or(f64::NAN)
}

fn cluster(number: usize) -> String {
    format!("visible-{number:04}")
}

const ROUNDS: usize = 7;
const SAMPLES: usize = 300;
const LISTERS: usize = 8;
const ALL_GROUP: &str = "bench-visible-all";
const NAMED_GROUP: &str = "bench-visible-named";
const CLUSTERS: &str = "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters";
const MEMBER_CLUSTERS: &str = "/apis/fleet.kubectl-mc.dev/v1alpha1/memberclusters";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
