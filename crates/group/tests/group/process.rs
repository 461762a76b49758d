//! Ranks as processes: how a test starts them, reads their output and ends them.

use std::env;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::port::port;

pub(crate) const JOB: &str = "GULAR_TEST_GROUP_JOB";

/// Against a test that would hang for ever; nothing here takes a tenth of it.
pub(crate) const LIMIT: Duration = Duration::from_secs(100);

/// Marks what a rank says between the lines of the test program.
pub(crate) const SAYS: &str = ">> ";

/// The job of one rank.
#[derive(Clone)]
pub(crate) struct Job {
    pub(crate) case: &'static str,
    pub(crate) rank: u64,
    pub(crate) world_size: u64,
    pub(crate) port: u16,
    pub(crate) about: &'static str,
    pub(crate) rendezvous_ms: u64,
    pub(crate) operation_ms: u64,
    pub(crate) lost_ms: u64,
}

/// A process that is one rank.
pub(crate) struct Rank {
    pub(crate) child: Child,
    pub(crate) lines: Receiver<String>,
}

pub(crate) fn job(case: &'static str, world_size: u64) -> Job {
    let (rendezvous_ms, operation_ms, lost_ms) = (60_000, 60_000, 30_000);
    let (rank, about) = (0, "model tiny/layer 3");
    Job { case, rank, world_size, port: port(), about, rendezvous_ms, operation_ms, lost_ms }
}

impl Job {
    pub(crate) fn rank(&self, rank: u64) -> Self {
        Self { rank, ..self.clone() }
    }

    pub(crate) fn start(&self) -> Rank {
        let Self { case, rank, world_size, port, about, .. } = self;
        let times = [self.rendezvous_ms, self.operation_ms, self.lost_ms].map(|ms| ms.to_string());
        let line = format!("{case}|{rank}|{world_size}|{port}|{}|{about}", times.join("|"));
        let mut child = Command::new(env::current_exe().expect("a test program has a path"))
            .args(["--exact", "child", "--nocapture", "--test-threads=1"])
            .env(JOB, line)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("starts");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if let Some((_, said)) = line.split_once(SAYS) {
                    let _ = sender.send(said.to_owned());
                }
            }
        });
        Rank { child, lines }
    }

    pub(crate) fn start_all(&self) -> Vec<Rank> {
        (0..self.world_size).map(|rank| self.rank(rank).start()).collect()
    }
}

impl Rank {
    pub(crate) fn says(&self) -> String {
        self.lines.recv_timeout(LIMIT).expect("the rank says something")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("signals");
    }

    /// Returns all further lines of output, until the process ends.
    pub(crate) fn rest(&self) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            match self.lines.recv_timeout(LIMIT) {
                Ok(line) => all.push(line),
                Err(RecvTimeoutError::Disconnected) => return all,
                Err(_) => panic!("the rank hangs, after {all:?}"),
            }
        }
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn say(text: impl std::fmt::Display) {
    println!("{SAYS}{}", text.to_string().replace('\n', " / "));
    std::io::stdout().flush().expect("flushes");
}

/// Returns the last line of all `ranks`, which must be the same except for rank numbers.
pub(crate) fn one_end(ranks: &[Rank]) -> String {
    let ends: Vec<_> = ranks.iter().map(|rank| rank.rest().pop().expect("an end")).collect();
    assert!(ends.iter().all(|end| *end == ends[0]), "{ends:#?}");
    ends[0].clone()
}

/// `text` with the ports that the kernel chose as `*`.
pub(crate) fn masked(text: &str) -> String {
    let mut parts = text.split("127.0.0.1:");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out += "127.0.0.1:*";
        out += part.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    out
}

/// Connects as soon as a process listens on the port.
pub(crate) fn connect(port: u16) -> TcpStream {
    for _ in 0..2000 {
        if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
            return stream;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("nobody listens");
}

/// The first bytes of a rank: magic and version, rank, world size, BLAKE3 of `about`.
pub(crate) fn hello(job: &Job) -> Vec<u8> {
    let mut bytes = b"gulargrp\x01\0\0\0".to_vec();
    bytes.extend(job.rank.to_le_bytes());
    bytes.extend(job.world_size.to_le_bytes());
    bytes.extend(blake3::hash(job.about.replace('/', "\n").as_bytes()).as_bytes());
    bytes
}
