//! Plans a `kubectl logs` for direct requests: for pods by name or by label.

use super::options::{LogOptions, Since};
use crate::argv::Scanned;
use crate::multi::direct::kubectl_flags::{Grammar, Words};

/// A `kubectl logs`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LogsPlan {
    pub(super) pods: Pods,
    pub(super) namespace: Option<String>,
    pub(super) containers: Containers,
    pub(super) options: LogOptions,
    pub(super) timestamps: bool,
    pub(super) prefix: bool,
    /// Maximum number of logs of one cluster to follow.
    pub(super) most: usize,
}

/// The selected pods.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Pods {
    Named(String),
    Selected(String),
}

/// The selected containers of a pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Containers {
    Default,
    All,
    Named(String),
}

impl LogsPlan {
    /// Whether the plan follows the logs.
    pub(crate) fn follows(&self) -> bool {
        self.options.follow
    }

    /// The plan for these arguments, if they are supported.
    pub(crate) fn of(scanned: &Scanned) -> Option<Self> {
        let words = Words::read(scanned, "logs", &GRAMMAR)?;
        let selector = words.text("selector");
        let (pods, inline) = match (words.arguments.as_slice(), selector) {
            ([], Some(selector)) => (Pods::Selected(selector), None),
            ([pod], None) => (Pods::Named(pod_name(pod)?), None),
            ([pod, container], None) => (Pods::Named(pod_name(pod)?), Some(container.clone())),
            _ => return None,
        };
        let containers = match (words.is_on("all-containers"), inline, words.text("container")) {
            (false, None, None) => Containers::Default,
            (true, None, None) => Containers::All,
            (false, Some(name), None) | (false, None, Some(name)) => Containers::Named(name),
            // kubectl refuses these with its own message.
            _ => return None,
        };
        let since = Since::parse(words.text("since"), words.text("since-time"))?;
        let tail = match words.value("tail").map(str::parse::<i64>).transpose().ok()? {
            // kubectl prints the last ten lines of pods that a label selects.
            None => matches!(pods, Pods::Selected(_)).then_some(10),
            Some(-1) => None,
            Some(lines) => Some(u64::try_from(lines).ok()?),
        };
        Some(Self {
            pods,
            namespace: words.text("namespace"),
            containers,
            options: LogOptions {
                follow: words.is_on("follow"),
                previous: words.is_on("previous"),
                since,
                tail,
            },
            timestamps: words.is_on("timestamps"),
            prefix: words.is_on("prefix"),
            most: words.value("max-log-requests").map_or(Ok(5), str::parse).ok()?,
        })
    }
}

/// Parses `web` or `pod/web`. For other types, kubectl selects the pods.
fn pod_name(word: &str) -> Option<String> {
    let name = match word.split_once('/') {
        None => word,
        Some(("po" | "pod" | "pods", name)) => name,
        Some(_) => return None,
    };
    (!name.is_empty() && !name.contains(['/', ','])).then(|| name.to_owned())
}

const GRAMMAR: Grammar = Grammar {
    values: &["container", "selector", "since", "since-time", "tail", "max-log-requests"],
    switches: &["follow", "previous", "timestamps", "prefix", "all-containers"],
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::argv;

    fn plan(words: &str) -> Option<LogsPlan> {
        LogsPlan::of(&argv::scan(words.split(' ').map(Into::into).collect()))
    }

    #[test]
    fn logs_of_pods_are_planned() {
        let named = plan("logs -f pod/web -c main --since=1h30m --tail=5 --timestamps").unwrap();
        assert_eq!(named.pods, Pods::Named("web".to_owned()));
        assert_eq!(named.containers, Containers::Named("main".to_owned()));
        let LogOptions { since, tail, follow, .. } = named.options;
        assert_eq!((since, tail, follow), (Since::Seconds(5400), Some(5), true));
        let selected = plan("logs -lapp=web --all-containers --prefix").unwrap();
        assert_eq!((selected.pods, selected.options.tail), (Pods::Selected("app=web".to_owned()), Some(10)));
        assert_eq!(plan("logs web main").unwrap().containers, Containers::Named("main".to_owned()));
        assert_eq!(plan("logs web --tail=-1").unwrap().options.tail, None);
    }

    #[test]
    fn other_requests_are_left_to_kubectl() {
        for words in [
            "logs",
            "logs deploy/web",
            "logs web -l app=x",
            "logs web main -c main",
            "logs web --all-containers -c main",
            "logs web --since=1h --since-time=2026-01-01T00:00:00Z",
            "logs web --since=soon",
            "logs web --since=0s",
            "logs web --tail=-2",
            "logs web --limit-bytes=5",
            "logs web --ignore-errors",
            "logs web --all-pods",
            "get pods",
        ] {
            assert_eq!(plan(words), None, "{words}");
        }
    }
}
