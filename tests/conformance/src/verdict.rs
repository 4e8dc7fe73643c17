//! The conclusion from a run through the proxy, a run at the member of what failed there, and the
//! known exceptions.

use std::fmt::{self, Display, Formatter};

use crate::exceptions::{Exceptions, Program};
use crate::suite::{Outcome, Report};

/// Each spec is in one of these lists. The first two make the run fail.
#[derive(Default)]
pub(crate) struct Verdict<'a> {
    /// Passes at the member and fails through the proxy, without an entry in `exceptions.txt`.
    broken: Vec<(&'a str, &'a str)>,
    /// Has an entry in `exceptions.txt`, and passes through the proxy.
    stale: Vec<&'a str>,
    /// Fails through the proxy as its entry says, with the reason.
    expected: Vec<(&'a str, &'a str)>,
    /// Fails at the member too.
    not_ours: Vec<&'a str>,
    skipped_itself: Vec<(&'a str, &'a str)>,
    passed: usize,
}

impl<'a> Verdict<'a> {
    pub(crate) fn new(
        proxied: &'a Report,
        direct: &Report,
        exceptions: &'a Exceptions,
        program: Program,
    ) -> Self {
        let mut verdict = Self::default();
        for (name, outcome) in &proxied.specs {
            match (outcome, exceptions.reason(name, program)) {
                (Outcome::Passed, None) => verdict.passed += 1,
                (Outcome::Passed, Some(_)) => verdict.stale.push(name),
                (Outcome::SkippedItself(why), _) => verdict.skipped_itself.push((name, why)),
                (Outcome::Failed(said), reason) => match (direct.specs.get(name), reason) {
                    (Some(Outcome::Passed), Some(reason)) => verdict.expected.push((name, reason)),
                    (Some(Outcome::Failed(_)), None) => verdict.not_ours.push(name),
                    // An exception counts only while the spec passes at the member.
                    (Some(Outcome::Failed(_)), Some(_)) => verdict.stale.push(name),
                    _ => verdict.broken.push((name, said)),
                },
            }
        }
        verdict
    }

    pub(crate) fn is_good(&self) -> bool {
        self.broken.is_empty() && self.stale.is_empty() && self.passed > 0
    }
}

impl Display for Verdict<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (name, why) in &self.skipped_itself {
            writeln!(f, "skips itself: {name}\n    {}", first_line(why))?;
        }
        for name in &self.not_ours {
            writeln!(f, "fails at the member too: {name}")?;
        }
        for (name, reason) in &self.expected {
            writeln!(f, "exception: {name}\n    {reason}")?;
        }
        for name in &self.stale {
            writeln!(f, "error: no exception any more: {name}")?;
        }
        for (name, said) in &self.broken {
            writeln!(
                f,
                "error: passes at the member and not through the proxy: {name}\n    {}",
                first_line(said)
            )?;
        }
        writeln!(
            f,
            "conformance: {} passed through the proxy, {} failed only there, {} known exceptions, {} failed at the member too, {} skipped themselves",
            self.passed,
            self.broken.len(),
            self.expected.len(),
            self.not_ours.len(),
            self.skipped_itself.len()
        )
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(specs: &[(&str, bool)]) -> Report {
        let outcome =
            |passed| if passed { Outcome::Passed } else { Outcome::Failed("failed: so".to_owned()) };
        Report { specs: specs.iter().map(|&(name, passed)| (name.to_owned(), outcome(passed))).collect() }
    }

    fn verdict(proxied: &[(&str, bool)], direct: &[(&str, bool)]) -> (bool, String) {
        let exceptions = Exceptions::parse("fails: known\n  so it is\n").unwrap();
        let (proxied, direct) = (report(proxied), report(direct));
        let verdict = Verdict::new(&proxied, &direct, &exceptions, Program::Kubectl);
        (verdict.is_good(), verdict.to_string())
    }

    #[test]
    fn spec_that_passes_at_the_member_must_pass_through_the_proxy() {
        let (good, said) = verdict(&[("a", true), ("b", false)], &[("b", true)]);
        assert!(!good && said.contains("not through the proxy: b"), "{said}");
        // It was not even tried.
        assert!(!verdict(&[("a", true), ("b", false)], &[]).0);
    }

    #[test]
    fn failure_at_the_member_is_not_counted() {
        let (good, said) = verdict(&[("a", true), ("b", false)], &[("b", false)]);
        assert!(good && said.contains("fails at the member too: b"), "{said}");
    }

    #[test]
    fn known_exception_must_still_fail() {
        let (good, said) = verdict(&[("a", true), ("known", false)], &[("known", true)]);
        assert!(good && said.contains("so it is"), "{said}");
        assert!(!verdict(&[("a", true), ("known", true)], &[]).0, "it passes");
        assert!(!verdict(&[("a", true), ("known", false)], &[("known", false)]).0, "it fails everywhere");
    }

    #[test]
    fn verdict_without_passed_specs_fails() {
        assert!(!verdict(&[("a", false)], &[("a", false)]).0);
    }
}
