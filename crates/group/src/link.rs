//! One nonblocking connection, with its input and output buffers.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::wire::{ANSWER_BYTES, Garbled, Greeting, Hello, MAX_PAYLOAD, Message, greeting};

/// The message for a connection that ended by itself, however its end was noticed.
pub(super) const CLOSED: &str = "its connection closed without a goodbye";

/// A connection that is read and written without ever waiting.
#[derive(Debug)]
pub(super) struct Link {
    stream: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
    ended: bool,
    limit: usize,
}

impl Link {
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let (input, output) = (Vec::new(), Vec::new());
        Ok(Self { stream, input, output, ended: false, limit: MAX_PAYLOAD })
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(super) fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// Longest payload that is taken from now on.
    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    pub(super) fn queue(&mut self, message: &Message) {
        self.queue_bytes(&message.encode());
    }

    pub(super) fn queue_bytes(&mut self, bytes: &[u8]) {
        self.output.extend(bytes);
    }

    /// Number of bytes that wait to be sent.
    pub(super) fn queued(&self) -> usize {
        self.output.len()
    }

    /// Sends what the socket takes. An error is left to be found by reading,
    /// which first gives what the other side said last.
    pub(super) fn flush(&mut self) {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(n) => drop(self.output.drain(..n)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.output.clear(),
            }
        }
    }

    /// Reads what has come, one message more than the limit at most; whether anything had.
    pub(super) fn pull(&mut self) -> bool {
        let before = self.input.len();
        let mut chunk = [0; 4096];
        while !self.ended && self.input.len() <= self.limit.saturating_add(ANSWER_BYTES) {
            match self.stream.read(&mut chunk) {
                Ok(0) => self.ended = true,
                Ok(n) => self.input.extend(chunk.get(..n).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.ended = true,
            }
        }
        self.input.len() > before
    }

    /// Drops the bytes that have arrived.
    pub(super) fn discard(&mut self) {
        self.input.clear();
    }

    /// Whether the connection has ended, so that nothing follows what [`Self::pull`] has read.
    pub(super) fn ended(&self) -> bool {
        self.ended
    }

    pub(super) fn input(&self) -> &[u8] {
        &self.input
    }

    /// Removes `n` bytes from the front of what has come.
    pub(super) fn consume(&mut self, n: usize) {
        self.input.drain(..n.min(self.input.len()));
    }

    pub(super) fn take_hello(&mut self) -> Greeting<Hello> {
        let hello = Hello::parse(&self.input);
        if let Greeting::Known(_) = hello {
            self.consume(super::wire::HELLO_BYTES);
        }
        hello
    }

    pub(super) fn take_answer(&mut self) -> Greeting<()> {
        let answer = greeting(&self.input);
        if let Greeting::Known(()) = answer {
            self.consume(ANSWER_BYTES);
        }
        answer
    }

    /// Returns the next whole message, if it has arrived.
    pub(super) fn next_message(&mut self) -> Result<Option<Message>, Garbled> {
        let Some((message, len)) = Message::decode(&self.input, self.limit)? else {
            return Ok(None);
        };
        self.consume(len);
        Ok(Some(message))
    }

    /// Says that nothing more will be sent.
    pub(super) fn shut_output(&mut self) {
        self.output.clear();
        // This fails if the other side has closed already.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// What to wait for: input, and space for output if there is any.
    pub(super) fn poll_fd(&self) -> PollFd<'_> {
        let output = if self.output.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        let input = if self.ended { PollFlags::empty() } else { PollFlags::IN };
        PollFd::from_borrowed_fd(self.stream.as_fd(), input | output)
    }
}

/// A file descriptor that is waited on for input.
pub(super) fn readable(fd: BorrowedFd<'_>) -> PollFd<'_> {
    PollFd::from_borrowed_fd(fd, PollFlags::IN)
}

/// Waits until one of `fds` is ready, or for `limit`. May return early.
pub(super) fn wait(fds: &mut [PollFd<'_>], limit: Duration) -> io::Result<()> {
    let time = Timespec::try_from(limit).ok();
    match poll(fds, time.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
