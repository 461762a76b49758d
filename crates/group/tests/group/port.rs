//! Picks ports before anything listens on them.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// A free port, outside of those from which connections go out.
pub(crate) fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = u16::try_from(std::process::id() % 1500).expect("small") * 10;
    (0..10_000)
        .map(|_| 15_000 + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % 15_000)
        .find(|port| TcpListener::bind(("0.0.0.0", *port)).is_ok())
        .expect("a port is free")
}
