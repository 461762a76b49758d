//! Who asks, and whether they still wait for the answer.

use std::io;
use std::net::TcpStream;

/// The other side of a connection, whose request was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Client<'a> {
    pub(crate) stream: &'a TcpStream,
    /// Connections are counted as they are accepted: a higher number is a newer request.
    pub(crate) number: u64,
}

impl Client<'_> {
    /// Whether it closed the connection, as a browser does with requests that it no longer needs.
    pub(crate) fn has_left(self) -> bool {
        let Self { stream, .. } = self;
        if stream.set_nonblocking(true).is_err() {
            return true;
        }
        let seen = stream.peek(&mut [0]);
        let blocks = stream.set_nonblocking(false);
        match seen {
            Ok(n) => n == 0 || blocks.is_err(),
            Err(error) => error.kind() != io::ErrorKind::WouldBlock || blocks.is_err(),
        }
    }
}
