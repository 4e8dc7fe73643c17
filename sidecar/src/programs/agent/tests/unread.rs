//! A member that does not read.

use super::*;
use crate::base::last_words::LAST_WORDS;
use crate::limits::in_flight::largest::Bounds;

#[tokio::test]
async fn fault_66_upload_that_the_member_does_not_read_is_reset() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut agent = agent(&listener.local_addr().unwrap().to_string(), 4);
    Arc::get_mut(&mut agent).unwrap().unread = Arc::new(UnreadLimit::new(Bounds::undivided(1)));
    let (tunnels, cluster) = (AgentTunnels::none(), "m1".parse().unwrap());
    let (io, _sidecar) = link::tests::joined(&tunnels, no_accounts(), "instance");
    tokio::spawn(serve::serve(agent.clone(), io, oneshot::channel().0));
    while tunnels.oldest(&cluster).is_none() {
        tokio::task::yield_now().await;
    }
    let mut stream = tunnels.open_here(&cluster, &agent.config.target, Purpose::Any).await.unwrap();
    let _unread = listener.accept().await.unwrap();
    let writing = async { while stream.write_all(&[0; 16 * 1024]).await.is_ok() {} };
    let sweeping = async {
        loop {
            agent.unread.sweep();
            tokio::task::yield_now().await;
        }
    };
    let reset = timeout(Duration::from_secs(10), async {
        tokio::select! {
            () = writing => {}
            () = sweeping => {}
        }
    });
    reset.await.unwrap();
}

#[tokio::test]
async fn gone_callers_connection_ends_though_the_member_reads_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let joined = joined(&listener.local_addr().unwrap().to_string()).await;
    let mut stream = joined.open().await.unwrap();
    let _unread = listener.accept().await.unwrap();
    // Until the buffers in between are full.
    let piece = [0; 16 * 1024];
    while timeout(Duration::from_millis(300), stream.write_all(&piece)).await.is_ok() {}
    drop(stream);
    tokio::time::pause();
    let ended = async {
        while !joined.agent.tasks.is_empty() {
            sleep(Duration::from_secs(1)).await;
        }
    };
    timeout(2 * LAST_WORDS, ended).await.expect("its place is taken");
}
