//! The bytes on the control connection.
//!
//! ```text
//! rank k ▶ 0   magic 8 │ version u32 │ rank u64 │ world size u64 │ BLAKE3 of `about` 32
//! 0 ▶ rank k   magic 8 │ version u32
//! then both    kind u8 │ length u32 │ payload                 and so on
//! ```
//!
//! All numbers are little-endian. Magic, version and the failure message stay
//! what they are in later versions, so that two versions can tell each other.

use std::net::SocketAddr;
use std::time::Duration;

use crate::Error;

pub(super) const MAGIC: [u8; 8] = *b"gulargrp";
pub(super) const VERSION: u32 = 1;
pub(super) const HELLO_BYTES: usize = 60;
pub(super) const ANSWER_BYTES: usize = 12;

/// Longest payload, except for [`Message::About`].
pub(super) const MAX_PAYLOAD: usize = 64 << 10;
/// Longest description of a training run: names and shapes of 10⁵ variables.
pub(super) const MAX_ABOUT: usize = 8 << 20;
/// Longest reason in a message, which is for people to read.
const MAX_TEXT: usize = 16 << 10;

/// The first bytes that a rank sends when it connects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) rank: u64,
    pub(super) world_size: u64,
    pub(super) about: [u8; 32],
}

/// The kind of a connection's first bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Greeting<T> {
    /// Some of the bytes have not arrived yet.
    Partial,
    /// The sender is not a rank.
    Stranger,
    /// The sender is a rank of another version.
    Version(u32),
    Known(T),
}

pub(super) fn answer() -> Vec<u8> {
    [MAGIC.as_slice(), &VERSION.to_le_bytes()].concat()
}

/// Reads magic and version.
pub(super) fn greeting(bytes: &[u8]) -> Greeting<()> {
    let magic = bytes.get(..MAGIC.len()).unwrap_or(bytes);
    if !MAGIC.starts_with(magic) {
        return Greeting::Stranger;
    }
    let mut parts = Parts(bytes.get(MAGIC.len()..).unwrap_or_default());
    match parts.u32() {
        None => Greeting::Partial,
        Some(VERSION) => Greeting::Known(()),
        Some(other) => Greeting::Version(other),
    }
}

impl Hello {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = answer();
        bytes.extend(self.rank.to_le_bytes());
        bytes.extend(self.world_size.to_le_bytes());
        bytes.extend(self.about);
        bytes
    }

    pub(super) fn parse(bytes: &[u8]) -> Greeting<Self> {
        match greeting(bytes) {
            Greeting::Known(()) => {}
            Greeting::Partial => return Greeting::Partial,
            Greeting::Stranger => return Greeting::Stranger,
            Greeting::Version(version) => return Greeting::Version(version),
        }
        let mut parts = Parts(bytes.get(ANSWER_BYTES..).unwrap_or_default());
        let mut read = || {
            let (rank, world_size) = (parts.u64()?, parts.u64()?);
            Some(Self { rank, world_size, about: parts.array()? })
        };
        read().map_or(Greeting::Partial, Greeting::Known)
    }
}

/// A message on the control connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Message {
    /// 0 ▶ k: known; how long rank 0 will wait for the others.
    Welcome { wait: Duration },
    /// 0 ▶ k: the digest differs, say the whole text.
    TellAbout,
    /// k ▶ 0: the text of `about`.
    About(String),
    /// k ▶ 0: counted in from now on; where its neighbour connects to.
    Ready { ring: SocketAddr },
    /// 0 ▶ k: all have connected; the address of the next rank.
    Next { key: [u8; 16], ring: SocketAddr },
    /// Both: a sign of life, with the number of operations that were begun.
    Beat { begun: u64 },
    /// k ▶ 0: what went wrong on rank k.
    Report(Error),
    /// 0 ▶ k: the error that ended the training run.
    Verdict(Error),
    /// Both: the orderly end.
    Goodbye,
}

/// A message that no rank of this version sends.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Garbled;

impl Message {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        let kind: u8 = match self {
            Self::Welcome { wait } => {
                put_duration(&mut payload, *wait);
                1
            }
            Self::TellAbout => 2,
            Self::About(text) => {
                payload.extend(text.as_bytes());
                3
            }
            Self::Ready { ring } => {
                payload.extend(ring.to_string().as_bytes());
                4
            }
            Self::Next { key, ring } => {
                payload.extend(key);
                payload.extend(ring.to_string().as_bytes());
                5
            }
            Self::Beat { begun } => {
                payload.extend(begun.to_le_bytes());
                6
            }
            Self::Report(error) => {
                put_error(&mut payload, error);
                7
            }
            Self::Verdict(error) => {
                put_error(&mut payload, error);
                8
            }
            Self::Goodbye => 9,
        };
        let len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let mut bytes = vec![kind];
        bytes.extend(len.to_le_bytes());
        bytes.extend(payload);
        bytes
    }

    /// The first message of `bytes` and its length; none while it is not whole.
    pub(super) fn decode(bytes: &[u8], limit: usize) -> Result<Option<(Self, usize)>, Garbled> {
        let mut parts = Parts(bytes);
        let (Some([kind]), Some(len)) = (parts.array(), parts.u32()) else { return Ok(None) };
        let len = usize::try_from(len).ok().filter(|len| *len <= limit).ok_or(Garbled)?;
        let Some(payload) = parts.take(len) else { return Ok(None) };
        let message = Self::payload(kind, payload).ok_or(Garbled)?;
        Ok(Some((message, 5 + len)))
    }

    fn payload(kind: u8, payload: &[u8]) -> Option<Self> {
        let mut parts = Parts(payload);
        let message = match kind {
            1 => Self::Welcome { wait: parts.duration()? },
            2 => Self::TellAbout,
            3 => Self::About(parts.rest()?.to_owned()),
            4 => Self::Ready { ring: parts.rest()?.parse().ok()? },
            5 => Self::Next { key: parts.array()?, ring: parts.rest()?.parse().ok()? },
            6 => Self::Beat { begun: parts.u64()? },
            7 => Self::Report(parts.error()?),
            8 => Self::Verdict(parts.error()?),
            9 => Self::Goodbye,
            _ => return None,
        };
        parts.0.is_empty().then_some(message)
    }
}

/// A failure: a tag, two numbers, two texts; what a variant does not need is 0 or empty.
fn put_error(out: &mut Vec<u8>, error: &Error) {
    let millis = |time: &Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let (tag, numbers, texts): (u8, [u64; 2], [&str; 2]) = match error {
        Error::Missing { ranks, world_size, waited } => {
            (1, [*world_size, millis(waited)], [ranks, ""])
        }
        Error::Different { reason } => (2, [0, 0], [reason, ""]),
        Error::Lost { rank, address, reason } => (3, [*rank, 0], [address, reason]),
        Error::Failed { rank, address, reason } => (4, [*rank, 0], [address, reason]),
        Error::Broken { rank, other, reason } => (5, [*rank, *other], [reason, ""]),
        Error::Stalled { number, operation, waited, waiting } => {
            (6, [*number, millis(waited)], [operation, waiting])
        }
        Error::Mismatch { reason } => (7, [0, 0], [reason, ""]),
        Error::Stopped { rank, waited, operation, waiting } => {
            (9, [*rank, millis(waited)], [operation, waiting])
        }
        Error::TooLong { rank, found, limit } => {
            // The message has space for two numbers, so the third is sent as text.
            return put_parts(out, 8, [*rank, *found], [&limit.to_string(), ""]);
        }
        // These end a rank before it has met any other; they can still be sent as text.
        other => return put_parts(out, 2, [0, 0], [&other.to_string(), ""]),
    };
    put_parts(out, tag, numbers, texts);
}

fn put_parts(out: &mut Vec<u8>, tag: u8, numbers: [u64; 2], texts: [&str; 2]) {
    out.push(tag);
    out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    for text in texts {
        let text = text.get(..text.floor_char_boundary(MAX_TEXT)).unwrap_or_default();
        out.extend(u32::try_from(text.len()).unwrap_or_default().to_le_bytes());
        out.extend(text.as_bytes());
    }
}

fn put_duration(out: &mut Vec<u8>, time: Duration) {
    out.extend(u64::try_from(time.as_millis()).unwrap_or(u64::MAX).to_le_bytes());
}

/// Reads from the front of bytes of another machine.
struct Parts<'a>(&'a [u8]);

impl<'a> Parts<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(n)?;
        self.0 = tail;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn duration(&mut self) -> Option<Duration> {
        self.u64().map(Duration::from_millis)
    }

    fn rest(&mut self) -> Option<&'a str> {
        let all = self.0.len();
        std::str::from_utf8(self.take(all)?).ok()
    }

    /// A text for the terminal: without control characters but the end of a line.
    fn text(&mut self) -> Option<String> {
        let len = usize::try_from(self.u32()?).ok()?;
        let text = std::str::from_utf8(self.take(len)?).ok()?;
        Some(text.chars().filter(|c| *c == '\n' || !c.is_control()).collect())
    }

    fn error(&mut self) -> Option<Error> {
        let [tag] = self.array()?;
        let (first, second) = (self.u64()?, self.u64()?);
        let (text, more) = (self.text()?, self.text()?);
        let waited = Duration::from_millis(second);
        Some(match tag {
            1 => Error::Missing { ranks: text, world_size: first, waited },
            2 => Error::Different { reason: text },
            3 => Error::Lost { rank: first, address: text, reason: more },
            4 => Error::Failed { rank: first, address: text, reason: more },
            5 => Error::Broken { rank: first, other: second, reason: text },
            6 => Error::Stalled { number: first, operation: text, waited, waiting: more },
            7 => Error::Mismatch { reason: text },
            8 => Error::TooLong { rank: first, found: second, limit: text.parse().ok()? },
            9 => Error::Stopped { rank: first, waited, operation: text, waiting: more },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn failures() -> Vec<Error> {
        let text = || "words".to_owned();
        let waited = Duration::from_millis(1500);
        vec![
            Error::Missing { ranks: "1-2".into(), world_size: 3, waited },
            Error::Different { reason: text() },
            Error::Lost { rank: 1, address: "a:1".into(), reason: text() },
            Error::Failed { rank: 1, address: "a:1".into(), reason: text() },
            Error::Broken { rank: 1, other: 2, reason: text() },
            Error::Stalled { number: 9, operation: text(), waited, waiting: text() },
            Error::Mismatch { reason: text() },
            Error::TooLong { rank: 1, found: 5, limit: 4 },
            Error::Stopped { rank: 1, waited, operation: text(), waiting: text() },
        ]
    }

    fn messages() -> Vec<Message> {
        let ring: SocketAddr = "[::1]:80".parse().unwrap();
        let mut all = vec![
            Message::Welcome { wait: Duration::from_secs(3) },
            Message::TellAbout,
            Message::About("a\nb".into()),
            Message::Ready { ring },
            Message::Next { key: [7; 16], ring },
            Message::Beat { begun: 3 },
            Message::Goodbye,
        ];
        all.extend(failures().into_iter().map(Message::Report));
        all.extend(failures().into_iter().map(Message::Verdict));
        all
    }

    #[test]
    fn messages_come_back_and_wait_for_their_last_byte() {
        for message in messages() {
            let bytes = message.encode();
            for cut in 0..bytes.len() {
                assert_eq!(Message::decode(&bytes[..cut], MAX_PAYLOAD), Ok(None), "{message:?}");
            }
            let whole = Message::decode(&bytes, MAX_PAYLOAD);
            assert_eq!(whole, Ok(Some((message, bytes.len()))));
        }
    }

    #[test]
    fn hello_comes_back_and_others_are_told_apart() {
        let hello = Hello { rank: 3, world_size: 4, about: [9; 32] };
        let bytes = hello.encode();
        assert_eq!(bytes.len(), HELLO_BYTES);
        for cut in 0..bytes.len() {
            assert_eq!(Hello::parse(&bytes[..cut]), Greeting::Partial, "{cut}");
        }
        assert_eq!(Hello::parse(&bytes), Greeting::Known(hello));
        let mut later = bytes.clone();
        later[8] = 2;
        assert_eq!(Hello::parse(&later), Greeting::Version(2));
        assert_eq!(Hello::parse(b"GET"), Greeting::Stranger);
        assert_eq!(Hello::parse(b""), Greeting::Partial);
    }

    #[test]
    fn reasons_are_cut_and_carry_no_escapes() {
        let reason = format!("\u{1b}[31m{}", "ä".repeat(MAX_TEXT));
        let bytes = Message::Verdict(Error::Mismatch { reason }).encode();
        let Ok(Some((Message::Verdict(Error::Mismatch { reason }), _))) =
            Message::decode(&bytes, MAX_PAYLOAD)
        else {
            panic!("it comes back");
        };
        assert!(reason.starts_with("[31mä"));
        assert!(reason.len() <= MAX_TEXT);
    }

    proptest! {
        #[test]
        fn foreign_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..100), kind in 0u8..12) {
            let _ = Hello::parse(&bytes);
            let _ = Message::decode(&bytes, 64);
            if let Some(message) = Message::payload(kind, &bytes) {
                let again = message.encode();
                prop_assert!(Message::decode(&again, MAX_PAYLOAD).is_ok());
            }
        }
    }
}
