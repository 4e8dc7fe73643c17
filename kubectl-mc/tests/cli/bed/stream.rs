//! The connections of the fake host: one request each.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::Sender;

use super::Answer;

/// The connection of one request. If it is dropped before `end`, the answer is incomplete.
pub(crate) struct Stream(pub(super) BufReader<TcpStream>);

impl Stream {
    /// Sends a whole answer.
    pub(crate) fn answer(&mut self, answer: impl Into<Answer>) {
        // A client that closes its connection must not fail the script.
        let _ = write_answer(self.0.get_mut(), answer.into());
        let _ = self.0.read_to_end(&mut Vec::new());
    }

    /// Sends the head of a chunked answer.
    pub(crate) fn begin(&mut self) {
        self.write("HTTP/1.1 200 -\r\nX-Kubectl-Mc-Hop: member\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
    }

    pub(crate) fn piece(&mut self, text: &str) {
        self.write(&format!("{:x}\r\n{text}\r\n", text.len()));
    }

    /// Sends a chunk, and returns false once the client has closed the connection.
    pub(crate) fn goes_on(&mut self, text: &str) -> bool {
        write!(self.0.get_mut(), "{:x}\r\n{text}\r\n", text.len()).is_ok()
    }

    pub(crate) fn end(&mut self) {
        self.write("0\r\n\r\n");
    }

    /// Waits until the client has gone.
    pub(crate) fn hold(&mut self) {
        let _ = self.0.read_to_end(&mut Vec::new());
    }

    /// Reads what the client sends, up to this length; empty at the end of the connection.
    pub(crate) fn read(&mut self, length: usize) -> Vec<u8> {
        let mut read = vec![0; length];
        let count = self.0.read(&mut read).unwrap_or_default();
        read.truncate(count);
        read
    }

    pub(crate) fn write(&mut self, text: &str) {
        let _ = self.0.get_mut().write_all(text.as_bytes());
    }
}

pub(super) fn serve(
    stream: TcpStream,
    requests: &Sender<String>,
    answer: &dyn Fn(&str) -> Answer,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let head = read_head(&mut reader)?;
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let answer = answer(&path);
    // The request is recorded before it is answered, so that the record exists when the client has the
    // answer.
    requests.send(head).map_err(std::io::Error::other)?;
    write_answer(reader.get_mut(), answer)?;
    // Reads until the client has closed the connection: a reset could discard the answer.
    reader.read_to_end(&mut Vec::new()).map(drop)
}

pub(super) fn read_head(reader: &mut impl BufRead) -> std::io::Result<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(head)
}

fn write_answer(stream: &mut TcpStream, answer: Answer) -> std::io::Result<()> {
    let Answer { code, content_type, headers, body } = answer;
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {code} -\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n{headers}Connection: close\r\n\r\n"
    )?;
    stream.write_all(&body)
}
