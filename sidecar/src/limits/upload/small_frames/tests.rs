//! Tests of the count of small frames.

use std::task::{Context, Waker};

use super::*;
use crate::limits::upload::frame_memory::READ_BUFFER;

const JANE: Caller = Caller::of_hash(1);
const EVE: Caller = Caller::of_hash(2);

/// The frames of one connection, which arrive one after another.
#[derive(Default)]
struct Connection {
    frames: Arc<SmallFrames>,
    position: usize,
    uploads: u32,
}

struct Upload {
    counted: Counted,
    cutoff: Arc<Cutoff>,
}

impl Connection {
    fn upload(&mut self, caller: Option<Caller>) -> Upload {
        self.uploads += 1;
        self.frames.opened(2 * self.uploads - 1);
        let cutoff = Arc::<Cutoff>::default();
        let counted = self.frames.begin(&cutoff).unwrap();
        self.frames.handled();
        caller.iter().for_each(|caller| counted.charge(*caller));
        Upload { counted, cutoff }
    }

    /// Sends frames for the upload while `goes_on` returns true, and returns their number.
    fn flood(&mut self, upload: &Upload, goes_on: impl Fn() -> bool) -> usize {
        let mut frames = 0;
        while goes_on() {
            self.arrived(upload);
            frames += 1;
        }
        frames
    }

    fn arrived(&mut self, upload: &Upload) -> Then {
        self.position += 10;
        let data = Data { stream: upload.counted.stream, length: 1, position: self.position };
        self.frames.arrived(data)
    }

    fn memory(&self) -> usize {
        self.frames.0.with(|state| state.memory)
    }
}

impl Upload {
    fn is_cut(&self) -> bool {
        self.cutoff.poll_cut(&Context::from_waker(Waker::noop())).is_ready()
    }
}

#[test]
fn fault_37_small_frames_end_only_their_own_request() {
    let mut connection = Connection::default();
    let [jane, eve] = [JANE, EVE].map(|caller| connection.upload(Some(caller)));
    let new = connection.upload(None);
    for upload in [&jane, &new] {
        connection.arrived(upload);
    }
    let frames = connection.flood(&eve, || !eve.is_cut());
    assert!(eve.is_cut() && frames > 30_000, "{frames}");
    assert!(!jane.is_cut() && !new.is_cut());
    assert!(connection.memory() < MAX_UNREAD / 100);
}

#[test]
fn largest_upload_of_the_largest_user_ends() {
    let mut connection = Connection::default();
    let jane = connection.upload(Some(JANE));
    // The one stream of a user is larger than each stream of another.
    for _ in 0..9_000 {
        connection.arrived(&jane);
    }
    let eve: Vec<_> = (0..10).map(|_| connection.upload(Some(EVE))).collect();
    for (number, upload) in eve.iter().enumerate() {
        for _ in 0..1_900 + 50 * number {
            connection.arrived(upload);
        }
    }
    connection.flood(&jane, || eve.iter().all(|upload| !upload.is_cut()));
    assert!(!jane.is_cut());
    let cut: Vec<_> = eve.iter().map(Upload::is_cut).collect();
    assert_eq!(cut, [false, false, false, false, false, false, false, false, false, true]);
}

#[test]
fn stream_is_its_own_holder_before_the_login() {
    let mut connection = Connection::default();
    let jane: Vec<_> = (0..3).map(|_| connection.upload(Some(JANE))).collect();
    for upload in &jane {
        connection.arrived(upload);
    }
    let strangers = [connection.upload(None), connection.upload(None)];
    connection.flood(&strangers[0], || !strangers[0].is_cut());
    assert!(!strangers[1].is_cut() && jane.iter().all(|upload| !upload.is_cut()));
}

#[test]
fn frames_that_are_read_take_no_memory() {
    let mut connection = Connection::default();
    let jane = connection.upload(Some(JANE));
    for _ in 0..100_000 {
        connection.arrived(&jane);
        connection.arrived(&jane);
        jane.counted.read();
        jane.counted.read();
    }
    assert!(!jane.is_cut());
    assert_eq!(connection.memory(), 0);
}

#[test]
fn frames_of_a_dropped_body_take_no_memory() {
    let mut connection = Connection::default();
    let jane = connection.upload(Some(JANE));
    connection.arrived(&jane);
    assert!(connection.memory() > 0);
    drop(jane);
    assert_eq!(connection.memory(), 0);
}

#[test]
fn frame_counts_with_the_read_buffer_that_it_keeps() {
    let mut connection = Connection::default();
    let eve = connection.upload(Some(EVE));
    let frames = connection.flood(&eve, || !eve.is_cut());
    let mut apart = Connection::default();
    let eve = apart.upload(Some(EVE));
    let mut alone = 0;
    while !eve.is_cut() {
        apart.position += READ_BUFFER;
        apart.arrived(&eve);
        alone += 1;
    }
    assert!(frames > 30 * alone && alone * READ_BUFFER <= MAX_UNREAD, "{frames} and {alone}");
}

#[test]
fn frames_that_cannot_be_read_retire_the_connection() {
    let mut connection = Connection::default();
    let eve = connection.upload(Some(EVE));
    connection.flood(&eve, || !eve.is_cut());
    let lost = (1..).find(|_| connection.arrived(&eve) == Then::Retire);
    assert_eq!(lost, Some(MAX_LOST + 1));
}

#[test]
fn empty_frames_retire_the_connection_before_h2_closes_it() {
    let frames = SmallFrames::default();
    let empty = (1..).find(|_| frames.empty_arrived() == Then::Retire).unwrap();
    assert!(empty < 100, "{empty}");
}
