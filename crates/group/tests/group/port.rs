//! Picks ports before anything listens on them.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicU16, Ordering};

/// A free port, outside of those from which connections go out. Test programs that run at the same
/// time pick different ones.
pub(crate) fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = u16::try_from(std::process::id() % 1500).expect("small") * 10;
    (0..10_000)
        .map(|_| 15_000 + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % 15_000)
        .find(|port| TcpListener::bind(("0.0.0.0", *port)).is_ok() && is_taken_by_us(*port))
        .expect("a port is free")
}

/// Takes a name for the port that only one process can have, until it ends.
fn is_taken_by_us(port: u16) -> bool {
    let name = format!("port {port} of a test of Gular");
    let name = SocketAddr::from_abstract_name(name).expect("a short name");
    UnixDatagram::bind_addr(&name).map(std::mem::forget).is_ok()
}
