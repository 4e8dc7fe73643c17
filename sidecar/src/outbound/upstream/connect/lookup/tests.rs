use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::vec;

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::task::yield_now;
use tokio::time::sleep;

use super::places::{LONG, QUICK, SLOW};
use super::*;

/// Answers names that begin with `good` at once, and any other name when the test releases it. Counts the
/// lookups.
#[derive(Clone)]
struct NameServers {
    asked: Arc<AtomicUsize>,
    answers: Arc<Semaphore>,
    places: Arc<Places>,
}

impl NameServers {
    fn silent() -> Self {
        Self { asked: Arc::default(), answers: Arc::new(Semaphore::new(0)), places: Arc::default() }
    }

    /// The lookup of another member.
    fn member(&self) -> Lookup<Self> {
        Lookup::new(self.clone(), self.places.clone())
    }

    async fn ask(&self, name: &str) -> Result<usize, String> {
        let found = self.member().call(name.parse().unwrap()).await;
        found.map(Iterator::count).map_err(|error| error.to_string())
    }

    /// One lookup of each of these members, whose names do not resolve.
    async fn ask_silent(&self, members: usize) -> Vec<Result<usize, String>> {
        let names: Vec<_> = (0..members).map(|member| format!("m{member}.example")).collect();
        join_all(names.iter().map(|name| self.ask(name))).await
    }

    /// Takes all slots.
    async fn fill(&self) {
        for _ in 0..3 {
            for answer in self.ask_silent(2 * (QUICK + SLOW)).await {
                let error = answer.unwrap_err();
                assert!(error.starts_with("cannot look up m"), "{error}");
            }
            assert!(self.asked() <= QUICK + SLOW, "{}", self.asked());
        }
        assert_eq!(self.asked(), QUICK + SLOW);
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Service<Name> for NameServers {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let answers = self.answers.clone();
        Box::pin(async move {
            if !name.as_str().starts_with("good") {
                answers.acquire().await.map_err(std::io::Error::other)?.forget();
            }
            Ok(vec![SocketAddr::from(([203, 0, 113, 7], 0))].into_iter())
        })
    }
}

#[tokio::test]
async fn abandoned_lookups_count_until_their_threads_end() {
    let servers = NameServers::silent();
    let mut lookup = servers.member();
    let mut ask = || lookup.call("member.example".parse().unwrap());
    for _ in 0..3 * MAX_OF_MEMBER {
        let mut given_up = ask();
        assert!(given_up.as_mut().now_or_never().is_none());
        drop(given_up);
        yield_now().await;
    }
    assert_eq!(servers.asked(), MAX_OF_MEMBER);
    servers.answers.add_permits(MAX_OF_MEMBER + 1);
    assert_eq!(ask().await.unwrap().count(), 1);
}

#[tokio::test(start_paused = true)]
async fn fault_44_silent_name_servers_block_limited_threads() {
    let servers = NameServers::silent();
    servers.fill().await;
    // Threads that end make room.
    servers.answers.add_permits(QUICK + SLOW + 1);
    yield_now().await;
    assert_eq!(servers.ask("m0.example").await, Ok(1));
}

#[tokio::test(start_paused = true)]
async fn fault_44_silent_names_do_not_delay_other_names() {
    let servers = NameServers::silent();
    for round in 0..10 {
        let silent = servers.clone();
        // As many members as there are slow slots: the silent lookups leave all quick ones.
        let asking = tokio::spawn(async move { silent.ask_silent(SLOW).await });
        sleep(4 * LONG).await;
        let began = Instant::now();
        assert_eq!(servers.ask("good.example").await, Ok(1), "round {round}");
        assert!(began.elapsed().is_zero(), "round {round}: {:?}", began.elapsed());
        asking.await.unwrap();
    }
    assert!(servers.asked() <= SLOW + 10, "{}", servers.asked());
}

#[tokio::test(start_paused = true)]
async fn fault_44_slow_lookup_error_names_host_and_dns() {
    let servers = NameServers::silent();
    let began = Instant::now();
    let error = servers.ask("m1.example").await.unwrap_err();
    insta::assert_snapshot!(error, @"cannot look up m1.example: its name servers do not answer; check DNS where mc-sidecar runs");
    assert!(began.elapsed() < CONNECT_TIMEOUT, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn fault_44_lookup_without_a_place_is_an_error_in_time() {
    let servers = NameServers::silent();
    servers.fill().await;
    let began = Instant::now();
    let error = servers.member().call("good.example".parse().unwrap()).await.unwrap_err();
    assert!(Error::is_crowded(error.as_ref()));
    insta::assert_snapshot!(error, @"cannot look up good.example: DNS is slow, and too many lookups of other names wait for it; check DNS where mc-sidecar runs");
    assert_eq!(began.elapsed(), PERMIT_TIMEOUT);
}
