//! A process with a time limit.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::{Means, Outcome, Replay};
use crate::{Error, Result};

/// Number of bytes that are kept of a process's standard error.
const TAIL: u64 = 4096;
/// Most bytes that are read of a process's standard output.
const MAX_OUT: u64 = 4 << 20;
const PAUSE: Duration = Duration::from_millis(10);

/// Runs a line; its standard output comes beside.
pub(super) fn run(
    name: &'static str,
    command: &mut Command,
    means: &Means<'_>,
) -> Result<(Replay, String)> {
    let temp = || tempfile::tempfile_in(means.temp).map_err(Error::io("create", means.temp));
    let (mut out, mut err) = (temp()?, temp()?);
    let clone = |file: &File| file.try_clone().map_err(Error::io("open", means.temp));
    command.stdin(Stdio::null()).stdout(clone(&out)?).stderr(clone(&err)?);
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let line = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let mut replay =
        Replay { name, line, outcome: Outcome::Failed, why: None, stderr: String::new() };
    let mut child = match gular_files::start_written(command) {
        Ok(child) => child,
        Err(e) => {
            replay.outcome = Outcome::NotPossible;
            replay.why = Some(format!("it cannot be started: {e}"));
            return Ok((replay, String::new()));
        }
    };
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(Error::io("wait for", means.program))? {
            break Some(status);
        }
        let cancelled = means.cancel.load(Ordering::Relaxed);
        if cancelled || start.elapsed() > means.timeout {
            // It does not matter whether the process has ended by itself now.
            let _ = child.kill();
            let _ = child.wait();
            if cancelled {
                return Err(Error::Cancelled);
            }
            break None;
        }
        thread::sleep(PAUSE);
    };
    replay.stderr = tail(&mut err).map_err(Error::io("read", means.temp))?;
    match status {
        None => replay.why = Some(format!("it took over {} s", means.timeout.as_secs())),
        Some(status) if status.success() => replay.outcome = Outcome::Ok,
        Some(status) => replay.why = Some(format!("it ended with {status}")),
    }
    let mut text = Vec::new();
    out.rewind().map_err(Error::io("read", means.temp))?;
    out.take(MAX_OUT).read_to_end(&mut text).map_err(Error::io("read", means.temp))?;
    Ok((replay, String::from_utf8_lossy(&text).into_owned()))
}

fn tail(file: &mut File) -> std::io::Result<String> {
    let len = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(len.saturating_sub(TAIL)))?;
    let mut text = Vec::new();
    file.take(TAIL).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).trim_end().to_owned())
}
