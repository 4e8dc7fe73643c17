//! Metrics of the process, with the standard names of Prometheus' client libraries.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

/// Collects the values at each scrape.
#[derive(Debug)]
struct Process {
    started: f64,
}

pub(super) fn register(registry: &mut Registry) {
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    registry.register_collector(Box::new(Process { started }));
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let used = clock_gettime(ClockId::ProcessCPUTime);
        #[expect(clippy::cast_precision_loss, reason = "seconds of a process")]
        let cpu = ConstCounter::new(used.tv_sec as f64 + used.tv_nsec as f64 / 1e9);
        let help = "User and system CPU time spent in seconds";
        cpu.encode(encoder.encode_descriptor("process_cpu_seconds", help, None, cpu.metric_type())?)?;
        let mut gauge = |name, help, value: f64| {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
        };
        let help = "Start time of the process since the Unix epoch in seconds";
        gauge("process_start_time_seconds", help, self.started)?;
        if let Some(bytes) = resident_bytes() {
            gauge("process_resident_memory_bytes", "Resident memory in bytes", bytes)?;
        }
        if let Some(files) = open_files() {
            gauge("process_open_fds", "Open file descriptors", files)?;
        }
        #[expect(clippy::cast_precision_loss, reason = "a number of files")]
        if let Some(most) = getrlimit(Resource::Nofile).current {
            gauge("process_max_fds", "Maximum number of open file descriptors", most as f64)?;
        }
        Ok(())
    }
}

/// From Linux' `/proc` (proc_pid_statm(5)): the second number, in pages.
fn resident_bytes() -> Option<f64> {
    let pages: u32 = fs::read_to_string("/proc/self/statm").ok()?.split(' ').nth(1)?.parse().ok()?;
    let page = u32::try_from(rustix::param::page_size()).ok()?;
    Some(f64::from(pages) * f64::from(page))
}

/// Not counting the file descriptor that this function opens.
fn open_files() -> Option<f64> {
    let files = fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1);
    Some(f64::from(u32::try_from(files).ok()?))
}

#[cfg(test)]
mod tests {
    #[test]
    fn process_metrics_are_exported() {
        let text = crate::observe::metrics::text(&crate::observe::metrics::registry());
        let value = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap_or_default();
            line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok()).unwrap_or_default()
        };
        assert!(value("process_cpu_seconds_total") > 0.0, "{text}");
        assert!(value("process_resident_memory_bytes") > 1e6, "{text}");
        assert!(
            value("process_open_fds") >= 3.0 && value("process_max_fds") >= value("process_open_fds"),
            "{text}"
        );
        assert!(value("process_start_time_seconds") > 1.7e9, "{text}");
    }
}
