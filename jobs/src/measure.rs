//! `gular job measure`: measures what a command and all processes that it starts need.
//!
//! Memory is counted as by HTCondor and Slurm: each process's own, and shared memory once. If a
//! cgroup can be made for the command, the kernel sums it up; otherwise it is the sum of
//! proportional set sizes (`Pss` of smaps_rollup), and of files in /dev/shm that nobody maps.

mod cgroup;
mod measured;
mod processes;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use self::cgroup::Cgroup;
pub use self::measured::{Measured, Share, options, requests};
use self::processes::{Memory, Processes};

/// Pause between checks whether the command has ended, and of the size of shared memory.
const TICK: Duration = Duration::from_millis(20);
/// Looking at processes takes this share of the time at most: one part in ten.
const PAUSE_FACTOR: u32 = 10;
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
/// Pause between measurements of the folder and the GPUs.
const SLOW_PAUSE: Duration = Duration::from_secs(1);
/// Most files of a folder that are summed up.
const MAX_FILES: usize = 500_000;

/// Runs a command and measures it until it ends.
///
/// The command writes to `folder`. Once `cancel` is set, it gets SIGTERM, and this waits for its
/// end.
///
/// # Errors
/// If the command cannot be started or waited for.
pub fn measure(
    program: &OsString,
    arguments: &[OsString],
    folder: &Path,
    cancel: &AtomicBool,
) -> io::Result<Measured> {
    let cgroup = Cgroup::create();
    let before = Before::look(folder);
    let disk = || written(folder, before.newest).bytes;
    let start = Instant::now();
    let mut child = start_in(cgroup.as_ref(), program, arguments)?;
    let mut processes = Processes::of(child.id());
    let mut measured = Measured {
        memory_by: if cgroup.is_some() { "cgroup" } else { "pss" },
        ..Measured::default()
    };
    let mut slow_at = Instant::now();
    let mut slow_pause = Duration::ZERO;
    let mut told = false;
    let mut memory = Memory::default();
    let mut memory_at = Instant::now();
    let mut memory_pause = Duration::ZERO;
    let status = loop {
        if memory_at.elapsed() >= memory_pause {
            let began = Instant::now();
            memory = processes.look();
            memory_at = Instant::now();
            memory_pause = SHORTEST_PAUSE.max(began.elapsed() * PAUSE_FACTOR);
        }
        // These measurements cost nothing, and shared memory changes faster than other memory.
        let shm = shm_used().saturating_sub(before.shm);
        measured.saw(memory, shm, cgroup.as_ref().and_then(Cgroup::bytes));
        if slow_at.elapsed() >= slow_pause {
            let began = Instant::now();
            measured.disk_bytes = measured.disk_bytes.max(disk());
            let gpus = gpu_bytes();
            let grown = gpus
                .iter()
                .enumerate()
                .map(|(i, now)| now.saturating_sub(before.gpus.get(i).copied().unwrap_or(0)));
            measured.gpu_bytes = grown.max().max(measured.gpu_bytes);
            slow_at = Instant::now();
            slow_pause = SLOW_PAUSE.max(began.elapsed() * PAUSE_FACTOR);
        }
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if cancel.load(Ordering::Relaxed) && !told {
            told = true;
            if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                // If the process is gone already, the loop sees that it has ended.
                let _ = kill_process(pid, Signal::TERM);
            }
        }
        sleep(TICK);
    };
    measured.seconds = start.elapsed().as_secs_f64();
    measured.cpu_seconds = (processes::children_seconds() - before.cpu_seconds).max(0.0);
    measured.disk_bytes = measured.disk_bytes.max(disk());
    measured.exit_code = code(status);
    Ok(measured)
}

/// The exit code; 128 + n for signal n, as in shells.
fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Starts the command. A shell first enters the cgroup, if there is one, and then becomes the
/// command.
fn start_in(
    cgroup: Option<&Cgroup>,
    program: &OsString,
    arguments: &[OsString],
) -> io::Result<Child> {
    let Some(cgroup) = cgroup else { return Command::new(program).args(arguments).spawn() };
    // The error of the shell below would name the cgroup's file.
    let mut look = Command::new("/bin/sh");
    look.args(["-c", "command -v -- \"$0\" > /dev/null && [ ! -d \"$0\" ]"]).arg(program);
    if !look.status()?.success() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "there is no such program"));
    }
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "echo 0 > \"$0\" && exec \"$@\""]).arg(cgroup.processes());
    command.arg(program).args(arguments).spawn()
}

/// The state before the command starts.
struct Before {
    shm: u64,
    /// Time of the last change below the folder.
    newest: Changed,
    gpus: Vec<u64>,
    cpu_seconds: f64,
}

impl Before {
    fn look(folder: &Path) -> Self {
        // nvidia-smi is a child, too: it is counted before.
        let gpus = gpu_bytes();
        Self {
            shm: shm_used(),
            newest: written(folder, Changed::default()).newest,
            gpus,
            cpu_seconds: processes::children_seconds(),
        }
    }
}

fn shm_used() -> u64 {
    let found = rustix::fs::statvfs("/dev/shm");
    found.map_or(0, |shm| shm.f_blocks.saturating_sub(shm.f_bfree).saturating_mul(shm.f_frsize))
}

/// Time of a file's last change, by the clock of its file system: seconds and nanoseconds.
type Changed = (i64, i64);

/// Files that were made or changed.
struct Written {
    /// Bytes that the files take on disk.
    bytes: u64,
    /// Time of the last change.
    newest: Changed,
}

/// Files below `folder` that were made or changed after `since`. Files that the command writes
/// again are counted, as in a job, which begins in an empty folder.
fn written(folder: &Path, since: Changed) -> Written {
    let mut written = Written { bytes: 0, newest: since };
    let (mut folders, mut left): (Vec<PathBuf>, usize) = (vec![folder.to_owned()], MAX_FILES);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(about) = entry.metadata() else { continue };
            if about.is_dir() {
                folders.push(entry.path());
            }
            let changed = (about.ctime(), about.ctime_nsec());
            if changed > since {
                written.bytes = written.bytes.saturating_add(about.blocks().saturating_mul(512));
                written.newest = written.newest.max(changed);
            }
            left = left.saturating_sub(1);
            if left == 0 {
                return written;
            }
        }
    }
    written
}

/// Memory used on each GPU; none where there is no nvidia-smi.
fn gpu_bytes() -> Vec<u64> {
    let arguments = ["--query-gpu=memory.used", "--format=csv,noheader,nounits"];
    let Ok(output) = Command::new("nvidia-smi").args(arguments).output() else { return Vec::new() };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mib = |line: &str| line.trim().parse::<u64>().ok();
    text.lines().filter_map(mib).map(|mib| mib.saturating_mul(1 << 20)).collect()
}
