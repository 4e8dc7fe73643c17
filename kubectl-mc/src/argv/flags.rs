//! Lists which flags take a value in the next word. Without these lists, `--cluster` in `-l --cluster` would
//! look like a flag of the plugin.
//!
//! The lists come from kubectl 1.27 to 1.36: a flag is included if `kubectl VERB --FLAG` fails with "flag
//! needs an argument".

use std::ffi::OsStr;

use crate::suggestion;

/// Whether a flag takes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlagKind {
    Value,
    Switch,
}

/// A flag of the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BuiltinFlag {
    pub(super) shape: FlagKind,
    pub(super) place: Place,
}

/// Where on the command line the plugin reads a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// Only before the verb: verbs of kubectl have a flag of the same name.
    BeforeVerb,
    /// Also after verbs of kubectl, but not after the verb of another plugin, which may have such a flag.
    KnownVerbs,
    /// After every verb.
    EveryVerb,
}

impl BuiltinFlag {
    /// Whether the plugin reads the flag after `verb`, or before any verb.
    pub(super) fn is_ours(self, verb: Option<&OsStr>) -> bool {
        match verb {
            None => true,
            Some(verb) if is_known(verb) => self.place >= Place::KnownVerbs,
            Some(_) => self.place == Place::EveryVerb,
        }
    }
}

/// The plugin's flag of this long name. The same flags are in [`crate::cli::Flags`]; a test compares them.
pub(super) fn own(name: &str) -> Option<BuiltinFlag> {
    let (_, own) = BUILTIN_FLAGS.iter().find(|(own, _)| *own == name && !KUBECTL_TOO.contains(&name))?;
    Some(*own)
}

/// The most similar flag that chooses clusters, for a name that neither the plugin nor kubectl has.
pub(super) fn meant_choice(name: &str) -> Option<&'static str> {
    let is_known = KUBECTL_LONG.binary_search(&name).is_ok() || KUBECTL_SWITCHES.contains(&name);
    let choices = ["cluster", "cluster-selector", "all-clusters", "contexts", "context-selector"];
    match name {
        _ if is_known => None,
        "all" => Some("all-clusters"),
        name => suggestion::nearest(name, choices),
    }
}

/// Switches of kubectl that resemble a flag that chooses clusters.
const KUBECTL_SWITCHES: &[&str] = &["all-containers", "all-pods"];

/// Flags that kubectl has too and receives. Only the plugin's own verbs read them, except for
/// [`DRY_RUN_CLUSTERS`].
const KUBECTL_TOO: &[&str] = &["dry-run", "v"];

/// The plugin reads this word anywhere, because kubectl has no such value.
pub(super) const DRY_RUN_CLUSTERS: &[u8] = b"--dry-run=clusters";

/// Whether kubectl's flag `--name` takes the next word as its value.
pub(super) fn long_takes_value(verb: Option<&OsStr>, name: &str) -> bool {
    let verb = verb.and_then(OsStr::to_str).unwrap_or_default();
    match name {
        // A switch for one verb can be a flag with a value for another.
        "command" => verb == "kuberc",
        "containers" => verb != "top",
        "prefix" => verb != "logs",
        "raw" => verb != "config",
        "exclude-pod" | "exclude-container" | "include-line" | "exclude-line" => verb == TAIL,
        _ => KUBECTL_LONG.binary_search(&name).is_ok(),
    }
}

/// Whether kubectl's flag `-letter` takes the rest of the word, or the next word, as its value.
pub(super) fn short_takes_value(verb: Option<&OsStr>, letter: u8) -> bool {
    let verb = verb.and_then(OsStr::to_str).unwrap_or_default();
    match letter {
        b'f' => !matches!(verb, "logs" | TAIL),
        b'i' | b'E' => verb == TAIL,
        b'p' => matches!(verb, "patch" | "proxy"),
        b'w' => verb == "proxy",
        _ => b"LPceklnorsuv".contains(&letter),
    }
}

/// The long name of a short flag, if the plugin reads that flag.
pub(super) fn long_of(verb: Option<&OsStr>, letter: u8) -> &'static str {
    let verb = verb.and_then(OsStr::to_str).unwrap_or_default();
    match letter {
        b'h' => "help",
        b's' if verb == TAIL => "since",
        b'i' if verb == TAIL => "include-line",
        b'e' if verb == TAIL => "exclude-line",
        b'E' if verb == TAIL => "exclude-container",
        b't' if verb == TAIL => "timestamps",
        b's' => "server",
        b'n' => "namespace",
        b'o' => "output",
        b'l' => "selector",
        b'k' => "kustomize",
        b'A' => "all-namespaces",
        b'f' if matches!(verb, "logs" | TAIL) => "follow",
        b'f' => "filename",
        b'w' if verb == "proxy" => "www",
        b'w' => "watch",
        b'c' => "container",
        b'i' => "stdin",
        b't' => "tty",
        b'v' => "v",
        b'L' => "label-columns",
        b'p' if verb == "logs" => "previous",
        b'R' => "recursive",
        b'q' => "quiet",
        _ => "",
    }
}

/// Whether kubectl has this verb itself.
pub(crate) fn is_builtin(verb: &str) -> bool {
    KUBECTL_VERBS.contains(&verb)
}

/// Whether the flags of the verb are known: a verb of kubectl, or one that is parsed like kubectl's.
fn is_known(verb: &OsStr) -> bool {
    verb.to_str().is_some_and(|verb| is_builtin(verb) || matches!(verb, COMPARE | TAIL))
}

/// The plugin's verb that takes the arguments of `kubectl get`.
pub(crate) const COMPARE: &str = "compare";

/// The plugin's verb that shows the logs of many pods.
pub(crate) const TAIL: &str = "tail";

const fn flag(shape: FlagKind, place: Place) -> BuiltinFlag {
    BuiltinFlag { shape, place }
}

const BUILTIN_FLAGS: &[(&str, BuiltinFlag)] = &[
    ("cluster", flag(FlagKind::Value, Place::EveryVerb)),
    ("cluster-selector", flag(FlagKind::Value, Place::EveryVerb)),
    ("all-clusters", flag(FlagKind::Switch, Place::EveryVerb)),
    ("contexts", flag(FlagKind::Switch, Place::EveryVerb)),
    ("context-selector", flag(FlagKind::Value, Place::EveryVerb)),
    ("kubeconfig-dir", flag(FlagKind::Value, Place::EveryVerb)),
    // kubectl never receives its own flags of these names, because they would override the overlay.
    ("context", flag(FlagKind::Value, Place::EveryVerb)),
    ("kubeconfig", flag(FlagKind::Value, Place::EveryVerb)),
    ("exclude", flag(FlagKind::Value, Place::KnownVerbs)),
    ("where", flag(FlagKind::Value, Place::KnownVerbs)),
    ("retry-failed", flag(FlagKind::Switch, Place::KnownVerbs)),
    ("cluster-concurrency", flag(FlagKind::Value, Place::KnownVerbs)),
    ("cluster-timeout", flag(FlagKind::Value, Place::KnownVerbs)),
    ("batch", flag(FlagKind::Value, Place::KnownVerbs)),
    ("pause-on-failure", flag(FlagKind::Switch, Place::KnownVerbs)),
    ("batch-wait", flag(FlagKind::Switch, Place::KnownVerbs)),
    ("no-batch-wait", flag(FlagKind::Switch, Place::KnownVerbs)),
    ("batch-timeout", flag(FlagKind::Value, Place::KnownVerbs)),
    ("batch-check", flag(FlagKind::Value, Place::KnownVerbs)),
    ("batch-pause", flag(FlagKind::Value, Place::KnownVerbs)),
    ("yes", flag(FlagKind::Switch, Place::KnownVerbs)),
    ("keep", flag(FlagKind::Switch, Place::KnownVerbs)),
    ("color", flag(FlagKind::Value, Place::KnownVerbs)),
    ("route", flag(FlagKind::Value, Place::KnownVerbs)),
    ("hub", flag(FlagKind::Value, Place::KnownVerbs)),
    ("dry-run", flag(FlagKind::Value, Place::BeforeVerb)),
    ("v", flag(FlagKind::Value, Place::BeforeVerb)),
    ("help", flag(FlagKind::Switch, Place::BeforeVerb)),
    ("version", flag(FlagKind::Switch, Place::BeforeVerb)),
];

/// The verbs of kubectl itself.
#[rustfmt::skip]
pub(crate) const KUBECTL_VERBS: &[&str] = &[
    "alpha", "annotate", "api-resources", "api-versions", "apply", "attach", "auth", "autoscale",
    "certificate", "cluster-info", "completion", "config", "cordon", "cp", "create", "debug", "delete",
    "describe", "diff", "drain", "edit", "events", "exec", "explain", "expose", "get", "help", "kuberc",
    "kustomize", "label", "logs", "options", "patch", "plugin", "port-forward", "proxy", "replace",
    "rollout", "run", "scale", "set", "taint", "top", "uncordon", "version", "wait",
];

/// Sorted.
#[rustfmt::skip]
const KUBECTL_LONG: &[&str] = &[
    "accept-hosts", "accept-paths", "address", "aggregation-rule", "allowlist-entry", "annotation",
    "annotations", "api-group", "api-prefix", "api-version", "appendarg", "applyset", "as", "as-group",
    "as-uid", "as-user-extra", "audience", "auth-provider", "auth-provider-arg", "bound-object-kind",
    "bound-object-name", "bound-object-uid", "cache-dir", "categories", "cert", "certificate-authority",
    "chunk-size", "class", "client-certificate", "client-key", "cluster-ip", "clusterip", "clusterrole",
    "concurrency", "container", "copy-to", "cpu", "cpu-percent", "current-replicas", "custom",
    "default-backend", "description", "detach-keys", "docker-email", "docker-password", "docker-server",
    "docker-username", "duration", "env", "exec-api-version", "exec-arg", "exec-command", "exec-env",
    "exec-interactive-mode", "external-ip", "external-name", "field-manager", "field-selector",
    "filename", "for", "from", "from-env-file", "from-file", "from-literal", "grace-period", "group",
    "hard", "helm-api-versions", "helm-command", "helm-kube-version", "image", "image-pull-policy",
    "keepalive", "key", "keys", "kuberc", "kustomize", "label-columns", "labels", "limit-bytes",
    "limits", "load-balancer-ip", "load-restrictor", "log-flush-frequency", "max", "max-log-requests",
    "max-unavailable", "memory", "min", "min-available", "mount", "name", "namespace", "namespaces",
    "network-name", "node-port", "non-resource-url", "option", "output", "output-directory",
    "override-type", "overrides", "password", "patch", "patch-file", "pod-running-timeout",
    "pod-selector", "policy", "port", "preemption-policy", "prependarg", "profile", "profile-output",
    "protocol", "proxy-url", "prune-allowlist", "reject-methods", "reject-paths", "replicas",
    "request-timeout", "requests", "resource", "resource-name", "resource-version", "restart", "retries",
    "revision", "role", "rule", "schedule", "scopes", "section", "selector", "server", "serviceaccount",
    "session-affinity", "set-image", "since", "since-time", "skip-wait-for-delete-timeout", "sort-by",
    "subresource", "tail", "target", "target-port", "tcp", "template", "timeout", "tls-server-name",
    "to-revision", "token", "type", "types", "unix-socket", "user", "username", "v", "value", "verb",
    "verbs", "vmodule", "www", "www-prefix",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flag_list_is_sorted_for_binary_search() {
        assert!(KUBECTL_LONG.is_sorted());
    }

    /// kubectl never receives the flags that it has too, because the overlay replaces them.
    #[test]
    fn flags_taken_after_a_verb_are_unknown_to_kubectl() {
        for (name, flag) in BUILTIN_FLAGS.iter().filter(|(_, flag)| flag.place == Place::KnownVerbs) {
            assert!(!KUBECTL_LONG.contains(name), "{name} {flag:?}");
        }
    }

    #[test]
    fn builtin_flags_match_the_parser() {
        let command = <crate::cli::Cli as clap::CommandFactory>::command();
        let mut parsed: Vec<_> = command
            .get_arguments()
            .filter_map(|arg| {
                let shape = if arg.get_action().takes_values() { FlagKind::Value } else { FlagKind::Switch };
                Some((arg.get_long()?.to_owned(), shape))
            })
            // clap adds these two flags when it builds the command.
            .chain(
                [("help", FlagKind::Switch), ("version", FlagKind::Switch)].map(|(n, s)| (n.to_owned(), s)),
            )
            .collect();
        let mut scanned: Vec<_> =
            BUILTIN_FLAGS.iter().map(|(name, own)| ((*name).to_owned(), own.shape)).collect();
        parsed.sort_by(|a, b| a.0.cmp(&b.0));
        scanned.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(parsed, scanned);
    }
}
