//! The members compare the identity of each request with its sender, and fail on request.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use anyhow::{Result, ensure};
use harness::fake_member::{FakeMember, Manners, Request, Step, reply};
use serde_json::json;

use super::callers::Callers;

/// The kinds of requests, by which the member answers.
pub(super) const HONEST: &[&str] = &["get", "get", "get", "get", "list", "create", "watch", "inner"];
pub(super) const FAULTS: &[&str] = &["error", "close", "cut", "half-head", "unauthorized", "slow"];

/// Two members: one closes in order and one resets.
pub(super) struct Members {
    all: Vec<FakeMember>,
    judge: Arc<Judge>,
}

impl Members {
    pub(super) fn start(name: &str, callers: Callers, wrong: &mpsc::Sender<String>) -> Result<Self> {
        let judge = Arc::new(Judge { callers, arrived: AtomicU64::new(0), wrong: wrong.clone() });
        let mut all = Vec::new();
        for (name, resets) in [(format!("{name}-closes"), false), (format!("{name}-resets"), true)] {
            let (judging, token) = (Arc::clone(&judge), format!("Bearer token-of-the-member-{name}"));
            let manners = Manners { resets, forgets: true, ..Manners::default() };
            let fake = FakeMember::with(&name, manners, move |request| judging.answer(request, &token))?;
            fake.register(&json!({}))?;
            fake.wait_until_reachable()?;
            all.push(fake);
        }
        Ok(Self { all, judge })
    }

    pub(super) fn names(&self) -> Vec<&str> {
        self.all.iter().map(|fake| fake.name.as_str()).collect()
    }

    /// The number of requests that arrived.
    pub(super) fn arrived(&self) -> u64 {
        self.judge.arrived.load(Ordering::SeqCst)
    }
}

struct Judge {
    callers: Callers,
    arrived: AtomicU64,
    wrong: mpsc::Sender<String>,
}

impl Judge {
    fn answer(&self, request: &Request, token: &str) -> Vec<Step> {
        self.arrived.fetch_add(1, Ordering::SeqCst);
        // …/soak/<caller>/<number>/<kind>
        let target = request.target().split('?').next().unwrap_or_default();
        let mut words = target.rsplit('/');
        let (kind, number, caller) = (words.next(), words.next(), words.next());
        let (Some(kind), Some(number), Some(Ok(caller))) = (kind, number, caller.map(str::parse::<usize>))
        else {
            self.wrong(format!("nobody's: {}", request.head));
            return reply("404 Not Found", "", "");
        };
        if let Err(error) = self.is_honest(request, caller, token) {
            self.wrong(format!("{error:#}: {:.2000}", request.head));
        }
        answer(kind, &format!("{caller}/{number}/"))
    }

    fn wrong(&self, what: String) {
        // After a failed test the receiver is gone.
        let _ = self.wrong.send(what);
    }

    /// Checks that the request has the caller's whole identity and nothing else, and only the sidecar's
    /// credential.
    fn is_honest(&self, request: &Request, caller: usize, token: &str) -> Result<()> {
        let Some(who) = self.callers.get(caller) else { anyhow::bail!("there is no caller {caller}") };
        let mut lines: Vec<(String, &str)> = request
            .head
            .split("\r\n")
            .skip(1)
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| {
                (name.to_ascii_lowercase().replace('_', "-"), value.trim_matches([' ', '\t']))
            })
            .filter(|(name, _)| {
                ["impersonate", "x-remote", "authorization", "proxy-auth", "cookie"]
                    .iter()
                    .any(|p| name.starts_with(p))
            })
            .collect();
        let credentials: Vec<_> = lines.extract_if(.., |(name, _)| name == "authorization").collect();
        ensure!(
            matches!(credentials.as_slice(), [(_, value)] if *value == token),
            "the credentials {credentials:?}"
        );
        lines.sort_unstable();
        let as_expected = lines.iter().map(|(name, value)| (name.as_str(), *value));
        ensure!(
            as_expected.eq(who.seen.iter().map(|(name, value)| (name.as_str(), value.as_str()))),
            "it should be {:?}",
            who.seen
        );
        Ok(())
    }
}

fn answer(kind: &str, tag: &str) -> Vec<Step> {
    let chunk = |text: &str| Step::Send(format!("{:x}\r\n{text}\r\n", text.len()).into_bytes());
    let head = |rest: &str| Step::Send(format!("HTTP/1.1 200 OK\r\n{rest}").into_bytes());
    match kind {
        "list" => {
            let long = tag.to_owned() + &"i".repeat(20_000);
            vec![
                head("Transfer-Encoding: chunked\r\n\r\n"),
                chunk(&long),
                chunk("end"),
                Step::Send(b"0\r\n\r\n".into()),
            ]
        }
        "watch" => {
            let mut steps = vec![head("Transfer-Encoding: chunked\r\n\r\n"), chunk(tag)];
            for event in 0..3 {
                steps.extend([Step::Pause(MOMENT), chunk(&format!("event {event}"))]);
            }
            steps.push(Step::Send(b"0\r\n\r\n".into()));
            steps
        }
        "error" => reply("422 Unprocessable Entity", "", tag),
        "unauthorized" => reply("401 Unauthorized", "", tag),
        "close" => vec![Step::Close],
        "half-head" => vec![Step::Send(b"HTTP/1.1 200 OK\r\nContent-Le".into()), Step::Close],
        "cut" => vec![head("Content-Length: 1000\r\n\r\n"), Step::Send(tag.into()), Step::Close],
        "slow" => vec![
            head("Content-Length: 40\r\n\r\n"),
            Step::Send(tag.into()),
            Step::Pause(MOMENT),
            Step::Send(vec![b'.'; 40 - tag.len()]),
        ],
        _ => reply("200 OK", "Content-Type: application/json\r\n", &format!("{tag}{}", "o".repeat(500))),
    }
}

const MOMENT: Duration = Duration::from_millis(5);
