//! Answers another replica's question from this replica's own tunnels.

use std::future::Future;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy_bidirectional_with_sizes};
use tokio::time::timeout;

use super::question::{self, CONNECTED, NO, Question, YES};
use crate::base::last_words::Broken;
use crate::outbound::tunnel::purpose::Purpose;
use crate::outbound::tunnel::registry::AgentTunnels;

/// Answers one question; a connection to a member is carried until it ends, or `stopped` resolves.
pub(crate) async fn answer<S>(
    mut stream: S,
    tunnels: &AgentTunnels,
    stopped: impl Future<Output = ()>,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut stopped = std::pin::pin!(stopped);
    let line = timeout(TIMEOUT, question::line(&mut stream)).await??;
    let question = Question::parse(&line).ok_or(io::ErrorKind::InvalidData)?;
    let (text, member) = match question {
        Question::Has(cluster) => {
            (format!("{}\n", if tunnels.oldest(&cluster).is_some() { YES } else { NO }), None)
        }
        Question::Tunnels => (tunnels.names(), None),
        Question::Enroll(cluster, request) => match tunnels.enroll_here(&cluster, request).await {
            Some(reply) => (format!("{}\n{}", reply.status.as_u16(), reply.body), None),
            None => (format!("{NO}\n"), None),
        },
        Question::Connect(cluster, target) => {
            let opened = tokio::select! {
                biased;
                () = &mut stopped => return Ok(()),
                opened = tunnels.open_here(&cluster, &target, Purpose::Any) => opened,
            };
            match opened {
                Ok(member) => (format!("{CONNECTED}\n"), Some(member)),
                Err(error) => (format!("{}\n", question::refusal(&error)), None),
            }
        }
    };
    let told = async {
        stream.write_all(text.as_bytes()).await?;
        stream.flush().await
    };
    timeout(TIMEOUT, told).await??;
    let Some(member) = member else { return timeout(TIMEOUT, stream.shutdown()).await? };
    let broken = Broken::default();
    let mut member = broken.side(member);
    tokio::select! {
        biased;
        () = &mut stopped => Ok(()),
        () = broken.long_ago() => Ok(()),
        carried = copy_bidirectional_with_sizes(&mut stream, &mut member, BUFFER, BUFFER) => carried.map(drop),
    }
}

const TIMEOUT: Duration = Duration::from_secs(10);
const BUFFER: usize = 16 * 1024;
