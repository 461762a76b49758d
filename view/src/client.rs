//! Who asks, and whether they still wait for the answer.

use std::net::TcpStream;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

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
        // The connection stays as it is: several threads may look at the same time.
        match recv(self.stream, &mut [0], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((n, _)) => n == 0,
            Err(error) => error != Errno::AGAIN && error != Errno::INTR,
        }
    }
}
