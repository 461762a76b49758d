//! Runs of `gular`, which are killed at random moments and started again until they succeed.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use xtask::process::{self, command};

use super::chance::Chance;
use super::faults::Faults;
use super::federation::Faulty;

/// A command that neither succeeds after so many runs nor is killed does not work. The same request
/// meets no more than six faults, each of which may end a run.
const MAX_RUNS: u32 = 16;
/// A command is killed so often at most.
const MAX_KILLS: u32 = 4;
/// The share of runs that are killed, in percent.
const KILLED: u64 = 70;
/// The first and the last moment at which a run is killed; earlier ones are more likely, since most
/// runs take less than a second.
const FIRST_KILL_MS: u64 = 30;
const LAST_KILL_MS: u64 = 4_000;
/// A client gives up after three minutes without progress, so a run that takes longer does not end.
const TIME_LIMIT: Duration = Duration::from_secs(240);
/// How long a batch system would wait before it tries again. All runs together wait longer than a
/// server is away.
const LATER: Duration = Duration::from_millis(500);
/// How often a run is looked at.
const POLL: Duration = Duration::from_millis(5);

/// What happened to all runs.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) runs: AtomicU32,
    pub(super) kills: AtomicU32,
    /// Runs that ended with 75.
    pub(super) later: AtomicU32,
    /// Runs that refused an object about which the origin had lied, or that a server did not know
    /// yet when it started.
    pub(super) refused: AtomicU32,
    /// What must not happen, one line each.
    faults: Mutex<Vec<String>>,
}

impl Tally {
    pub(super) fn fault(&self, text: String) {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }

    pub(super) fn faults(&self) -> Vec<String> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What all clients share.
pub(super) struct Surroundings<'a> {
    pub(super) gular: &'a Path,
    pub(super) servers: &'a Faulty,
    pub(super) chance: Chance,
    pub(super) faults: &'a Faults,
    pub(super) tally: &'a Tally,
    /// For what the runs print.
    pub(super) logs: &'a Path,
}

/// One client, with a cache and a temporary folder of its own.
pub(super) struct Client<'a> {
    pub(super) at: &'a Surroundings<'a>,
    pub(super) number: usize,
    /// Its folder.
    pub(super) home: PathBuf,
}

/// How a run ended.
enum End {
    Done,
    Later,
    Killed,
    /// It did not end, and was killed for that.
    Hung,
    Other(ExitStatus),
}

impl Client<'_> {
    /// Runs `gular ARGS --json` until it succeeds; returns what it printed then. A fault is noted,
    /// and `None` returned, if it does not.
    pub(super) fn run(&self, name: &str, args: &[OsString]) -> Result<Option<String>> {
        let (mut runs, mut kills) = (0, 0);
        for number in 0.. {
            let id = format!("{name}-{}-{number}", self.number);
            let kill_at = self.kill_at(&id).filter(|_| kills < MAX_KILLS);
            let log = self.at.logs.join(&id);
            let (lies, begun) = (self.at.faults.lies(), Instant::now());
            let end = self.run_once(&log, args, kill_at)?;
            self.at.tally.runs.fetch_add(1, Relaxed);
            match end {
                End::Done => return Ok(Some(fs::read_to_string(out_of(&log))?)),
                End::Killed => {
                    kills += 1;
                    self.at.tally.kills.fetch_add(1, Relaxed);
                    continue;
                }
                End::Later => {
                    self.at.tally.later.fetch_add(1, Relaxed);
                    sleep(LATER);
                }
                End::Hung => self.fault(&id, "it did not end", args),
                End::Other(status) => {
                    let said = fs::read_to_string(err_of(&log)).unwrap_or_default();
                    let is_refusal = matches!(status.code(), Some(1 | 2));
                    let errors = || said.lines().filter(|line| line.starts_with("error: "));
                    // A folder has an error per object, and the worst decides the exit code.
                    let mut refused = errors();
                    let is_lie = |line| {
                        let faults = self.at.faults;
                        faults.is_about_a_lie(lies, line) || faults.is_of_a_start(begun, line)
                    };
                    let said = errors().next().unwrap_or("it printed no error");
                    if is_refusal && refused.any(is_lie) {
                        self.at.tally.refused.fetch_add(1, Relaxed);
                        sleep(LATER);
                        runs += 1;
                        continue;
                    }
                    self.fault(&id, &format!("{status}: {said}"), args);
                }
            }
            runs += 1;
            if runs >= MAX_RUNS {
                self.fault(&id, "it did not succeed", args);
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Notes what must not happen. The arguments have no secrets.
    fn fault(&self, id: &str, what: &str, args: &[OsString]) {
        let args: Vec<_> = args.iter().map(|arg| arg.to_string_lossy()).collect();
        self.at.tally.fault(format!("{id}: {what}; gular {}", args.join(" ")));
    }

    /// The time after which a run is killed.
    fn kill_at(&self, id: &str) -> Option<Duration> {
        let mut roll = self.at.chance.about(&format!("kill {id}"));
        let is_killed = roll.percent(KILLED) && !self.at.faults.is_calm();
        let latest = LAST_KILL_MS >> roll.below(5);
        is_killed.then(|| Duration::from_millis(FIRST_KILL_MS + roll.below(latest)))
    }

    fn run_once(&self, log: &Path, args: &[OsString], kill_at: Option<Duration>) -> Result<End> {
        let mut gular = command(self.at.gular);
        // Nothing else of the environment: it may have tokens, proxies and caches.
        gular.env_clear().env("HOME", &self.home).env("TMPDIR", self.temps());
        gular.env("GULAR_CACHE", self.cache());
        gular.env("SSL_CERT_FILE", &self.at.servers.ca_file);
        match self.number % 2 {
            0 => gular.env("BEARER_TOKEN", &self.at.servers.token),
            _ => gular.env("BEARER_TOKEN_FILE", &self.at.servers.token_file),
        };
        gular.args(args).args(["--json", "--jobs", "8"]);
        gular.stdout(File::create(out_of(log))?).stderr(File::create(err_of(log))?);
        let child = gular.spawn().with_context(|| process::cannot_start(&gular))?;
        wait(child, kill_at)
    }

    /// The node's cache.
    pub(super) fn cache(&self) -> PathBuf {
        self.home.join("cache")
    }

    /// The folder for temporary files.
    pub(super) fn temps(&self) -> PathBuf {
        self.home.join("tmp")
    }
}

/// Waits for the end of a run, and kills it at the given time.
fn wait(mut child: Child, kill_at: Option<Duration>) -> Result<End> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(match status.code() {
                Some(0) => End::Done,
                Some(75) => End::Later,
                _ => End::Other(status),
            });
        }
        let is_due = kill_at.is_some_and(|at| begun.elapsed() >= at);
        if is_due || begun.elapsed() > TIME_LIMIT {
            child.kill()?;
            // It may have ended by itself meanwhile; what it left is checked in any case.
            child.wait()?;
            return Ok(if is_due { End::Killed } else { End::Hung });
        }
        sleep(POLL);
    }
}

fn out_of(log: &Path) -> PathBuf {
    log.with_extension("out")
}

fn err_of(log: &Path) -> PathBuf {
    log.with_extension("err")
}
