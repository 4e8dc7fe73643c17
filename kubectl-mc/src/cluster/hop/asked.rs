//! Describes a refused command for its hint: the user of `--as`, and the arguments of
//! `access explain` for it.

use std::ffi::OsStr;

use kubectl_mc_api::ClusterName;

use crate::argv::{COMPARE, KUBECTL_VERBS, Scanned, TAIL};
use crate::next_command::quoted;

/// A command, as shown in a hint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The user of `--as`.
    pub(super) user: Option<String>,
    groups: Vec<String>,
    /// Such as `exec web -n shop`.
    request: Option<String>,
    is_write: bool,
}

impl Asked {
    pub(crate) fn of(scanned: &Scanned) -> Self {
        let text = |word: &OsStr| word.to_string_lossy().into_owned();
        Self {
            user: scanned.value("as").map(text).filter(|user| !user.is_empty()),
            groups: scanned.values("as-group").map(text).collect(),
            request: request(scanned),
            is_write: scanned.verb().is_some_and(|verb| !READS.iter().any(|read| verb == *read)),
        }
    }

    /// `access explain --as=jane -C m1 exec web -n shop`
    pub(super) fn explain(&self, cluster: &str) -> String {
        let flag = |name: &str, value: &str| format!(" {}", quoted(format!("--{name}={value}").as_ref()));
        let user = self.user.as_deref().map(|user| flag("as", user)).unwrap_or_default();
        let groups: String = self.groups.iter().map(|group| flag("as-group", group)).collect();
        let request = self.request.as_deref().unwrap_or("get pods");
        format!("access explain{user}{groups} -C {cluster} {request}")
    }

    /// The command that grants a right to the user of `--as`, or else to the user in the refusal.
    pub(super) fn grant(&self, refusal: &str, cluster: Option<&ClusterName>) -> String {
        let user = self.user.as_deref().or_else(|| refused_user(refusal)).unwrap_or("USER");
        let subject = match user.strip_prefix("system:serviceaccount:") {
            Some(account) => format!("--serviceaccount={account}"),
            None => format!("--user={user}"),
        };
        let role = if self.is_write { "edit" } else { "view" };
        let cluster = cluster.map_or("NAME", ClusterName::as_str);
        format!("access grant {role} {} -C {cluster}", quoted(subject.as_ref()))
    }

    /// The subject of a sentence.
    pub(crate) fn who(&self) -> &str {
        self.user.as_deref().unwrap_or("you")
    }
}

/// The user in Kubernetes' message of a refusal: `User "jane" cannot get resource …`.
pub(super) fn refused_user(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("User \"")?;
    rest.split_once("\" cannot ").map(|(user, _)| user)
}

/// The request in the words of `access explain`; `None` if it cannot be explained.
fn request(scanned: &Scanned) -> Option<String> {
    let verb = scanned.verb()?.to_str()?;
    let mut words: Vec<String> = match verb {
        COMPARE => Vec::new(),
        TAIL => vec!["list".to_owned(), "pods".to_owned()],
        "events" => vec!["list".to_owned(), "events".to_owned()],
        verb if KUBECTL_VERBS.contains(&verb) && !UNEXPLAINED.contains(&verb) => vec![verb.to_owned()],
        _ => return None,
    };
    if verb != TAIL && verb != "events" {
        let count = match verb {
            "exec" | "attach" | "logs" | "port-forward" | "run" | "debug" | "cordon" | "uncordon"
            | "drain" => 1,
            "rollout" | "set" | "certificate" | COMPARE => 3,
            _ => 2,
        };
        let given =
            scanned.words_after_verb().take(count).map(|(_, word)| word.to_string_lossy().into_owned());
        let mut given: Vec<String> = given.collect();
        // One object of a list is enough, and `pod/web` names its type itself.
        if let Some(at) = given.iter().position(|word| word.contains('/') && verb != "cp") {
            given.truncate(at + 1);
        }
        let is_short = given.len() < usize::from(count == 3 && verb != COMPARE) + 1;
        words.extend(given.iter().map(|word| {
            let first = word.split(',').next().unwrap_or_default();
            quoted(first.as_ref())
        }));
        // `apply -f FILE`: the objects are in the file.
        if is_short {
            words.push("TYPE/NAME".to_owned());
        }
    }
    let namespace = scanned.value("namespace").map(|namespace| format!(" -n {}", quoted(namespace)));
    let namespace = match scanned.has("all-namespaces") {
        true => " -A".to_owned(),
        false => namespace.unwrap_or_default(),
    };
    Some(format!("{}{namespace}", words.join(" ")))
}

/// Verbs for which `access explain` has no right, or which need no object.
const UNEXPLAINED: &[&str] = &[
    "alpha",
    "api-resources",
    "api-versions",
    "auth",
    "cluster-info",
    "completion",
    "config",
    "explain",
    "help",
    "kuberc",
    "kustomize",
    "options",
    "plugin",
    "proxy",
    "version",
];

/// Verbs that only read, for which the role `view` is enough.
const READS: &[&str] = &[
    "get",
    "describe",
    "logs",
    "events",
    "top",
    "wait",
    "api-resources",
    "api-versions",
    "auth",
    "cluster-info",
    "explain",
    "version",
    COMPARE,
    TAIL,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::argv::scan;

    fn asked(line: &str) -> Asked {
        Asked::of(&scan(line.split(' ').map(Into::into).collect()))
    }

    #[test]
    fn hint_repeats_the_command() {
        for (line, expected) in [
            ("get pods -n shop", "access explain -C m1 get pods -n shop"),
            ("-n shop exec -it web -- sh", "access explain -C m1 exec web -n shop"),
            ("logs deploy/web -A", "access explain -C m1 logs deploy/web -A"),
            ("get pods,svc web", "access explain -C m1 get pods web"),
            ("rollout restart deploy web", "access explain -C m1 rollout restart deploy web"),
            ("set image deploy/web a=b", "access explain -C m1 set image deploy/web"),
            ("apply -f x.yaml", "access explain -C m1 apply TYPE/NAME"),
            ("rollout restart -f x.yaml", "access explain -C m1 rollout restart TYPE/NAME"),
            ("cp shop/web:/a .", "access explain -C m1 cp shop/web:/a ."),
            ("events", "access explain -C m1 list events"),
            ("compare get pod/web", "access explain -C m1 get pod/web"),
            ("api-resources", "access explain -C m1 get pods"),
            ("frobnicate x", "access explain -C m1 get pods"),
            (
                "delete pod web --as=jane --as-group=dev --as-group=ops",
                "access explain --as=jane --as-group=dev --as-group=ops -C m1 delete pod web",
            ),
        ] {
            assert_eq!(asked(line).explain("m1"), expected, "{line}");
        }
    }

    #[test]
    fn grant_names_the_refused_user() {
        let message = r#"clusters "m1" is forbidden: User "theo" cannot get resource "clusters/proxy""#;
        let m1 = "m1".parse().ok();
        let grant = |line: &str, message: &str| asked(line).grant(message, m1.as_ref());
        assert_eq!(grant("get pods", message), "access grant view --user=theo -C m1");
        assert_eq!(grant("delete pod x", message), "access grant edit --user=theo -C m1");
        assert_eq!(grant("get pods --as=jane", message), "access grant view --user=jane -C m1");
        let account = message.replace("theo", "system:serviceaccount:ci:robot");
        assert_eq!(grant("get pods", &account), "access grant view --serviceaccount=ci:robot -C m1");
        assert_eq!(grant("get pods", "no"), "access grant view --user=USER -C m1");
    }
}
