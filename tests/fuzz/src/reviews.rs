//! Fuzzes the host's answers to reviews. The first line has the status, `access` or `token`, and
//! for a token the requested audience. The rest is the body. A caller is admitted only if the
//! answer says so.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use arc_swap::ArcSwap;
use http::{Request, Response};
use kube::client::Body;
use serde_json::Value;
use sidecar::host::client::refuse_redirect;
use sidecar::identity::Identity;
use sidecar::identity::authentication::token_review::TokenReviews;
use sidecar::identity::authorization::{Asker, Attributes, Authorizer};
use sidecar::limits::in_flight::Caller;
use tokio::runtime::{Builder, Runtime};

use crate::lines;

pub fn run(input: &[u8]) {
    let (first, body) = lines::first(input);
    let Ok(first) = std::str::from_utf8(first) else { return };
    let mut words = first.split_ascii_whitespace();
    let Some(Ok(status @ 200..=599)) = words.next().map(str::parse::<u16>) else { return };
    let what = words.next();
    let audience = words.next();
    let said = serde_json::from_slice::<Value>(body).ok().filter(|_| (200..300).contains(&status));
    let said = said.as_ref().map(|review| &review["status"]);
    match what {
        Some("access") if asks(status, body) => {
            let said = said.expect("nothing was said");
            assert!(said["allowed"] == true && said["denied"] != true, "{said}");
        }
        Some("token") => {
            if let Some(identity) = authenticates(status, body, audience) {
                is_as_said(&identity, said.expect("nothing was said"), audience);
            }
        }
        _ => {}
    }
}

fn asks(status: u16, body: &[u8]) -> bool {
    let host = &*HOST;
    host.says(status, body);
    let identity = Arc::new(Identity { user: "jane".to_owned(), ..Identity::default() });
    // A different user each time, because decisions are cached.
    let attributes = Attributes::impersonate("", "users", "", "", &host.next());
    host.runtime.block_on(host.authorizer.check(&identity, &attributes, Asker::Renewal)).is_ok()
}

fn authenticates(status: u16, body: &[u8], audience: Option<&str>) -> Option<Arc<Identity>> {
    let host = &*HOST;
    host.says(status, body);
    let reviews = match audience {
        None => &host.tokens,
        Some(AUDIENCE) => &host.tokens_for_us,
        Some(_) => return None,
    };
    host.runtime.block_on(reviews.authenticate(&host.next(), Caller::of_hash(0))).ok()
}

fn is_as_said(identity: &Identity, said: &Value, audience: Option<&str>) {
    let user = &said["user"];
    assert_eq!(said["authenticated"], true, "{said}");
    assert!(user["username"] == identity.user.as_str() && !identity.user.is_empty(), "{said}");
    assert_eq!(user["uid"].as_str().filter(|uid| !uid.is_empty()), identity.uid.as_deref());
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
    };
    let mut groups = texts(&user["groups"]);
    let is_told = groups
        .iter()
        .any(|group| ["system:authenticated", "system:unauthenticated"].contains(&group.as_str()));
    if !is_told && identity.user != "system:anonymous" {
        groups.push("system:authenticated".to_owned());
    }
    assert_eq!(groups, identity.groups);
    for (key, values) in &identity.extra {
        let spelt = user["extra"].as_object().into_iter().flatten();
        assert!(spelt.filter(|(k, _)| k.to_lowercase() == *key).any(|(_, v)| texts(v) == *values), "{said}");
    }
    if let Some(audience) = audience {
        assert!(texts(&said["audiences"]).iter().any(|meant| meant == audience), "{said}");
    }
}

/// A host that gives every request the configured answer.
struct Host {
    answer: Arc<ArcSwap<(u16, Vec<u8>)>>,
    asked: AtomicUsize,
    runtime: Runtime,
    authorizer: Authorizer,
    tokens: TokenReviews,
    tokens_for_us: TokenReviews,
}

impl Host {
    fn start() -> Self {
        // The clock jumps to the next timer.
        let runtime =
            Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        let answer = Arc::new(ArcSwap::from_pointee((500, Vec::new())));
        let answering = answer.clone();
        let service = tower::service_fn(move |_: Request<Body>| {
            let answer = answering.load_full();
            let response = Response::builder().status(answer.0).body(Body::from(answer.1.clone()));
            async move { refuse_redirect(response?).await }
        });
        // The client's buffer spawns a task.
        let entered = runtime.enter();
        let client = kube::Client::new(service, "default");
        drop(entered);
        let tokens =
            |audiences| TokenReviews::new(client.clone(), audiences).expect("random bytes for a key");
        let (tokens, tokens_for_us) = (tokens(Vec::new()), tokens(vec![AUDIENCE.to_owned()]));
        Self {
            answer,
            asked: AtomicUsize::new(0),
            runtime,
            authorizer: Authorizer::new(client),
            tokens,
            tokens_for_us,
        }
    }

    fn says(&self, status: u16, body: &[u8]) {
        self.answer.store(Arc::new((status, body.to_vec())));
    }

    fn next(&self) -> String {
        self.asked.fetch_add(1, Ordering::Relaxed).to_string()
    }
}

static HOST: LazyLock<Host> = LazyLock::new(Host::start);
const AUDIENCE: &str = "a";
