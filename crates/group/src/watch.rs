//! The thread that watches a group: heartbeats, failures and the end.

use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::error::fold;
use super::link::{CLOSED, Link, readable, wait};
use super::lobby::TICK;
use super::shared::Shared;
use super::wire::Message;
use crate::Error;

/// Signs of life within the time after which a rank counts as lost.
const BEATS: u32 = 6;

/// How long sending the last messages may take.
const PARTING: Duration = Duration::from_secs(2);

/// Signs of life that may wait for a slow network; more would only fill memory.
const MAX_QUEUED: usize = 16 << 10;

/// A rank at the other end of a control connection.
pub(super) struct Member {
    pub(super) rank: u64,
    /// The member's address in messages.
    pub(super) address: String,
    pub(super) link: Link,
}

/// The thread, and what it is told; ends the training when dropped before [`Self::leave`].
pub(super) struct Watcher {
    pub(super) shared: Arc<Shared>,
    rank: u64,
    address: String,
    patience: Duration,
    thread: Option<JoinHandle<()>>,
    left: bool,
}

impl Watcher {
    /// Watches over `members`: all others for rank 0, rank 0 alone for the others.
    /// `address` is where this rank is, as it is told to the others.
    pub(super) fn start(
        rank: u64,
        address: String,
        members: Vec<Member>,
        lost_after: Duration,
    ) -> Result<Self, Error> {
        let failed = |e: io::Error| Error::Thread { reason: e.to_string() };
        let (waker, woken) = UnixStream::pair().map_err(failed)?;
        for pipe in [&waker, &woken] {
            pipe.set_nonblocking(true).map_err(failed)?;
        }
        let shared = Arc::new(Shared::new(Some(waker)));
        let now = Instant::now();
        let life = |member| Life { member, heard: now, begun: 0, goodbye: false };
        let watch = Watch {
            shared: Arc::clone(&shared),
            woken,
            rank,
            lives: members.into_iter().map(life).collect(),
            lost_after,
            beat: lost_after / BEATS,
            leaving: false,
            held: None,
        };
        let thread = thread::Builder::new().name("ranks".into()).spawn(|| watch.run());
        let thread = Some(thread.map_err(failed)?);
        // Rank 0 holds a symptom for two beats and a second.
        let patience = lost_after + Duration::from_secs(5);
        Ok(Self { shared, rank, address, patience, thread, left: false })
    }

    /// Ends the training with `error`; gives what it ended with.
    pub(super) fn end(&self, error: Error) -> Error {
        self.shared.report(error, self.patience)
    }

    /// Ends the training by this rank's own wish; returns when the others were told.
    pub(super) fn fail(&self, reason: &str) {
        let (rank, address) = (self.rank, self.address.clone());
        self.end(Error::Failed { rank, address, reason: reason.to_owned() });
        self.shared.wait_told(PARTING + TICK);
    }

    /// The orderly end, to which all others come within `limit`.
    pub(super) fn leave(mut self, limit: Duration) -> Result<(), Error> {
        if !self.shared.leave(limit)? {
            let reason = format!("no goodbye for {limit:?}");
            return Err(self.end(Error::Broken { rank: self.rank, other: 0, reason }));
        }
        self.left = true;
        Ok(())
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if !self.left && self.shared.failure().is_none() {
            let why =
                if thread::panicking() { "it panicked" } else { "it ended without a reason given" };
            self.fail(why);
        }
        if let Some(thread) = self.thread.take() {
            // The thread ends within `PARTING`, and it does not panic.
            let _ = thread.join();
        }
    }
}

/// A member, and the signs of life that it sent.
struct Life {
    member: Member,
    heard: Instant,
    begun: u64,
    goodbye: bool,
}

impl Life {
    fn lost(&self, reason: impl Into<String>) -> Error {
        let Member { rank, address, .. } = &self.member;
        Error::Lost { rank: *rank, address: address.clone(), reason: reason.into() }
    }
}

struct Watch {
    shared: Arc<Shared>,
    woken: UnixStream,
    rank: u64,
    lives: Vec<Life>,
    lost_after: Duration,
    beat: Duration,
    leaving: bool,
    /// A symptom, and until when a better explanation is waited for.
    held: Option<(Error, Instant)>,
}

impl Watch {
    fn run(mut self) {
        match self.watch() {
            Ok(()) => self.shared.set_parted(),
            Err(error) => {
                let callbacks = self.shared.settle(error);
                // Another thread may have been first.
                if let Some(failure) = self.shared.failure() {
                    self.tell(&failure);
                    callbacks.into_iter().for_each(|callback| callback(&failure));
                }
            }
        }
        self.part();
        self.shared.set_told();
    }

    /// Watches until the orderly end, or the failure.
    fn watch(&mut self) -> Result<(), Error> {
        let mut last_turn = Instant::now();
        let mut next_beat = last_turn;
        loop {
            let now = Instant::now();
            if now.duration_since(last_turn) > self.lost_after / 2 {
                // This process itself was stopped, and the messages of the others are still unread.
                self.lives.iter_mut().for_each(|life| life.heard = now);
            }
            last_turn = now;
            if now >= next_beat {
                next_beat = now + self.beat;
                let beat = Message::Beat { begun: self.shared.begun() };
                let links = self.lives.iter_mut().map(|life| &mut life.member.link);
                links.filter(|link| link.queued() < MAX_QUEUED).for_each(|link| link.queue(&beat));
            }
            self.follow_orders(now)?;
            if self.rank == 0 && self.leaving && self.lives.iter().all(|life| life.goodbye) {
                self.send_all(&Message::Goodbye);
                return Ok(());
            }
            if let Some((symptom, until)) = self.held.take() {
                if now >= until {
                    return Err(self.explained(symptom));
                }
                self.held = Some((symptom, until));
            }
            self.lives.iter_mut().for_each(|life| life.member.link.flush());
            self.wait(next_beat.saturating_duration_since(now));
            for index in 0..self.lives.len() {
                if self.listen(index)? {
                    return Ok(());
                }
            }
        }
    }

    fn follow_orders(&mut self, now: Instant) -> Result<(), Error> {
        let (reports, leaving, failure) = self.shared.orders();
        if let Some(failure) = failure {
            return Err(failure);
        }
        for report in reports {
            match self.rank {
                0 => self.judge(report, now)?,
                _ => self.send_all(&Message::Report(report)),
            }
        }
        if leaving && !self.leaving {
            self.leaving = true;
            if self.rank != 0 {
                self.send_all(&Message::Goodbye);
            }
        }
        Ok(())
    }

    /// On rank 0: a report ends the training run. A symptom does so only after a while, in which
    /// the connection to the rank that caused it may end.
    fn judge(&mut self, report: Error, now: Instant) -> Result<(), Error> {
        if !report.is_symptom() {
            return Err(report);
        }
        let until = now + self.beat * 2 + Duration::from_secs(1);
        self.held.get_or_insert((report, until));
        Ok(())
    }

    /// A stalled operation, with those who have not begun it.
    fn explained(&self, symptom: Error) -> Error {
        let Error::Stalled { number, operation, waited, waiting } = symptom else {
            return symptom;
        };
        let mine = (self.rank, self.shared.begun());
        let others = self.lives.iter().map(|life| (life.member.rank, life.begun));
        let late = std::iter::once(mine).chain(others);
        let late: Vec<u64> =
            late.filter(|(_, begun)| *begun < number).map(|(rank, _)| rank).collect();
        let waiting = match late.as_slice() {
            [] => format!("all ranks have begun it; {waiting}"),
            [one] => match self.lives.iter().find(|life| life.member.rank == *one) {
                Some(life) => format!("rank {one} ({}) has not begun it", life.member.address),
                None => format!("rank {one} has not begun it"),
            },
            many => format!("ranks {} have not begun it", fold(many.iter().copied())),
        };
        Error::Stalled { number, operation, waited, waiting }
    }

    /// Takes what one member says; whether that was the orderly end.
    fn listen(&mut self, index: usize) -> Result<bool, Error> {
        let now = Instant::now();
        let Some(life) = self.lives.get_mut(index) else { return Ok(false) };
        if life.member.link.pull() {
            life.heard = now;
        }
        let mut reports = Vec::new();
        loop {
            match life.member.link.next_message() {
                Ok(None) => break,
                Ok(Some(Message::Beat { begun })) => life.begun = begun,
                Ok(Some(Message::Report(error))) if self.rank == 0 => reports.push(error),
                Ok(Some(Message::Verdict(error))) if self.rank != 0 => return Err(error),
                Ok(Some(Message::Goodbye)) if self.rank == 0 => life.goodbye = true,
                Ok(Some(Message::Goodbye)) if self.leaving => return Ok(true),
                Ok(Some(_)) | Err(_) => return Err(life.lost("it sent bytes that no rank sends")),
            }
        }
        let gone = life.member.link.ended().then(|| life.lost(CLOSED));
        let silent = now.duration_since(life.heard) >= self.lost_after;
        let silent =
            silent.then(|| life.lost(format!("no sign of life for {:?}", self.lost_after)));
        for report in reports {
            self.judge(report, now)?;
        }
        gone.or(silent).map_or(Ok(false), Err)
    }

    /// Tells the members of the failure; who lost rank 0 tells it so, should it come back.
    fn tell(&mut self, failure: &Error) {
        self.send_all(&match self.rank {
            0 => Message::Verdict(failure.clone()),
            _ => Message::Report(failure.clone()),
        });
        if let Error::Lost { rank, .. } = failure {
            // This member reads nothing more, so nobody waits for it.
            let gone = |life: &mut Life| life.member.rank != *rank;
            self.lives.retain_mut(gone);
        }
    }

    fn send_all(&mut self, message: &Message) {
        let bytes = message.encode();
        for Life { member, .. } in &mut self.lives {
            member.link.queue_bytes(&bytes);
            member.link.flush();
        }
    }

    /// Sends the rest and waits until the others have closed: a connection that is closed
    /// with input unread is reset, which can cost the other side our last words.
    fn part(&mut self) {
        let begun = Instant::now();
        let mut told = false;
        while begun.elapsed() < PARTING {
            for Life { member: Member { link, .. }, .. } in &mut self.lives {
                if link.queued() > 0 {
                    link.flush();
                }
                if link.queued() == 0 {
                    link.shut_output();
                }
                link.pull();
                link.discard();
            }
            if !told && self.lives.iter().all(|life| life.member.link.queued() == 0) {
                told = true;
                self.shared.set_told();
            }
            self.lives.retain(|life| !life.member.link.ended());
            if self.lives.is_empty() {
                return;
            }
            self.wait(TICK);
        }
    }

    fn wait(&mut self, limit: Duration) {
        let mut fds = vec![readable(self.woken.as_fd())];
        fds.extend(self.lives.iter().map(|life| life.member.link.poll_fd()));
        if wait(&mut fds, limit).is_err() {
            // Only a lack of memory can cause this; the sockets are read in any case.
            thread::sleep(TICK.min(limit));
        }
        drop(fds);
        let mut bytes = [0; 64];
        loop {
            match self.woken.read(&mut bytes) {
                Ok(1..) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return,
            }
        }
    }
}
