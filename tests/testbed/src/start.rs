//! Starts a bed: all clusters and nodes at the same time, then the sidecar.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread::{self, ScopedJoinHandle};

use anyhow::{Context, Result, anyhow};

use crate::bed::{Bed, Cluster};
use crate::control_plane::{self, Site};
use crate::karmada;
use crate::limits;
use crate::network;
use crate::node;
use crate::packages;
use crate::plan::{ClusterPlan, HOST, Plan, SidecarImage, Wanted};
use crate::programs;
use crate::progress::{say, step};
use crate::registration;

/// A bed that is about to start. Its plan has been checked.
pub struct Ready(Plan);

/// Checks the request and builds the programs that are missing.
pub fn check(wanted: &Wanted) -> Result<Ready> {
    let mut plan = Plan::new(wanted, network::namespaces())?;
    if let Some(sidecar) = &mut plan.sidecar {
        *sidecar =
            fs::canonicalize(&sidecar).with_context(|| format!("no sidecar: {}", sidecar.display()))?;
    }
    if let Some(SidecarImage::Archive(path) | SidecarImage::Of(path)) = &mut plan.sidecar_image {
        *path = fs::canonicalize(&path)
            .with_context(|| format!("no image of the sidecar: {}", path.display()))?;
    }
    packages::check(&plan)?;
    if !plan.loopback {
        limits::raise();
    }
    if plan.clusters.iter().any(|cluster| cluster.node) {
        programs::build(programs::DEFAULT_VERSION, programs::IMAGES)?;
    }
    programs::build(programs::DEFAULT_VERSION, programs::COMMON)?;
    for cluster in &plan.clusters {
        programs::build(&cluster.version, programs::CONTROL_PLANE)?;
        if cluster.node {
            programs::build(&cluster.version, programs::NODE)?;
        }
    }
    if plan.clusters.iter().any(|cluster| cluster.karmada) {
        programs::build_karmada()?;
    }
    for line in &plan.skipped {
        say(format_args!("skipped: {line}"));
    }
    Ok(Ready(plan))
}

/// Starts it in a folder. After an error, the bed's owner takes down what was started.
pub fn start(Ready(plan): &Ready, id: &str, dir: &Path) -> Result<Bed> {
    if !plan.loopback {
        step("network", || network::create(id, plan))?;
        network::enter(id)?;
    }
    let collector = plan.tracing.then(|| dir.join("collector.sock"));
    let tracing = collector.as_deref().map(|socket| tracing_config(dir, socket)).transpose()?;
    let site = Site { id, dir, loopback: plan.loopback, tracing };
    let clusters = thread::scope(|scope| {
        let threads = plan
            .clusters
            .iter()
            .map(|cluster| scope.spawn(|| start_cluster(&site, cluster, plan.sidecar_image.as_ref())))
            .collect::<Vec<_>>();
        join_all(threads)
    })?;
    let mut members =
        clusters.into_iter().map(|cluster| (cluster.name.clone(), cluster)).collect::<BTreeMap<_, _>>();
    let mut bed = Bed {
        id: id.to_owned(),
        dir: dir.to_owned(),
        netns: (!plan.loopback).then(|| id.to_owned()),
        address: plan.address(),
        bin: link_programs(dir, plan)?,
        host: members.remove(HOST).context("no host")?,
        spares: plan
            .clusters
            .iter()
            .filter(|cluster| cluster.spare)
            .filter_map(|cluster| members.remove_entry(&cluster.name))
            .collect(),
        members,
        sidecar: None,
        collector,
        skipped: plan.skipped.clone(),
    };
    if let Some(program) = &plan.sidecar {
        bed.sidecar = Some(registration::start_sidecar(&site, &bed, program)?);
    }
    bed.save()?;
    Ok(bed)
}

/// Kubernetes 1.30 reads v1beta1. The parent span decides about sampling.
fn tracing_config(dir: &Path, socket: &Path) -> Result<PathBuf> {
    let file = dir.join("tracing.yaml");
    let endpoint = socket.display();
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: TracingConfiguration\nendpoint: unix://{endpoint}\n"
    );
    fs::write(&file, text)?;
    Ok(file)
}

fn start_cluster(site: &Site<'_>, plan: &ClusterPlan, sidecar: Option<&SidecarImage>) -> Result<Cluster> {
    let name = &plan.name;
    thread::scope(|scope| {
        let prepared = plan.node.then(|| {
            scope.spawn(|| step(at(name, "containerd and images"), || node::prepare(site, plan, sidecar)))
        });
        let mut cluster = step(at(name, "control plane"), || control_plane::start(site, plan))?;
        let kubectl = site.kubectl(&cluster.kubeconfig);
        if let Some(prepared) = prepared {
            let prepared = join(prepared)?;
            step(at(name, "node"), || node::join(site, plan, &prepared, &cluster))?;
        }
        step(at(name, "controllers"), || control_plane::controllers_work(&kubectl))?;
        if plan.karmada {
            cluster.karmada = Some(step(at(name, "Karmada"), || karmada::start(site, &cluster))?);
        }
        Ok(cluster)
    })
}

/// Links all programs into one folder, for a PATH.
fn link_programs(dir: &Path, plan: &Plan) -> Result<PathBuf> {
    let bin = dir.join("bin");
    fs::create_dir_all(&bin)?;
    let mut names = [programs::COMMON, programs::CONTROL_PLANE].concat();
    if plan.clusters.iter().any(|cluster| cluster.node) {
        names.extend([programs::NODE, programs::IMAGES].concat());
    }
    for name in names {
        symlink(programs::path(programs::DEFAULT_VERSION, name), bin.join(name))?;
    }
    Ok(bin)
}

/// Returns the results of all threads, or the errors of all threads that failed.
fn join_all<T>(threads: Vec<ScopedJoinHandle<'_, Result<T>>>) -> Result<Vec<T>> {
    let (mut results, mut errors) = (Vec::new(), Vec::new());
    for thread in threads {
        match join(thread) {
            Ok(result) => results.push(result),
            Err(error) => errors.push(format!("{error:#}")),
        }
    }
    if errors.is_empty() { Ok(results) } else { Err(anyhow!(errors.join("\n"))) }
}

fn join<T>(thread: ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    thread.join().unwrap_or_else(|_| Err(anyhow!("a thread panicked")))
}

fn at(cluster: &str, what: impl Display) -> String {
    format!("{cluster}: {what}")
}
