use std::future::poll_fn;

use h2::{client, server};
use http::{Request, Response};
use tokio::io::{AsyncWriteExt, duplex};
use tokio_util::task::AbortOnDropHandle;

use super::*;
use crate::outbound::tunnel::protocol::MAX_FRAME;

/// A stream, the other end of it, and the tasks of their connections.
async fn stream() -> (TunnelStream, RecvStream, [AbortOnDropHandle<()>; 2]) {
    let (near, far) = duplex(1 << 20);
    let mut builder = server::Builder::new();
    builder.max_frame_size(u32::try_from(MAX_FRAME).unwrap());
    let (server, client) = tokio::join!(builder.handshake::<_, Bytes>(far), client::handshake(near));
    let (mut server, (sender, connection)) = (server.unwrap(), client.unwrap());
    let connection = AbortOnDropHandle::new(tokio::spawn(async { connection.await.unwrap() }));
    let mut sender = sender.ready().await.unwrap();
    let (response, send) = sender.send_request(Request::new(()), false).unwrap();
    let (request, mut respond) = server.accept().await.unwrap().unwrap();
    let _ = respond.send_response(Response::new(()), false).unwrap();
    let server = AbortOnDropHandle::new(tokio::spawn(async move {
        poll_fn(|cx| server.poll_closed(cx)).await.unwrap();
    }));
    let receive = response.await.unwrap().into_body();
    (TunnelStream::new(send, receive), request.into_body(), [connection, server])
}

/// A TLS record is longer than the smallest frame limit, and two frames per record would be twice
/// the work.
#[tokio::test]
async fn writes_before_a_flush_fill_frames() {
    let (mut stream, mut other, _tasks) = stream().await;
    let record = [1; 16 * 1024 + 22];
    stream.write_all(&record).await.unwrap();
    stream.write_all(&record).await.unwrap();
    stream.flush().await.unwrap();
    let mut frames = Vec::new();
    while frames.iter().sum::<usize>() < 2 * record.len() {
        frames.push(other.data().await.unwrap().unwrap().len());
    }
    assert_eq!(frames, [MAX_FRAME, 2 * record.len() - MAX_FRAME]);
}
