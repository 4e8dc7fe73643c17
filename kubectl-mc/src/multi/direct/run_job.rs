//! Runs a plan on the clusters of a job. Clusters that the host reports as not ready fail immediately, and
//! only a watch waits for them.

use std::ops::ControlFlow;

use crate::cluster::cluster_id::ClusterId;

use super::Plan;
use super::task::{Merge, Task};
use super::text::Text;
use crate::error::Failure;
use crate::multi::fault::{Fault, Outcome};
use crate::multi::job::Job;
use crate::multi::lines::Lines;
use crate::multi::progress::ClusterProgress;
use crate::multi::selection::SelectedCluster;
use crate::server_text::escaped;

impl Plan {
    /// Runs the plan of a job; the outcomes are in the order of its targets.
    pub(crate) async fn run_job(
        &self,
        job: &Job<'_>,
        progress: &ClusterProgress,
    ) -> Result<Vec<Outcome>, Failure> {
        let mut lines = Lines::new(job);
        let not_ready: Vec<_> = job
            .targets
            .iter()
            .filter_map(|target| Some((target.name.clone(), target.not_ready()?.clone())))
            .collect();
        for (name, reason) in &not_ready {
            lines.end(name, &Err(Fault::NotReady(reason.clone())));
        }
        let asked = |target: &&SelectedCluster| target.not_ready().is_none() || self.lasts();
        let task = Task {
            reach: job.reach,
            scanned: job.scanned,
            env: job.env,
            printer: job.printer,
            clusters: job.targets.iter().filter(asked).map(|target| target.name.clone()).collect(),
            not_ready,
            growth: job.growth,
            color: job.options.color,
            at_once: job.options.concurrency.map(std::num::NonZero::get),
            timeout: job.options.timeout(true),
            progress: progress.clone(),
            merge: Merge::Marked,
        };
        let mut results = self.run(&task, &mut lines).await?.into_iter();
        let mut outcomes = Vec::new();
        for target in job.targets.iter() {
            let result = match target.not_ready() {
                Some(reason) if !asked(&target) => Err(Fault::NotReady(reason.clone())),
                _ => {
                    let result = results.next().map_or_else(|| Err(Fault::died()), |(_, result)| result);
                    lines.end(&target.name, &result);
                    result
                }
            };
            outcomes.push(Outcome { cluster: target.name.clone(), result });
        }
        for (cluster, result) in results {
            lines.end(&cluster, &result);
            outcomes.push(Outcome { cluster, result });
        }
        Ok(outcomes)
    }
}

impl Text for Lines<'_> {
    fn out(&mut self, cluster: &ClusterId, lines: &[u8]) -> ControlFlow<()> {
        Self::out(self, cluster, lines);
        ControlFlow::Continue(())
    }

    fn remark(&mut self, cluster: &ClusterId, remark: &str) {
        self.add(cluster);
        self.err(cluster, format!("{}\n", escaped(remark)).as_bytes());
    }

    fn failed(&mut self, cluster: &ClusterId, failure: &Fault) {
        self.add(cluster);
        self.fail(cluster, failure);
    }

    fn end(&mut self, cluster: &ClusterId) {
        self.complete(cluster);
    }
}
