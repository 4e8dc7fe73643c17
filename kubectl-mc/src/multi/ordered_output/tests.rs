use super::*;

/// Such a task has always slept for some time.
impl TaskResult for Duration {
    fn died() -> Self {
        Self::MAX
    }
}

#[derive(Default)]
struct Collected(Vec<(usize, u32)>, Option<usize>);

impl Sink<u32> for Collected {
    fn take(&mut self, place: usize, piece: u32) -> ControlFlow<()> {
        self.0.push((place, piece));
        if self.1.is_some_and(|most| self.0.len() >= most) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

fn in_runtime<T>(what: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(what)
}

/// Work on a cluster that only takes time.
struct Delay(ClusterId, Duration);

impl ForCluster for Delay {
    fn cluster(&self) -> &ClusterId {
        &self.0
    }
}

fn delays(millis: &[u64]) -> Vec<Delay> {
    let delay = |(at, millis): (usize, &u64)| {
        Delay(format!("m{at}").parse().unwrap(), Duration::from_millis(*millis))
    };
    millis.iter().enumerate().map(delay).collect()
}

fn way(at_once: usize) -> Concurrency {
    let (grace, stalled) = (Duration::from_secs(1), Some(Duration::from_secs(5)));
    Concurrency { at_once, ahead: 1, grace, stalled, progress: ClusterProgress::default() }
}

/// The order in which the positions were passed on, each after its delay.
fn told(millis: &[u64], at_once: usize) -> Vec<usize> {
    let mut taken = Collected::default();
    let work = |Delay(_, delay): Delay, sender: mpsc::Sender<u32>| async move {
        for piece in 0..3 {
            tokio::time::sleep(if piece == 0 { delay } else { Duration::ZERO }).await;
            sender.send(piece).await.unwrap();
        }
        delay
    };
    let results = in_runtime(run(delays(millis), &way(at_once), work, &mut taken)).unwrap();
    let expected: Vec<_> = millis.iter().map(|millis| Duration::from_millis(*millis)).collect();
    assert_eq!(results, expected);
    // Pieces of one cluster stay together and keep their order.
    assert!(taken.0.chunks(3).all(|of| of[0].0 == of[1].0 && of[1].0 == of[2].0), "{:?}", taken.0);
    assert!(taken.0.chunks(3).all(|of| [of[0].1, of[1].1, of[2].1] == [0, 1, 2]), "{:?}", taken.0);
    taken.0.chunks(3).map(|of| of[0].0).collect()
}

#[test]
fn pieces_come_in_the_order_of_the_members() {
    assert_eq!(told(&[900, 10, 20], 3), [0, 1, 2]);
    assert_eq!(told(&[900, 10, 20], 2), [0, 1, 2]);
    assert_eq!(told(&[30_000], 1), [0]);
}

#[test]
fn silent_cluster_comes_last() {
    assert_eq!(told(&[30_000, 10, 20], 3), [1, 2, 0]);
    assert_eq!(told(&[30_000, 10, 20_000, 20, 10_000], 5), [1, 3, 4, 2, 0]);
    // If all are equally slow, none loses its place.
    assert_eq!(told(&[30_000, 20_000, 25_000], 3), [0, 1, 2]);
}

#[test]
fn many_silent_clusters_cost_one_grace_period() {
    let mut millis = vec![10; 100];
    (0..100).step_by(2).for_each(|at| millis[at] = 30_000);
    struct Last(Vec<Duration>, Instant);
    impl Sink<()> for Last {
        fn take(&mut self, _: usize, (): ()) -> ControlFlow<()> {
            self.0.push(self.1.elapsed());
            ControlFlow::Continue(())
        }
    }
    let took = in_runtime(async {
        let mut last = Last(Vec::new(), Instant::now());
        let work = |Delay(_, delay): Delay, sender: mpsc::Sender<()>| async move {
            tokio::time::sleep(delay).await;
            let _ = sender.send(()).await;
        };
        run(delays(&millis), &way(100), work, &mut last).await.unwrap();
        last.0
    });
    assert!(took[49] < Duration::from_secs(2), "{:?}", took[49]);
}

#[test]
fn stalled_cluster_gets_a_longer_grace() {
    let mut taken = Collected::default();
    let work = |Delay(_, delay): Delay, sender: mpsc::Sender<u32>| async move {
        sender.send(1).await.unwrap();
        tokio::time::sleep(delay).await;
        let _ = sender.send(2).await;
    };
    in_runtime(run(delays(&[4_000, 30_000, 10]), &way(3), work, &mut taken)).unwrap();
    assert_eq!(taken.0, [(0, 1), (0, 2), (1, 1), (2, 1), (2, 2), (1, 2)]);
    let mut taken = Collected::default();
    let whole = Concurrency { stalled: None, ..way(3) };
    in_runtime(run(delays(&[4_000, 30_000, 10]), &whole, work, &mut taken)).unwrap();
    assert_eq!(taken.0, [(0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2)]);
}

#[test]
fn unordered_pieces_come_as_they_arrive() {
    let mut taken = Collected::default();
    let work = |Delay(_, delay): Delay, sender: mpsc::Sender<u32>| async move {
        sender.send(1).await.unwrap();
        tokio::time::sleep(delay).await;
        sender.send(2).await.unwrap();
        delay
    };
    let results = in_runtime(run_unordered(delays(&[30_000, 10]), work, &mut taken)).unwrap();
    assert_eq!(results, [30_000, 10].map(Duration::from_millis));
    assert_eq!(taken.0, [(0, 1), (1, 1), (1, 2), (0, 2)]);
    let mut closed = Collected(Vec::new(), Some(1));
    assert_eq!(in_runtime(run_unordered(delays(&[0, 0]), work, &mut closed)), None);
}

#[test]
fn closed_pipe_ends_reads() {
    let mut taken = Collected(Vec::new(), Some(1));
    let work = |_, sender: mpsc::Sender<u32>| async move { while sender.send(1).await.is_ok() {} };
    let results = in_runtime(run(delays(&[0, 0]), &way(2), work, &mut taken));
    assert_eq!((results, taken.0.len()), (None, 1));
}
