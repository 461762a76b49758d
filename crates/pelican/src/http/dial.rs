//! Opens a TCP connection to a host name.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// RFC 8305, section 5: the connection attempt delay.
const HEAD_START: Duration = Duration::from_millis(250);

/// Tries every address of a name, IPv6 and IPv4 in turn, the next one when a
/// quarter of a second has passed or the one before has failed (RFC 8305): a
/// network whose IPv6 leads nowhere must not cost the whole time limit.
pub(super) async fn dial(host: &str, port: u16) -> io::Result<TcpStream> {
    let found: Vec<SocketAddr> = lookup_host((host, port)).await?.collect();
    let mut waiting = in_turn(&found).into_iter();
    let mut trials = JoinSet::new();
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    loop {
        match waiting.next() {
            Some(address) => drop(trials.spawn(TcpStream::connect(address))),
            None if trials.is_empty() => return Err(failed),
            None => {}
        }
        let more = waiting.len() > 0;
        let trial = tokio::select! {
            trial = trials.join_next() => trial,
            () = sleep(HEAD_START), if more => continue,
        };
        match trial {
            Some(Ok(Ok(stream))) => return Ok(stream),
            Some(Ok(Err(error))) => failed = error,
            Some(Err(error)) => failed = io::Error::other(error),
            None => {}
        }
    }
}

/// IPv6 and IPv4 alternating, beginning with the kind that the system put first.
fn in_turn(found: &[SocketAddr]) -> Vec<SocketAddr> {
    let first_is_v6 = found.first().is_some_and(SocketAddr::is_ipv6);
    let of_kind = |v6: bool| found.iter().copied().filter(move |a| a.is_ipv6() == v6);
    let (mut one, mut other) = (of_kind(first_is_v6), of_kind(!first_is_v6));
    let mut turns = Vec::with_capacity(found.len());
    for _ in 0..found.len() {
        turns.extend(one.next());
        turns.extend(other.next());
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_take_turns() {
        let check = |found: &[&str], expected: &[&str]| {
            let parse = |list: &[&str]| -> Vec<SocketAddr> {
                list.iter().map(|a| a.parse().unwrap()).collect()
            };
            assert_eq!(in_turn(&parse(found)), parse(expected));
        };
        check(&[], &[]);
        check(
            &["[::1]:1", "[::2]:1", "[::3]:1", "127.0.0.1:1"],
            &["[::1]:1", "127.0.0.1:1", "[::2]:1", "[::3]:1"],
        );
        check(&["127.0.0.1:1", "[::1]:1"], &["127.0.0.1:1", "[::1]:1"]);
    }
}
