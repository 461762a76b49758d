//! A listener, and the connections that have not said yet who they are.
//!
//! Anybody can connect: a port scanner, a browser, a rank of another training run. Nobody
//! gets more than a bounded time and a few bytes to say who they are, and
//! nobody is waited for alone.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

use super::link::{Link, readable, wait};

/// Time to say who one is. A process on a busy machine needs a second at times.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(10);

/// How often the flag and time limits are checked while waiting.
pub(super) const TICK: Duration = Duration::from_millis(50);

/// Most connections that wait to be accepted; the kernel lowers this to its own limit.
const BACKLOG: i32 = 4096;

pub(super) struct Lobby<S> {
    listener: TcpListener,
    max_guests: usize,
    pub(super) guests: Vec<Guest<S>>,
}

/// A connection whose sender is not known yet.
pub(super) struct Guest<S> {
    pub(super) link: Link,
    pub(super) address: SocketAddr,
    /// What the guest has said so far.
    pub(super) said: S,
    since: Instant,
}

impl<S: Default> Lobby<S> {
    pub(super) fn new(listener: TcpListener, max_guests: usize) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { listener, max_guests, guests: Vec::new() })
    }

    /// Waits a tick for guests, or for input from `others`; lets in who has come,
    /// reads what was said, sends away who is too slow.
    pub(super) fn turn<'a>(
        &mut self,
        others: impl Iterator<Item = &'a TcpStream>,
    ) -> io::Result<()> {
        let mut fds = vec![readable(self.listener.as_fd())];
        fds.extend(self.guests.iter().map(|guest| guest.link.poll_fd()));
        fds.extend(others.map(|stream| readable(stream.as_fd())));
        wait(&mut fds, TICK)?;
        drop(fds);
        self.admit()?;
        let now = Instant::now();
        self.guests.retain_mut(|guest| {
            guest.link.flush();
            guest.link.pull();
            now.duration_since(guest.since) < HANDSHAKE
        });
        Ok(())
    }

    fn admit(&mut self) -> io::Result<()> {
        loop {
            match self.listener.accept() {
                Ok((stream, address)) => {
                    // The oldest guest is dropped, since it has had the most time.
                    if self.guests.len() >= self.max_guests {
                        self.guests.remove(0);
                    }
                    let Ok(link) = Link::new(stream) else { continue };
                    let address = SocketAddr::new(address.ip().to_canonical(), address.port());
                    let (said, since) = (S::default(), Instant::now());
                    self.guests.push(Guest { link, address, said, since });
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return Ok(()),
                    // The connection has ended already.
                    ErrorKind::Interrupted
                    | ErrorKind::ConnectionAborted
                    | ErrorKind::ConnectionReset => {}
                    _ => return Err(error),
                },
            }
        }
    }
}

/// Listens on `port` (0: any free one) of all addresses, IPv6 and IPv4.
pub(super) fn listen_everywhere(port: u16) -> io::Result<TcpListener> {
    match listen(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))) {
        // The machine has no IPv6.
        Err(error)
            if matches!(error.kind(), ErrorKind::AddrNotAvailable | ErrorKind::Unsupported)
                || error.raw_os_error() == Some(net_unsupported()) =>
        {
            listen(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)))
        }
        other => other,
    }
}

fn net_unsupported() -> i32 {
    rustix::io::Errno::AFNOSUPPORT.raw_os_error()
}

/// Listens on one address. A port that a killed process has just left is not an obstacle.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    net::bind(&socket, &address)?;
    net::listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}
