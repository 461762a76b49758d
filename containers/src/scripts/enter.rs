//! Enters a folder as the root of a system of its own, in a user namespace.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::singularity::{is_variable, quoted};
use crate::{Error, Result};

/// Run by this machine's shell in the namespace. `root` is moved over the machine's own root, which
/// nothing inside can reach then: no path leads below a root, and to unmount needs a capability that
/// is dropped first. Nothing of the machine is left but these devices, and `own` and `tmp`, which
/// are mounted in it. Until then, no program of the image runs.
///
/// If a user namespace is made by root, its root is root of the machine for `/proc`: settings of
/// the kernel are mounted read-only, and devices keep their modes. They stay so, since nothing inside
/// can mount: no further user namespace, which would have the capability for it, can be made.
const ENTER: &str = r#"set -e
root=$1/root
mount --bind "$root" "$root"
mount --bind "$1/own" "$root/.gular"
mount -t proc proc "$root/proc"
echo 0 >"$root/proc/sys/user/max_user_namespaces"
for name in bus fs irq sys sysrq-trigger; do
    [ -e "$root/proc/$name" ] || continue
    mount --bind "$root/proc/$name" "$root/proc/$name"
    mount -o remount,bind,ro "$root/proc/$name"
done
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mkdir -m 1777 "$root/dev/shm"
for name in null zero full random urandom; do
    : >"$root/dev/$name"
    mount --bind "/dev/$name" "$root/dev/$name"
    mount -o remount,bind,ro "$root/dev/$name" 2>/dev/null || true
done
ln -s /proc/self/fd "$root/dev/fd"
ln -s /proc/self/fd/0 "$root/dev/stdin"
ln -s /proc/self/fd/1 "$root/dev/stdout"
ln -s /proc/self/fd/2 "$root/dev/stderr"
mkdir "$1/tmp"
[ ! -d "$root/tmp" ] || cp -a "$root/tmp/." "$1/tmp/"
chmod 1777 "$1/tmp"
mount --bind "$1/tmp" "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mkdir -m 1777 "$root/run/lock"
{ echo localhost >/proc/sys/kernel/hostname; } 2>/dev/null || true
cd "$root"
mount --no-mtab --move . /
exec setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin chroot . /bin/sh "$2"
"#;

/// What the namespace must allow.
const ALLOWED: &str = r#"set -e
command -v chroot
mount -t tmpfs none "$1"
mkdir "$1/proc"
mount -t proc proc "$1/proc"
echo 0 >"$1/proc/sys/user/max_user_namespaces"
cd "$1"
mount --no-mtab --move . /
"#;

/// The folders of programs, on this machine and inside.
pub(super) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

const PAUSE: Duration = Duration::from_millis(10);
/// How often the last line is told.
const EACH_LINE: Duration = Duration::from_millis(200);
/// Bytes that are kept of what scripts print.
const TAIL: u64 = 64 << 10;

/// Called with the last line that a script has printed, a few times per second.
pub(crate) type OnLine<'a> = &'a (dyn Fn(&str) + Sync);

/// A folder that is entered.
#[derive(Clone, Copy)]
pub(super) struct Enter<'a> {
    /// `unshare` of util-linux.
    pub(super) unshare: &'a Path,
    /// The folder of [`Scratch`](super::scratch::Scratch).
    pub(super) dir: &'a Path,
    /// Whether the network of this machine is seen inside.
    pub(super) network: bool,
    /// The longest time that it may take.
    pub(super) limit: Option<Duration>,
    /// Told what is printed, while it runs.
    pub(super) on_line: Option<OnLine<'a>>,
    /// Set when the work is to stop.
    pub(super) cancel: &'a AtomicBool,
}

/// How a process ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// Whether it ended well.
    pub(super) ok: bool,
    /// Its exit status or signal.
    pub(super) how: String,
    /// The end of what it printed.
    pub(super) said: String,
}

/// Why user namespaces cannot be used here; `None` if they can.
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn allowed(unshare: &Path, temp: &Path) -> Result<Option<String>> {
    let dir = tempfile::TempDir::with_prefix_in("gular-namespace-", temp);
    let dir = dir.map_err(Error::io("create", temp))?;
    let mut command = namespace(unshare, false);
    command.args(["sh", "-c", ALLOWED, "sh"]);
    command.arg(dir.path());
    let ended = match ended(command, dir.path(), None, None, &AtomicBool::new(false)) {
        Err(Error::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Some("`setpriv` of util-linux is not installed".to_owned()));
        }
        ended => ended?,
    };
    let last = ended.said.lines().last().unwrap_or("`chroot` is missing").to_owned();
    Ok((!ended.ok).then_some(last))
}

fn namespace(unshare: &Path, network: bool) -> Command {
    // If this process is killed, so is all that runs in the namespace.
    let mut command = Command::new("setpriv");
    command.env_clear().env("PATH", PATH);
    command.args(["--pdeathsig", "KILL"]).arg(unshare);
    command.args(["--user", "--map-root-user", "--mount", "--pid", "--ipc", "--uts"]);
    command.args(["--fork", "--kill-child"]);
    if !network {
        command.arg("--net");
    }
    // Nothing in it can type into the terminal that the build was started from.
    command.args(["setsid", "--wait"]);
    command
}

impl Enter<'_> {
    /// Runs a script of the folder by the `sh` of the tree.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Cancelled`].
    pub(super) fn script(&self, script: &str) -> Result<Ended> {
        let mut command = namespace(self.unshare, self.network);
        command.args(["sh", "-c", ENTER, "sh"]).arg(self.dir).arg(script);
        ended(command, self.dir, self.limit, self.on_line, self.cancel)
    }
}

/// The lines that set variables inside. Outside, they could change what the programs of this machine
/// do.
pub(super) fn exports<'a>(env: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    // A base image may have variables that no shell can set.
    let known = env.into_iter().filter(|(name, _)| is_variable(name));
    known.map(|(name, value)| format!("export {name}={}\n", quoted(value))).collect()
}

/// Reads what a command prints, while it runs.
struct Follow<'a> {
    path: &'a Path,
    tell: OnLine<'a>,
    /// Where the next bytes are.
    at: u64,
    told: Instant,
}

impl Follow<'_> {
    /// Tells the last line, unless nothing was printed since. What cannot be read is not told.
    fn on(&mut self) {
        if self.told.elapsed() < EACH_LINE {
            return;
        }
        self.told = Instant::now();
        let Some(printed) = self.printed().filter(|printed| !printed.is_empty()) else { return };
        let text = String::from_utf8_lossy(&printed);
        // A progress bar writes over its line.
        let mut lines = text.rsplit(['\n', '\r']).map(str::trim);
        if let Some(line) = lines.find(|line| !line.is_empty()) {
            (self.tell)(line);
        }
    }

    fn printed(&mut self) -> Option<Vec<u8>> {
        let mut file = File::open(self.path).ok()?;
        let len = file.metadata().ok()?.len();
        let from = self.at.max(len.saturating_sub(TAIL));
        self.at = len;
        file.seek(SeekFrom::Start(from)).ok()?;
        let mut printed = Vec::new();
        file.take(len.saturating_sub(from)).read_to_end(&mut printed).ok()?;
        Some(printed)
    }
}

/// Runs a command to its end. What it prints goes to a file in `dir`.
fn ended(
    mut command: Command,
    dir: &Path,
    limit: Option<Duration>,
    on_line: Option<OnLine<'_>>,
    cancel: &AtomicBool,
) -> Result<Ended> {
    let path = dir.join("printed");
    let out = File::create(&path).map_err(Error::io("create", &path))?;
    let errors = out.try_clone().map_err(Error::io("open", &path))?;
    command.stdin(Stdio::null()).stdout(out).stderr(errors);
    let program = PathBuf::from(command.get_program());
    // An open folder of the caller would be a way out.
    gular_files::keep_open_files().map_err(Error::io("read", Path::new("/proc/self/fd")))?;
    let mut child = command.spawn().map_err(Error::io("start", &program))?;
    let start = Instant::now();
    let mut follow = on_line.map(|tell| Follow { path: &path, tell, at: 0, told: start });
    let (ok, how) = loop {
        if let Some(status) = child.try_wait().map_err(Error::io("wait for", &program))? {
            break (status.success(), status.to_string());
        }
        let cancelled = cancel.load(Ordering::Relaxed);
        if cancelled || limit.is_some_and(|limit| start.elapsed() > limit) {
            let _ = child.kill();
            let _ = child.wait();
            if cancelled {
                return Err(Error::Cancelled);
            }
            break (false, "it took too long".to_owned());
        }
        if let Some(follow) = &mut follow {
            follow.on();
        }
        thread::sleep(PAUSE);
    };
    let mut said = Vec::new();
    let mut file = File::open(&path).map_err(Error::io("open", &path))?;
    let len = file.metadata().map_err(Error::io("read", &path))?.len();
    let read = file.seek(SeekFrom::Start(len.saturating_sub(TAIL)));
    read.and_then(|_| file.take(TAIL).read_to_end(&mut said)).map_err(Error::io("read", &path))?;
    fs::remove_file(&path).map_err(Error::io("remove", &path))?;
    Ok(Ended { ok, how, said: String::from_utf8_lossy(&said).into_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_told_once_while_a_script_runs() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("printed");
        let told = std::sync::Mutex::new(Vec::new());
        let tell = |line: &str| told.lock().unwrap().push(line.to_owned());
        let long_ago = Instant::now().checked_sub(EACH_LINE * 2).unwrap();
        let mut follow = Follow { path: &path, tell: &tell, at: 0, told: long_ago };
        for printed in ["", "one\ntwo\n", "one\ntwo\n", "one\ntwo\n 10 %\r 20 %\n\n"] {
            fs::write(&path, printed).unwrap();
            follow.told = long_ago;
            follow.on();
            // Not so soon again.
            fs::write(&path, format!("{printed}more")).unwrap();
            follow.on();
            fs::write(&path, printed).unwrap();
        }
        assert_eq!(*told.lock().unwrap(), ["two", "20 %"]);
    }
}
