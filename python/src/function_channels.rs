//! The way from the loader's threads to the processes or threads of Python that call a user's
//! function with each sample.
//!
//! ```text
//! thread of the loader                      process or thread of Python: gular/each.py
//!
//!   values of a group of samples ─▶ memory ─▶ arrays on that memory ─▶ function
//!   headers ─▶ socket ──────────────────────▶   │
//!   values ◀─ the same memory ◀──────────────── results, in place of what was given or behind it
//!   headers ◀─ socket ◀─────────────────────────
//! ```
//!
//! There are two memories for each thread: while the function is called with the samples in one, the
//! thread makes those in the other, so that neither side waits for the other one with every sample. A
//! group has as many samples as take about [`GROUP_TIME`].
//!
//! A message is its length, `u32` in this machine's byte order, then a header for each sample: numbers,
//! and its values as JSON. A memory has no name, so that nothing is left of it, and it
//! only grows; its first number counts the samples of the group that were begun. When this end of a
//! socket is closed, as when this process dies, the other end stops. When the other end is closed, its
//! process is gone, and Python is asked for another one.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{IntoRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use gular_runtime::{
    Dtype, Each, Env, GivenSample, ResultValue, SampleFunction, SampleLane, SampleResult,
    SharedMemory, Untaken, available_cores,
};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};
use zerocopy::IntoBytes as _;

use crate::exit::detached;

/// Values in shared memory begin at a multiple of this, the first one behind the count.
const ALIGN: u64 = 64;

/// The longest message that is not an error of this package.
const LONGEST: u32 = 64 << 20;

/// The time of the function with one group, in nanoseconds. With 2 ms, waking the other side up costs
/// a hundredth of it.
const GROUP_TIME: u64 = 2_000_000;

/// The most samples in a group.
const GROUP_SAMPLES: usize = 8;

/// A group ends with the sample that reaches this many bytes: memory is bounded, and stays in the
/// CPU's caches.
const GROUP_BYTES: u64 = 2 << 20;

/// How many processes of a loader are replaced.
const REPLACED: usize = 8;

/// The other ends of a channel: the socket, and both memories.
type Ends = (OwnedFd, [OwnedFd; 2]);

/// The same for Python, which closes them.
type RawEnds = (RawFd, RawFd, RawFd);

/// One channel per thread of the loader.
#[pyclass(frozen, module = "gular._gular")]
pub(crate) struct Channels {
    all: Arc<All>,
    collected: bool,
    /// Those that Python has not taken yet.
    ends: Mutex<Vec<Ends>>,
}

struct All {
    state: Mutex<State>,
    /// Signals a channel that is idle, one whose process is gone, another process, and the end.
    changed: Condvar,
    /// Whether Python has another process for one that is gone.
    replaces: bool,
}

#[derive(Default)]
struct State {
    idle: Vec<Channel>,
    /// By channel, to end calls that are under way.
    streams: Vec<UnixStream>,
    /// Channels whose process is gone, and the sample that it had begun.
    gone: VecDeque<(usize, Option<String>, [OwnedFd; 2])>,
    /// By channel, what Python says of a process that is gone.
    replies: Vec<Option<Reply>>,
    n_replaced: usize,
    has_ended: bool,
}

struct Reply {
    /// How the process ended.
    reason: String,
    /// Joins the one in its place, if there is one.
    stream: Option<UnixStream>,
}

struct Channel {
    number: usize,
    stream: UnixStream,
    memories: [Memory; 2],
    /// Whether the other end has the function; or why not.
    is_ready: Option<Result<(), String>>,
}

struct Memory {
    shared: SharedMemory,
    group: Group,
}

/// The samples in a memory.
#[derive(Default)]
struct Group {
    keys: VecDeque<String>,
    /// Where the next value begins.
    end: u64,
    /// What the other end will be sent.
    headers: Vec<u8>,
    /// Whether it was sent.
    is_sent: bool,
    /// What the other end answered, and where the next sample's answer begins.
    answer: Option<(Vec<u8>, usize)>,
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

/// The numbers of a result, which its values as JSON follow, or why there is none.
struct MadeHead {
    has_failed: bool,
    label: Option<i64>,
    at: usize,
    len: usize,
    text_len: usize,
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

/// The first message of the other end.
#[derive(Deserialize)]
struct Begun {
    /// Why it does not have the function.
    error: Option<String>,
}

#[pymethods]
impl Channels {
    /// Makes as many channels as the loader has threads. `collected`: whether Python puts the
    /// samples of a batch together; `replaces`: whether it waits for processes that are gone.
    #[new]
    fn new(workers: usize, collected: bool, replaces: bool) -> PyResult<Self> {
        let n = if workers == 0 { available_cores(&Env::process()) } else { workers };
        let (mut state, mut ends) = (State::default(), Vec::new());
        for number in 0..n {
            let (channel, end) = Channel::open(number)?;
            state.streams.push(channel.stream.try_clone()?);
            state.replies.push(None);
            state.idle.push(channel);
            ends.push(end);
        }
        let all = All { state: Mutex::new(state), changed: Condvar::new(), replaces };
        Ok(Self { all: Arc::new(all), collected, ends: Mutex::new(ends) })
    }

    /// Hands over the other ends: file descriptors of the socket and of both memories of each
    /// channel.
    fn ends(&self) -> Vec<RawEnds> {
        let ends = std::mem::take(&mut *self.ends.lock().unwrap_or_else(PoisonError::into_inner));
        ends.into_iter().map(raw).collect()
    }

    /// Waits for a process that is gone: the number of its channel, and the sample that it had begun.
    /// `None` at the end.
    fn gone(&self, py: Python<'_>) -> Option<(usize, Option<String>)> {
        detached(py, || {
            let state = self.all.wait(|state| state.has_ended || !state.gone.is_empty());
            let (number, key, _) = state.gone.front().filter(|_| !state.has_ended)?;
            Some((*number, key.clone()))
        })
    }

    /// Hands over the ends for another process in place of that one, which ended as `reason` says;
    /// `None` where enough were replaced.
    fn replace(&self, reason: String) -> Option<RawEnds> {
        let mut state = self.all.lock();
        let (number, _, memories) = state.gone.pop_front()?;
        let mut reply = Reply { reason, stream: None };
        let mut ends = None;
        let pair = || {
            let (stream, end) = UnixStream::pair()?;
            Ok::<_, io::Error>((stream.try_clone()?, stream, end))
        };
        if state.n_replaced == REPLACED || state.has_ended {
            reply.reason = format!("{}, after {REPLACED} others of this loader", reply.reason);
        } else {
            match pair() {
                Ok((known, stream, end)) => {
                    state.n_replaced += 1;
                    if let Some(of_channel) = state.streams.get_mut(number) {
                        *of_channel = known;
                    }
                    reply.stream = Some(stream);
                    ends = Some(raw((end.into(), memories)));
                }
                Err(error) => {
                    reply.reason =
                        format!("{}, and another one cannot be started: {error}", reply.reason);
                }
            }
        }
        if let Some(slot) = state.replies.get_mut(number) {
            *slot = Some(reply);
        }
        self.all.changed.notify_all();
        ends
    }

    /// How many processes were replaced.
    fn n_replaced(&self) -> usize {
        self.all.lock().n_replaced
    }

    /// Ends all calls.
    fn end(&self) {
        self.all.end();
    }
}

fn raw((stream, [one, other]): Ends) -> RawEnds {
    (stream.into_raw_fd(), one.into_raw_fd(), other.into_raw_fd())
}

impl Channels {
    pub(crate) fn each(&self) -> Each {
        let all = Arc::clone(&self.all);
        if self.collected { Each::collected(all) } else { Each::new(all) }
    }
}

impl SampleFunction for All {
    fn lane(self: Arc<Self>) -> Result<Box<dyn SampleLane>, String> {
        let mut state = self.wait(|state| state.has_ended || !state.idle.is_empty());
        let channel = state.idle.pop().ok_or_else(ended)?;
        drop(state);
        let (channel, all) = (Some(channel), self);
        Ok(Box::new(Lane {
            all,
            channel,
            filled: 0,
            group: 1,
            lost: VecDeque::new(),
            suspect: None,
        }))
    }

    fn end(&self) {
        let mut state = self.lock();
        state.has_ended = true;
        for stream in &state.streams {
            // The other end may be gone already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(state);
        self.changed.notify_all();
    }
}

impl All {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, is_over: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let state = self.changed.wait_while(self.lock(), |state| !is_over(state));
        state.unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for what Python says of the process of a channel, which is gone.
    fn reply(
        &self,
        number: usize,
        key: Option<String>,
        files: [OwnedFd; 2],
    ) -> Result<Reply, String> {
        let mut state = self.lock();
        if state.has_ended {
            return Err(ended());
        }
        if !self.replaces {
            return Err("the thread that ran it is gone".to_owned());
        }
        state.gone.push_back((number, key, files));
        drop(state);
        self.changed.notify_all();
        let said = |state: &State| state.replies.get(number).is_some_and(Option::is_some);
        let mut state = self.wait(|state| state.has_ended || said(state));
        state.replies.get_mut(number).and_then(Option::take).ok_or_else(ended)
    }
}

fn ended() -> String {
    "the loader has ended".to_owned()
}

impl Channel {
    fn open(number: usize) -> io::Result<(Self, Ends)> {
        let memory = || Ok::<_, io::Error>(Memory::of(SharedMemory::new()?));
        let memories = [memory()?, memory()?];
        let (stream, end) = UnixStream::pair()?;
        let channel = Self { number, stream, memories, is_ready: None };
        let files = channel.files()?;
        Ok((channel, (end.into(), files)))
    }

    fn files(&self) -> io::Result<[OwnedFd; 2]> {
        let [one, other] = &self.memories;
        Ok([one.shared.file().try_clone()?.into(), other.shared.file().try_clone()?.into()])
    }

    /// Waits until the other end has the function. The inner error is that end's.
    fn make_ready(&mut self) -> io::Result<Result<(), String>> {
        if let Some(ready) = &self.is_ready {
            return Ok(ready.clone());
        }
        let ready = match serde_json::from_slice(&self.receive()?)? {
            Begun { error: Some(error) } => Err(error),
            Begun { error: None } => Ok(()),
        };
        Ok(self.is_ready.insert(ready).clone())
    }

    fn send(&mut self, number: usize) -> io::Result<()> {
        let Some(Memory { shared, group }) = self.memories.get_mut(number) else { return Ok(()) };
        if let Some(count) = shared.bytes_mut().first_chunk_mut() {
            *count = 0_u64.to_ne_bytes();
        }
        let mut message = Vec::with_capacity(group.headers.len() + 20);
        let len = u32::try_from(group.headers.len() + 16).map_err(io::Error::other)?;
        message.extend(len.to_ne_bytes());
        message.extend(u32::try_from(number).map_err(io::Error::other)?.to_ne_bytes());
        message.extend(u32::try_from(group.keys.len()).map_err(io::Error::other)?.to_ne_bytes());
        message.extend(group.end.to_ne_bytes());
        message.extend(&group.headers);
        group.is_sent = true;
        self.stream.write_all(&message)
    }

    fn receive(&mut self) -> io::Result<Vec<u8>> {
        let mut len = [0; 4];
        self.stream.read_exact(&mut len)?;
        let len = u32::from_ne_bytes(len);
        if len > LONGEST {
            // What follows would be read as the next answer.
            self.stream.shutdown(Shutdown::Both)?;
            return Err(io::Error::other(format!("an answer of {len} bytes")));
        }
        let mut message = vec![0; len as usize];
        self.stream.read_exact(&mut message)?;
        Ok(message)
    }
}

impl Memory {
    fn of(shared: SharedMemory) -> Self {
        Self { shared, group: Group { end: ALIGN, ..Group::default() } }
    }

    /// The `len` bytes from `at` on.
    fn at(&mut self, at: u64, len: usize) -> io::Result<&mut [u8]> {
        let end = at.saturating_add(len as u64);
        self.shared.grow(end)?;
        let range = usize::try_from(at).and_then(|at| Ok(at..usize::try_from(end)?));
        let memory = range.ok().and_then(|range| self.shared.bytes_mut().get_mut(range));
        memory.ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// Writes the values of a sample behind those that are there, and its header.
    fn push(&mut self, sample: &GivenSample<'_>) -> io::Result<()> {
        let mut end = self.group.end;
        let mut values = Vec::with_capacity(sample.values.len());
        for value in &sample.values {
            let (dtype, shape) = match &value.numbers {
                Some((dtype, shape)) => (Some(*dtype), &shape[..]),
                None => (None, &[][..]),
            };
            let len = match value.bytes {
                Some(bytes) => {
                    self.at(end, bytes.len())?.copy_from_slice(bytes);
                    bytes.len()
                }
                // Written already, as the first value.
                None => {
                    let size = dtype.map_or(1, Dtype::size_bytes);
                    shape.iter().product::<usize>() * usize::try_from(size).unwrap_or(1)
                }
            };
            let (name, picture, on_image) = (value.name, value.is_picture, value.is_on_image);
            values.push(GivenAt { name, dtype, shape, picture, on_image, at: end, len });
            end = end.saturating_add((len as u64).next_multiple_of(ALIGN));
        }
        let GivenSample { number, key, epoch, random, label, .. } = *sample;
        let json = serde_json::to_vec(&values)?;
        let bits = |label: i64| u64::from_ne_bytes(label.to_ne_bytes());
        let head = [
            number,
            epoch,
            random[0],
            random[1],
            u64::from(label.is_some()),
            label.map_or(0, bits),
            json.len() as u64,
            key.len() as u64,
        ];
        let Group { keys, headers, end: known, .. } = &mut self.group;
        *known = end;
        headers.extend(head.as_bytes());
        headers.extend(json);
        headers.extend(key.as_bytes());
        keys.push_back(key.to_owned());
        Ok(())
    }

    /// The next result of the answer.
    fn next(&mut self) -> Option<(MadeHead, Vec<u8>)> {
        let (answer, at) = self.group.answer.as_mut()?;
        let (head, rest) = MadeHead::read(answer.get(*at..)?)?;
        let text = rest.get(..head.text_len)?.to_vec();
        *at += MadeHead::LEN + head.text_len;
        Some((head, text))
    }
}

impl MadeHead {
    const LEN: usize = 48;

    fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (head, rest) = bytes.split_at_checked(Self::LEN)?;
        let (numbers, _) = head.as_chunks::<8>();
        let mut numbers = numbers.iter().map(|number| u64::from_ne_bytes(*number));
        let mut next = || numbers.next();
        let has_failed = next()? != 0;
        let has_label = next()? != 0;
        let label = i64::from_ne_bytes(next()?.to_ne_bytes());
        let mut size = || usize::try_from(next()?).ok();
        let (at, len, text_len) = (size()?, size()?, size()?);
        let label = has_label.then_some(label);
        Some((Self { has_failed, label, at, len, text_len }, rest))
    }
}

/// A thread's use of a channel.
struct Lane {
    all: Arc<All>,
    channel: Option<Channel>,
    /// The memory that the next sample goes to.
    filled: usize,
    /// How many samples a group has.
    group: usize,
    /// The samples that a process had which is gone, oldest first: whether they are to be given again.
    lost: VecDeque<Untaken>,
    /// The sample in which the last process ended.
    suspect: Option<String>,
}

impl SampleLane for Lane {
    fn picture(&mut self, len: usize) -> Result<&mut [u8], String> {
        self.make_ready()?;
        let memory = self.memory()?;
        let end = memory.group.end;
        memory.at(end, len).map_err(|error| unreachable(&error))
    }

    fn give(&mut self, sample: &GivenSample<'_>) -> Result<(), String> {
        self.make_ready()?;
        let group = self.group;
        let memory = self.memory()?;
        memory.push(sample).map_err(|error| unreachable(&error))?;
        if memory.group.keys.len() >= group || memory.group.end >= GROUP_BYTES {
            self.send();
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        let Some(channel) = &self.channel else { return false };
        !self.lost.is_empty()
            || channel.memories.get(self.filled).is_some_and(|memory| memory.group.is_sent)
    }

    fn take(
        &mut self,
        take: &mut dyn FnMut(&SampleResult<'_>) -> Result<(), String>,
    ) -> Result<(), Untaken> {
        if let Some(lost) = self.lost.pop_front() {
            return Err(lost);
        }
        let oldest = self.oldest();
        if let Err(error) = self.receive(oldest) {
            self.lose(&error);
            return Err(self.lost.pop_front().unwrap_or(Untaken::Interrupted));
        }
        let memory = self.channel().and_then(|channel| {
            channel.memories.get_mut(oldest).ok_or_else(|| "no such memory".to_owned())
        })?;
        memory.group.keys.pop_front();
        let made = memory.next();
        let (head, text) = made.ok_or_else(|| "its answer cannot be read".to_owned())?;
        let taken = if head.has_failed {
            Err(String::from_utf8_lossy(&text).into_owned())
        } else {
            memory.result(&head, &text).and_then(|values| {
                let bytes = memory.shared.bytes().get(head.at..head.at + head.len);
                let bytes = bytes.unwrap_or_default();
                take(&SampleResult { label: head.label, values, bytes })
            })
        };
        if memory.group.keys.is_empty() {
            memory.group = Group { end: ALIGN, ..Group::default() };
            self.filled = self.to_fill();
        }
        Ok(taken?)
    }
}

impl Memory {
    /// The values of a result, whose memory is mapped then.
    fn result(&mut self, head: &MadeHead, text: &[u8]) -> Result<Vec<ResultValue>, String> {
        let end = head.at.checked_add(head.len).ok_or("its answer cannot be read")?;
        self.shared.grow(end as u64).map_err(|error| unreachable(&error))?;
        let values: Vec<MadeAt> =
            serde_json::from_slice(text).map_err(|error| format!("its answer: {error}"))?;
        let value = |value: MadeAt| {
            let MadeAt { name, dtype, shape, planes, at, len } = value;
            let numbers = dtype.map(|dtype| (dtype, shape));
            // From the result's memory on.
            let at = at.saturating_sub(head.at);
            ResultValue { name, numbers, planes, range: at..at.saturating_add(len) }
        };
        Ok(values.into_iter().map(value).collect())
    }
}

impl Lane {
    fn channel(&mut self) -> Result<&mut Channel, String> {
        self.channel.as_mut().ok_or_else(ended)
    }

    fn memory(&mut self) -> Result<&mut Memory, String> {
        let filled = self.filled;
        let memory = self.channel()?.memories.get_mut(filled);
        memory.ok_or_else(|| "no such memory".to_owned())
    }

    /// The memory with the oldest sample.
    fn oldest(&self) -> usize {
        let Some(channel) = &self.channel else { return 0 };
        let other = 1 - self.filled;
        let has_some = |at: usize| {
            channel.memories.get(at).is_some_and(|memory| !memory.group.keys.is_empty())
        };
        if has_some(other) { other } else { self.filled }
    }

    /// The memory for the next sample: that which is being filled, else an empty one.
    fn to_fill(&self) -> usize {
        let Some(channel) = &self.channel else { return 0 };
        let is_sent = channel.memories.get(self.filled).is_some_and(|memory| memory.group.is_sent);
        if is_sent { 1 - self.filled } else { self.filled }
    }

    /// Waits until there is a process that has the function.
    fn make_ready(&mut self) -> Result<(), String> {
        let mut has_tried = false;
        loop {
            match self.channel()?.make_ready() {
                Ok(ready) => return ready,
                Err(error) => {
                    let reason = self.replaced(None, &error)?;
                    if std::mem::replace(&mut has_tried, true) {
                        return Err(reason);
                    }
                }
            }
        }
    }

    /// Sends the group in the memory that is filled, and fills the other one if it is empty. If the
    /// process is gone, taking will notice it.
    fn send(&mut self) {
        let filled = self.filled;
        if let Some(channel) = &mut self.channel {
            // The end of a process that is gone is read, too.
            let _ = channel.send(filled);
            let other = channel.memories.get(1 - filled);
            if other.is_some_and(|memory| memory.group.keys.is_empty()) {
                self.filled = 1 - filled;
            }
        }
    }

    /// Waits for the answer to a group.
    fn receive(&mut self, number: usize) -> io::Result<()> {
        let Some(channel) = &mut self.channel else { return Ok(()) };
        let group = |channel: &Channel| {
            let group = channel.memories.get(number).map(|memory| &memory.group);
            group.map_or((true, true), |group| (group.is_sent, group.answer.is_some()))
        };
        if !group(channel).0 {
            channel.send(number)?;
            // The next sample goes to the other memory, which is empty: this one is the oldest.
            self.filled = 1 - number;
        }
        if group(channel).1 {
            return Ok(());
        }
        let answer = channel.receive()?;
        let Some(memory) = channel.memories.get_mut(number) else { return Ok(()) };
        let took = answer.first_chunk().map_or(0, |took| u64::from_ne_bytes(*took));
        let each = took / (memory.group.keys.len() as u64).max(1);
        let fitting = usize::try_from(GROUP_TIME / each.max(1)).unwrap_or(GROUP_SAMPLES);
        self.group = fitting.clamp(1, GROUP_SAMPLES);
        memory.group.answer = Some((answer, size_of::<u64>()));
        Ok(())
    }

    /// Notes that the process is gone, with the samples that it had, and waits for another one.
    fn lose(&mut self, error: &io::Error) {
        let oldest = self.oldest();
        let Some(channel) = &mut self.channel else { return };
        let memory = channel.memories.get(oldest);
        let begun = memory.and_then(|memory| memory.shared.bytes().first_chunk());
        let begun = begun.map_or(0, |count| u64::from_ne_bytes(*count));
        let begun = usize::try_from(begun).unwrap_or(0).checked_sub(1);
        let suspect = begun.zip(memory).and_then(|(at, memory)| memory.group.keys.get(at).cloned());
        let n: usize = channel.memories.iter().map(|memory| memory.group.keys.len()).sum();
        for memory in &mut channel.memories {
            memory.group = Group { end: ALIGN, ..Group::default() };
        }
        // They fit again: the groups had at most as many.
        (self.filled, self.group) = (0, GROUP_SAMPLES);
        self.lost = vec![Untaken::Interrupted; n].into();
        let is_again = suspect.is_some() && suspect == self.suspect;
        self.suspect.clone_from(&suspect);
        let with = suspect.as_ref().map(|key| format!(", while it had the sample `{key}`"));
        match self.replaced(suspect, error) {
            Ok(_) if !is_again => {}
            Ok(reason) => {
                let reason = format!("{reason}; so did the one before it, with the same sample");
                self.lost.iter_mut().skip(begun.unwrap_or(0)).take(1).for_each(|lost| {
                    *lost = Untaken::Failed(reason.clone());
                });
            }
            Err(reason) => {
                let reason = format!("{reason}{}", with.unwrap_or_default());
                self.lost = vec![Untaken::Failed(reason); n].into();
            }
        }
    }

    /// Waits for a process in place of one that is gone; returns how that ended.
    fn replaced(&mut self, suspect: Option<String>, error: &io::Error) -> Result<String, String> {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        if !matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof) {
            return Err(format!("the process that runs it cannot be reached: {error}"));
        }
        let all = Arc::clone(&self.all);
        let channel = self.channel()?;
        let files = channel.files().map_err(|error| unreachable(&error))?;
        let Reply { reason, stream } = all.reply(channel.number, suspect, files)?;
        match stream {
            Some(stream) => {
                (channel.stream, channel.is_ready) = (stream, None);
                Ok(reason)
            }
            None => Err(reason),
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let Some(mut channel) = self.channel.take() else { return };
        if channel.memories.iter().any(|memory| memory.group.is_sent) {
            // An answer is on its way that the next thread would take for its own.
            let _ = channel.stream.shutdown(Shutdown::Both);
        }
        for memory in &mut channel.memories {
            memory.group = Group { end: ALIGN, ..Group::default() };
        }
        self.all.lock().idle.push(channel);
        self.all.changed.notify_all();
    }
}

fn unreachable(error: &io::Error) -> String {
    format!("the process that runs it cannot be reached: {error}")
}
