//! gzip on several threads: the number of threads does not change the bytes.

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::thread;

use flate2::{Compression, GzBuilder};

/// Input bytes of one member: what makes the output independent of the threads.
const MEMBER_BYTES: usize = 1 << 20;
/// RFC 1952: made on Unix, without a name or a time.
const OS_UNIX: u8 = 3;

/// Writes gzip members one after the other, which RFC 1952 calls one file.
pub(super) struct Gzip<W> {
    sink: W,
    level: Compression,
    threads: usize,
    pending: Vec<u8>,
}

impl<W: Write> Gzip<W> {
    pub(super) fn new(sink: W, level: u32, threads: NonZeroUsize) -> Self {
        let threads = threads.get().min(64);
        let pending = Vec::with_capacity(threads * MEMBER_BYTES);
        Self { sink, level: Compression::new(level), threads, pending }
    }

    pub(super) fn finish(mut self) -> io::Result<W> {
        self.compress()?;
        Ok(self.sink)
    }

    fn compress(&mut self) -> io::Result<()> {
        let level = self.level;
        let members = thread::scope(|scope| {
            let start = |input| scope.spawn(move || member(input, level));
            let running: Vec<_> = self.pending.chunks(MEMBER_BYTES).map(start).collect();
            let done = running.into_iter().map(|handle| {
                handle.join().unwrap_or_else(|_| Err(io::Error::other("a compressor panicked")))
            });
            done.collect::<io::Result<Vec<_>>>()
        })?;
        self.pending.clear();
        members.iter().try_for_each(|member| self.sink.write_all(member))
    }
}

impl<W: Write> Write for Gzip<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.threads * MEMBER_BYTES - self.pending.len();
        let taken = bytes.get(..room).unwrap_or(bytes);
        self.pending.extend_from_slice(taken);
        if taken.len() == room {
            self.compress()?;
        }
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

/// Most of the time that gzip takes goes into bytes it cannot shrink, such as
/// compiled GPU code: what zstd 1 finds to shrink by less than 3 % is stored.
fn worth(input: &[u8]) -> io::Result<bool> {
    let shrunk = zstd::bulk::compress(input, 1)?;
    Ok(shrunk.len() <= input.len() - input.len() * 3 / 100)
}

fn member(input: &[u8], level: Compression) -> io::Result<Vec<u8>> {
    let level = if worth(input)? { level } else { Compression::none() };
    let out = Vec::with_capacity(input.len() / 2);
    let mut encoder = GzBuilder::new().mtime(0).operating_system(OS_UNIX).write(out, level);
    encoder.write_all(input)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn any_number_of_threads_gives_the_same_bytes() {
        let mut input = Vec::new();
        for i in 0..900_000_u32 {
            input.extend_from_slice(&(i / 7).to_le_bytes());
        }
        let pack = |threads| {
            let mut gzip = Gzip::new(Vec::new(), 6, NonZeroUsize::new(threads).unwrap());
            for piece in input.chunks(70_001) {
                gzip.write_all(piece).unwrap();
            }
            gzip.finish().unwrap()
        };
        let one = pack(1);
        assert_eq!(one, pack(2));
        assert_eq!(one, pack(5));
        let mut back = Vec::new();
        flate2::read::MultiGzDecoder::new(&one[..]).read_to_end(&mut back).unwrap();
        assert!(back == input);
    }
}
