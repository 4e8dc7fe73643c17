//! Runs commands that print one text for each cluster: `api-resources`, `auth can-i` and `top pod`. kubectl
//! runs `version` and `top node`, because their output depends on the version of kubectl.

mod api_resources;
mod can_i;
mod cluster_report;
mod quantity;
mod top_pod;

use std::ops::ControlFlow;
use std::sync::Arc;

use tokio::sync::mpsc::Sender;

use self::cluster_report::Report;
use super::discovery::Store;
use super::member::Member;
use super::member_deadline::MemberDeadline;
use super::task::{Ended, Task};
use super::text::Text;
use crate::argv::Scanned;
use crate::cluster::client::ClientError;
use crate::multi::fault::Fault;
use crate::multi::ordered_output::Sink;

/// A command of this kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ReportPlan {
    ApiResources(api_resources::ApiResourcesPlan),
    CanI(can_i::CanIPlan),
    TopPod(top_pod::TopPodPlan),
}

impl ReportPlan {
    /// The plan for these arguments, if kubectl would run the command without reporting an error
    /// itself.
    pub(super) fn parse(scanned: &Scanned) -> Option<Self> {
        api_resources::ApiResourcesPlan::parse(scanned)
            .map(Self::ApiResources)
            .or_else(|| can_i::CanIPlan::parse(scanned).map(Self::CanI))
            .or_else(|| top_pod::TopPodPlan::parse(scanned).map(Self::TopPod))
    }

    pub(super) fn is_table(&self) -> bool {
        !matches!(self, Self::CanI(_))
    }
}

pub(super) async fn run(
    plan: &ReportPlan,
    task: &Task<'_>,
    text: &mut dyn Text,
) -> Result<Vec<Ended>, ClientError> {
    let members = task.members(0, MemberDeadline::whole).await?;
    let store = Arc::new(Store::open(task.env));
    let ask = |member: Member, sender| report(plan.clone(), member, Arc::clone(&store), sender);
    let mut sink = Reports { task, text };
    Ok(task.run_each(members, ask, &mut sink).await)
}

/// Requests the report of one member, and sends it when it is complete.
async fn report(
    plan: ReportPlan,
    member: Member,
    store: Arc<Store>,
    sender: Sender<Report>,
) -> Result<(), Fault> {
    let report = match plan {
        ReportPlan::ApiResources(plan) => api_resources::report(&plan, &member, &store).await?,
        ReportPlan::CanI(plan) => can_i::report(&plan, &member, &store).await?,
        ReportPlan::TopPod(plan) => top_pod::report(&plan, &member).await?,
    };
    let result = if report.is_negative { Err(Fault::NegativeAnswer) } else { Ok(()) };
    // The receiver is gone when standard output is closed.
    let _ = sender.send(report).await;
    result
}

/// Prints reports in the order of the members.
struct Reports<'a, 't> {
    task: &'a Task<'a>,
    text: &'t mut dyn Text,
}

impl Sink<Report> for Reports<'_, '_> {
    fn take(&mut self, place: usize, report: Report) -> ControlFlow<()> {
        let Some(cluster) = self.task.clusters.get(place) else { return ControlFlow::Continue(()) };
        for remark in &report.remarks {
            self.text.remark(cluster, remark);
        }
        self.text.out(cluster, report.lines.as_bytes())
    }

    fn end(&mut self, place: usize) {
        if let Some(cluster) = self.task.clusters.get(place) {
            self.text.end(cluster);
        }
    }
}
