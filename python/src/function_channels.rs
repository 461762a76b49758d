//! The way from the loader's threads to the processes or threads of Python that call a user's
//! function with each sample.
//!
//! ```text
//! thread of the loader                  process or thread of Python: gular/each.py
//!
//!   values ─▶ shared memory ──────────▶ arrays on that memory ─▶ function
//!   header ─▶ socket ─────────────────▶   │
//!   values ◀─ shared memory ◀─────────── results, behind what was given
//!   header ◀─ socket ◀──────────────────
//! ```
//!
//! A header is its length, `u32` in this machine's byte order, and JSON. The memory has no name, so
//! that nothing is left of it, and it only grows. When this end of the socket is closed, as when
//! this process dies, the other end stops.

use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{IntoRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use gular_runtime::{
    Dtype, Each, Env, GivenSample, GivenValue, ResultValue, SampleFunction, SampleResult,
    SharedMemory, available_cores,
};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

/// Values in shared memory begin at a multiple of this.
const ALIGN: u64 = 64;

/// The longest answer that is not an error of this package.
const LONGEST: u32 = 16 << 20;

/// The ends of the sockets, and the memory, that Python has not taken yet.
type Ends = Vec<(OwnedFd, OwnedFd)>;

/// One channel per thread of the loader.
#[pyclass(frozen, module = "gular._gular")]
pub(crate) struct Channels {
    all: Arc<All>,
    collected: bool,
    ends: Mutex<Ends>,
}

struct All {
    idle: Mutex<Vec<Channel>>,
    freed: Condvar,
    /// To end calls that are under way.
    streams: Vec<UnixStream>,
}

struct Channel {
    stream: UnixStream,
    memory: SharedMemory,
    /// Whether the other end has the function.
    is_ready: bool,
}

#[derive(Serialize)]
struct Given<'a> {
    key: &'a str,
    index: u64,
    epoch: u64,
    random: [u64; 2],
    label: Option<i64>,
    values: Vec<GivenAt<'a>>,
    /// Where the results may begin.
    end: u64,
}

#[derive(Serialize)]
struct GivenAt<'a> {
    name: &'a str,
    dtype: Option<Dtype>,
    shape: &'a [usize],
    picture: bool,
    on_image: bool,
    at: u64,
    len: usize,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    Failed { error: String },
    Made { label: Option<i64>, values: Vec<MadeAt>, at: usize, len: usize },
    Ready { ready: bool },
}

#[derive(Deserialize)]
struct MadeAt {
    name: String,
    dtype: Option<Dtype>,
    shape: Vec<usize>,
    planes: bool,
    at: usize,
    len: usize,
}

#[pymethods]
impl Channels {
    /// Makes as many channels as the loader has threads. `collected`: whether Python puts the
    /// samples of a batch together.
    #[new]
    fn new(workers: usize, collected: bool) -> PyResult<Self> {
        let n = if workers == 0 { available_cores(&Env::process()) } else { workers };
        let (mut idle, mut streams, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..n {
            let (channel, end) = Channel::open()?;
            streams.push(channel.stream.try_clone()?);
            idle.push(channel);
            ends.push(end);
        }
        let all = All { idle: Mutex::new(idle), freed: Condvar::new(), streams };
        Ok(Self { all: Arc::new(all), collected, ends: Mutex::new(ends) })
    }

    /// Hands over the other ends: file descriptors of a socket and of the memory, for each channel.
    fn ends(&self) -> Vec<(RawFd, RawFd)> {
        let ends = std::mem::take(&mut *self.ends.lock().unwrap_or_else(PoisonError::into_inner));
        ends.into_iter().map(|(one, other)| (one.into_raw_fd(), other.into_raw_fd())).collect()
    }
}

impl Channels {
    pub(crate) fn each(&self) -> Each {
        let all = Arc::clone(&self.all);
        if self.collected { Each::collected(all) } else { Each::new(all) }
    }
}

impl SampleFunction for All {
    fn call(
        &self,
        sample: &GivenSample<'_>,
        take: &mut dyn FnMut(&SampleResult<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut channel = self.take();
        let made = channel.call(sample, take);
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(channel);
        self.freed.notify_one();
        made
    }

    fn end(&self) {
        for stream in &self.streams {
            // The other end may be gone already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl All {
    fn take(&self) -> Channel {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(channel) = idle.pop() {
                return channel;
            }
            idle = self.freed.wait(idle).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Channel {
    fn open() -> io::Result<(Self, (OwnedFd, OwnedFd))> {
        let memory = SharedMemory::new()?;
        let (stream, end) = UnixStream::pair()?;
        let end = (end.into(), memory.file().try_clone()?.into());
        Ok((Self { stream, memory, is_ready: false }, end))
    }

    fn call(
        &mut self,
        sample: &GivenSample<'_>,
        take: &mut dyn FnMut(&SampleResult<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let told = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset => {
                "the process that ran it ended without an answer".to_owned()
            }
            _ => format!("the process that runs it cannot be reached: {error}"),
        };
        if !self.is_ready {
            match self.receive().map_err(told)? {
                Answer::Failed { error } => return Err(error),
                Answer::Ready { ready } => self.is_ready = ready,
                Answer::Made { .. } => {}
            }
        }
        self.give(sample).map_err(told)?;
        match self.receive().map_err(told)? {
            Answer::Failed { error } => Err(error),
            Answer::Ready { .. } => Err("an answer came without a question".to_owned()),
            Answer::Made { label, values, at, len } => {
                let value = |value: MadeAt| {
                    let MadeAt { name, dtype, shape, planes, at, len } = value;
                    let numbers = dtype.map(|dtype| (dtype, shape));
                    ResultValue { name, numbers, planes, range: at..at.saturating_add(len) }
                };
                let values: Vec<ResultValue> = values.into_iter().map(value).collect();
                let end = at.saturating_add(len);
                self.memory.grow(end as u64).map_err(told)?;
                let bytes = self.memory.bytes().get(at..end).unwrap_or_default();
                take(&SampleResult { label, values, bytes })
            }
        }
    }

    /// Writes the values to the memory, and tells where they are.
    fn give(&mut self, sample: &GivenSample<'_>) -> io::Result<()> {
        let mut end = 0_u64;
        let place = |value: &GivenValue<'_>| {
            let at = end;
            let len = value.bytes.len() as u64;
            end = end.saturating_add(len.next_multiple_of(ALIGN));
            at
        };
        let places: Vec<u64> = sample.values.iter().map(place).collect();
        self.memory.grow(end)?;
        for (value, at) in sample.values.iter().zip(&places) {
            let to = self.memory.bytes_mut().get_mut(usize::try_from(*at).unwrap_or(usize::MAX)..);
            if let Some(to) = to.and_then(|to| to.get_mut(..value.bytes.len())) {
                to.copy_from_slice(value.bytes);
            }
        }
        let values = sample.values.iter().zip(places).map(|(value, at)| {
            let (dtype, shape) = match &value.numbers {
                Some((dtype, shape)) => (Some(*dtype), &shape[..]),
                None => (None, &[][..]),
            };
            let GivenValue { name, is_picture, is_on_image, bytes, .. } = *value;
            let (picture, on_image) = (is_picture, is_on_image);
            GivenAt { name, dtype, shape, picture, on_image, at, len: bytes.len() }
        });
        let GivenSample { number, key, epoch, random, label, .. } = *sample;
        let given =
            Given { key, index: number, epoch, random, label, values: values.collect(), end };
        let json = serde_json::to_vec(&given)?;
        let mut message =
            u32::try_from(json.len()).map_err(io::Error::other)?.to_ne_bytes().to_vec();
        message.extend(json);
        self.stream.write_all(&message)
    }

    fn receive(&mut self) -> io::Result<Answer> {
        let mut len = [0; 4];
        self.stream.read_exact(&mut len)?;
        let len = u32::from_ne_bytes(len);
        if len > LONGEST {
            // What follows would be read as the next answer.
            self.stream.shutdown(Shutdown::Both)?;
            return Err(io::Error::other(format!("an answer of {len} bytes")));
        }
        let mut json = Vec::new();
        (&mut self.stream).take(u64::from(len)).read_to_end(&mut json)?;
        Ok(serde_json::from_slice(&json)?)
    }
}
