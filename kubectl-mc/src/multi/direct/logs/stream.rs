//! Streams the log of one container.

use std::sync::Arc;

use tokio::sync::mpsc::Sender;

use super::lines::{Cutter, without_time};
use super::options::{LogOptions, Since};
use super::pods;
use super::said::Said;
use crate::multi::direct::failure::MemberFailure;
use crate::multi::direct::member::{Member, Query, next_data};
use crate::multi::pause::Pause;

/// The location of the log, and its options.
pub(super) struct LogStream {
    pub(super) options: LogOptions,
    pub(super) member: Member,
    pub(super) namespace: String,
    pub(super) pod: String,
    pub(super) container: String,
    /// The id of the container at the first request.
    pub(super) id: Option<String>,
    pub(super) format: Arc<dyn LineFormat>,
    /// The name of this log in remarks.
    pub(super) title: String,
    /// Whether to also retry the first request after a transient failure.
    pub(super) is_patient: bool,
}

/// The output format of a line.
pub(super) trait LineFormat: Send + Sync {
    /// Appends a line to the output. The line starts with the server's timestamp, if one was requested.
    fn show(&self, line: &[u8], to: &mut Vec<u8>);
}

/// kubectl's format.
pub(super) struct PlainLines {
    /// Whether to omit the server's timestamp.
    pub(super) omits_time: bool,
    /// kubectl's `--prefix`.
    pub(super) prefix: String,
}

impl LineFormat for PlainLines {
    fn show(&self, line: &[u8], to: &mut Vec<u8>) {
        to.extend_from_slice(self.prefix.as_bytes());
        to.extend_from_slice(if self.omits_time { without_time(line) } else { line });
    }
}

/// Ends a part of a long line with a line break, because other logs may follow.
fn end_line(to: &mut Vec<u8>) {
    if to.last().is_some_and(|&last| last != b'\n') {
        to.push(b'\n');
    }
}

impl LogStream {
    /// Reads the current log, with the server's timestamps if they are wanted.
    pub(super) async fn read(&self, timestamps: bool, sender: &Sender<Said>) -> Result<(), MemberFailure> {
        let query = self.query(timestamps, None);
        let mut body = self.member.open(&self.path(&query), "*/*").await?.into_body();
        let mut cutter = Cutter::default();
        while let Some(data) = self.member.in_time(next_data(&mut body)).await?? {
            self.send(sender, false, |line| cutter.take(&data, line)).await;
            if sender.is_closed() {
                return Ok(());
            }
        }
        self.send(sender, true, |line| cutter.finish(line)).await;
        Ok(())
    }

    /// Follows the log until the container ends. It always requests timestamps, because they are
    /// the position from which to resume, including the position where another log of the same
    /// cutter ended.
    pub(super) async fn follow(
        &self,
        cutter: &mut Cutter,
        sender: &Sender<Said>,
    ) -> Result<(), MemberFailure> {
        let mut since = cutter.resume();
        let mut pause = Pause::default();
        // `None` until the log was opened once.
        let mut lost = None;
        loop {
            let query = self.query(true, since.as_deref());
            let ended = self.one(&query, cutter, sender, &mut lost, &mut pause).await;
            if sender.is_closed() {
                return Ok(());
            }
            let why = match ended {
                Err(failure) if lost.is_none() && !(self.is_patient && failure.is_passing()) => {
                    return Err(failure);
                }
                Err(failure) if failure.is_passing() => failure.to_string(),
                // The log has ended, or no longer exists when it is requested again.
                ended => match self.still_runs().await {
                    Ok(true) => match ended {
                        Ok(()) => "the log ended while the container runs".to_owned(),
                        Err(failure) => return Err(failure),
                    },
                    Err(failure) if failure.is_passing() => failure.to_string(),
                    Ok(false) | Err(_) => {
                        self.send(sender, true, |line| cutter.finish(line)).await;
                        return Ok(());
                    }
                },
            };
            let lost = lost.get_or_insert(false);
            if !std::mem::replace(lost, true) {
                self.remark(sender, &format!("lost: {why}; trying again")).await;
            }
            since = cutter.resume();
            pause.wait().await;
        }
    }

    /// Runs one request to its end.
    async fn one(
        &self,
        query: &Query,
        cutter: &mut Cutter,
        sender: &Sender<Said>,
        lost: &mut Option<bool>,
        pause: &mut Pause,
    ) -> Result<(), MemberFailure> {
        let mut body = self.member.open(&self.path(query), "*/*").await?.into_body();
        if lost.replace(false) == Some(true) {
            self.remark(sender, "the log continues").await;
        }
        *pause = Pause::default();
        while let Some(data) = next_data(&mut body).await? {
            self.send(sender, false, |line| cutter.take(&data, line)).await;
            if sender.is_closed() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Sends the lines that `cut` passes on, in the output format.
    async fn send(&self, sender: &Sender<Said>, is_last: bool, cut: impl FnOnce(&mut dyn FnMut(&[u8]))) {
        let mut lines = Vec::new();
        cut(&mut |line| {
            self.format.show(line, &mut lines);
            // The last line may lack a line break.
            if !is_last {
                end_line(&mut lines);
            }
        });
        if !lines.is_empty() {
            // The receiver may be gone.
            let _ = sender.send(if is_last { Said::Last(lines) } else { Said::Lines(lines) }).await;
        }
    }

    /// Whether the same container still runs in a pod that is not being deleted.
    async fn still_runs(&self) -> Result<bool, MemberFailure> {
        let pod = pods::named(&self.member, &self.namespace, &self.pod).await?;
        let same = self.id.is_some() && pod.running(&self.container) == self.id.as_deref();
        Ok(same && pod.metadata.deletion_timestamp.is_none())
    }

    async fn remark(&self, sender: &Sender<Said>, remark: &str) {
        let _ = sender.send(Said::Remark(format!("- {}: {remark}", self.title))).await;
    }

    fn path(&self, query: &Query) -> String {
        let Self { namespace, pod, .. } = self;
        format!("/api/v1/namespaces/{namespace}/pods/{pod}/log{query}")
    }

    fn query(&self, timestamps: bool, resumed: Option<&str>) -> Query {
        let LogOptions { follow, previous, since, tail } = &self.options;
        let on = |on: bool| on.then_some("true");
        let query = Query::default()
            .with("container", &self.container)
            .with_some("follow", on(*follow))
            .with_some("previous", on(*previous))
            .with_some("timestamps", on(timestamps));
        if let Some(time) = resumed {
            return query.with("sinceTime", time);
        }
        let query = query.with_some("tailLines", tail.map(|lines| lines.to_string()).as_deref());
        match since {
            Since::Ever => query,
            Since::Seconds(seconds) => query.with("sinceSeconds", &seconds.to_string()),
            Since::Time(time) => query.with("sinceTime", time),
        }
    }
}
