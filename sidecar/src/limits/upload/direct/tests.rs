//! Tests of the small frames of direct callers.

use std::task::{Context, Waker};

use super::*;
use crate::limits::upload::frame_memory::READ_BUFFER;

const JANE: Caller = Caller::of_hash(1);
const EVE: Caller = Caller::of_hash(2);
const ADDRESS: Caller = Caller::of_hash(3);

/// Sends frames, each in its own read buffer, that take this many MiB.
fn send(connection: &ConnectionFrames, mebibytes: usize) -> Then {
    let data = |n| Data { stream: 1, length: 1, position: n * READ_BUFFER };
    let end = connection.unread() + mebibytes * MEBIBYTE;
    (1..).map(|n| connection.arrived(data(n))).find(|_| connection.unread() >= end).unwrap()
}

fn is_cut(connection: &ConnectionFrames) -> bool {
    connection.cutoff.poll_cut(&Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn fault_37_caller_above_the_share_loses_only_own_connections() {
    let uploads = DirectUploads::default();
    let connect = |caller, mebibytes| {
        let connection = uploads.connection(ADDRESS);
        let body = connection.begin();
        body.charge(caller);
        send(&connection, mebibytes);
        (connection, body)
    };
    let jane = connect(JANE, 10);
    let eve: Vec<_> = (0..30).map(|_| connect(EVE, 2)).collect();
    uploads.sweep();
    assert!(!is_cut(&jane.0));
    let left: Vec<_> = eve.iter().filter(|(connection, _)| !is_cut(connection)).collect();
    assert!((8..12).contains(&left.len()), "{} are left", left.len());
}

#[test]
fn nothing_ends_below_the_bound() {
    let uploads = DirectUploads::default();
    let connections = [1, 2, 3, 4].map(|_| uploads.connection(ADDRESS));
    let _bodies = connections.each_ref().map(|connection| {
        send(connection, 5);
        connection.begin()
    });
    uploads.sweep();
    assert!(!connections.iter().any(|connection| is_cut(connection)));
}

#[test]
fn address_is_the_holder_before_the_login() {
    let uploads = DirectUploads::default();
    let jane = uploads.connection(ADDRESS);
    let body = jane.begin();
    body.charge(JANE);
    let strangers = [1, 2].map(|_| uploads.connection(ADDRESS));
    let _bodies = strangers.each_ref().map(|stranger| stranger.begin());
    for connection in strangers.iter().chain([&jane]) {
        send(connection, 15);
    }
    uploads.sweep();
    assert!(!is_cut(&jane) && strangers.iter().any(|stranger| is_cut(stranger)));
}

#[test]
fn connection_retires_before_it_ends() {
    let connection = DirectUploads::default().connection(ADDRESS);
    let mut then = Vec::new();
    while then.last() != Some(&Then::End) {
        let next = send(&connection, 1);
        if then.last() != Some(&next) {
            then.push(next);
        }
    }
    assert_eq!(then, [Then::GoOn, Then::Retire, Then::End]);
    assert!(connection.unread() <= BOUNDS.caller + MEBIBYTE);
}

#[test]
fn late_frames_are_forgotten_on_a_quiet_connection() {
    let uploads = DirectUploads::default();
    let connection = uploads.connection(ADDRESS);
    let body = connection.begin();
    send(&connection, 1);
    for _ in 0..3 {
        uploads.sweep();
    }
    assert!(connection.unread() > 0, "its body is not read");
    drop(body);
    uploads.sweep();
    send(&connection, 1);
    uploads.sweep();
    assert!(connection.unread() > 0, "hyper may not have accepted the request");
    uploads.sweep();
    assert_eq!(connection.unread(), 0);
}

#[test]
fn frames_of_a_read_body_hide_no_unread_ones() {
    let connection = DirectUploads::default().connection(ADDRESS);
    let (_unread, read) = (connection.begin(), connection.begin());
    send(&connection, 10);
    for _ in 0..100_000 {
        connection.arrived(Data { stream: 3, length: 1, position: 1 });
        connection.arrived(Data { stream: 3, length: 1, position: 2 });
        read.read();
        read.read();
    }
    assert!(connection.unread() >= 10 * MEBIBYTE);
}

#[test]
fn large_frames_do_not_count() {
    let connection = DirectUploads::default().connection(ADDRESS);
    connection.arrived(Data { stream: 1, length: 16 * 1024, position: 1 });
    assert_eq!(connection.unread(), 0);
}

const MEBIBYTE: usize = 1024 * 1024;
