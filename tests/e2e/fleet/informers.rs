//! Informers of client-go on all members.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, ensure};
use harness::fake_member::{FakeMember, Gate, Request, Step, reply};
use harness::tool::Tool;
use harness::wait::SOON;
use testbed::programs;

use super::View;

const JSON: &str = "Content-Type: application/json\r\n";
const EXPIRED: &str =
    r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","code":410,"reason":"Expired"}}"#;

/// A member whose first watch expires on demand. It answers nothing while it is lost.
struct Member {
    namespace: String,
    is_lost: AtomicBool,
    has_watched: AtomicBool,
    expires: Gate,
}

impl Member {
    fn answer(&self, request: &Request) -> Vec<Step> {
        if !request.target().contains("/configmaps") || self.is_lost.load(Ordering::SeqCst) {
            return reply("503 Service Unavailable", JSON, "{}");
        }
        if !request.target().contains("watch=") {
            let namespace = &self.namespace;
            let list = format!(
                r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"7"}},"items":[{{"metadata":{{"name":"f","namespace":"{namespace}","resourceVersion":"5"}}}}]}}"#
            );
            return reply("200 OK", JSON, &list);
        }
        let head = format!("HTTP/1.1 200 OK\r\n{JSON}Transfer-Encoding: chunked\r\n\r\n");
        if self.has_watched.swap(true, Ordering::SeqCst) {
            return vec![Step::Send(head.into()), Step::Hang];
        }
        let event = format!("{:x}\r\n{EXPIRED}\n\r\n", EXPIRED.len() + 1);
        vec![Step::Send(head.into()), Step::Wait(self.expires.clone()), Step::Send(event.into()), Step::Close]
    }
}

/// While the member is lost, the informer must list again, and an object of m1 is deleted.
fn deletes_nothing_of_a_lost_member(name: &str, watch_list: &str) -> Result<()> {
    let namespace = format!("e2e-{name}");
    let member = Arc::new(Member {
        namespace: namespace.clone(),
        is_lost: AtomicBool::new(false),
        has_watched: AtomicBool::new(false),
        expires: Gate::closed(),
    });
    let script = member.clone();
    let fake = FakeMember::start(&format!("e2e-{name}-member"), move |request| script.answer(request))?;
    let (view, caller) = View::with_fake(name, &fake)?;
    let informer = Tool::client(programs::informer(), &caller)?;
    let informer = informer.env("KUBE_FEATURE_WatchListClient", watch_list);
    let mut informer = informer.start(&[&namespace, "strict"])?;
    let of = |member: &str, object: &str| format!("{namespace}_{member}/{object}");
    informer.wait_for("SYNCED", SOON)?;
    let known = informer.stdout();
    ensure!(known.contains(&format!("ADDED {}", of("m1", "a"))), "{known}");
    ensure!(known.contains(&format!("ADDED {}", of(&fake.name, "f"))), "{known}");
    member.is_lost.store(true, Ordering::SeqCst);
    member.expires.open();
    // The list is refused, because it would not be complete.
    let refused = |stdout: &[u8], _: &[u8]| {
        let text = String::from_utf8_lossy(stdout);
        text.lines().any(|line| line.starts_with("ERROR") && line.contains(&fake.name))
    };
    informer.wait_until("a refused list", SOON, refused)?;
    view.scenes[0].api.delete(&format!("/api/v1/namespaces/{namespace}/configmaps/a"))?;
    member.is_lost.store(false, Ordering::SeqCst);
    informer.wait_for(&format!("DELETED {}", of("m1", "a")), SOON)?;
    // All changes of the list come before those of the watch after it.
    view.config_maps("a")?;
    let added = format!("ADDED {}", of("m1", "a"));
    informer.wait_until("the object of m1 again", SOON, |stdout, _| {
        String::from_utf8_lossy(stdout).lines().filter(|line| **line == *added).count() == 2
    })?;
    let told = informer.stdout();
    ensure!(!told.contains(&format!("DELETED {}", of(&fake.name, "f"))), "{told}");
    Ok(())
}

#[test]
fn informer_by_lists_deletes_nothing_of_a_lost_member() -> Result<()> {
    deletes_nothing_of_a_lost_member("fleet-informer", "false")
}

#[test]
fn informer_by_watch_lists_deletes_nothing_of_a_lost_member() -> Result<()> {
    deletes_nothing_of_a_lost_member("fleet-watch-list", "true")
}
