//! File systems without flock, without fsync of folders, and on which an open file that is removed
//! keeps another name; a preloaded library imitates them.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking and says when it skips"
)]

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gular_tests::{Outcome, files, finish, gular, jpeg, noisy_png, put};

/// Answers as Lustre does without its option `flock`, and as CIFS does for folders. Each answer
/// adds a letter to the file `GULAR_TEST_ANSWERS`. An open file that is removed is renamed until it
/// is closed, as on NFS.
const LIBRARY: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/stat.h>
#include <unistd.h>

static int refuse(char letter, int error) {
    const char *path = getenv("GULAR_TEST_ANSWERS");
    int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT, 0600) : -1;
    if (fd >= 0) {
        if (write(fd, &letter, 1) < 0) {}
        close(fd);
    }
    errno = error;
    return -1;
}

int flock(int fd, int operation) {
    (void)fd;
    (void)operation;
    return refuse('l', ENOSYS);
}

int fsync(int fd) {
    struct stat found;
    if (fstat(fd, &found) == 0 && S_ISDIR(found.st_mode)) return refuse('s', EINVAL);
    int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    return next(fd);
}

int unlinkat(int folder, const char *name, int flags) {
    struct stat file, open;
    if (!(flags & AT_REMOVEDIR) && fstatat(folder, name, &file, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(file.st_mode)) {
        for (int fd = 0; fd < 256; fd++) {
            if (fstat(fd, &open) != 0 || open.st_dev != file.st_dev || open.st_ino != file.st_ino) continue;
            const char *slash = strrchr(name, '/');
            int len = slash ? (int)(slash + 1 - name) : 0;
            char other[4096];
            snprintf(other, sizeof other, "%.*s.nfs%lu", len, name, (unsigned long)file.st_ino);
            refuse('n', 0);
            return renameat(folder, name, folder, other);
        }
    }
    return syscall(SYS_unlinkat, folder, name, flags);
}

int unlink(const char *name) {
    return unlinkat(AT_FDCWD, name, 0);
}

int close(int fd) {
    char link[64], name[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, name, sizeof name - 1);
    int closed = syscall(SYS_close, fd);
    if (len > 0) {
        name[len] = 0;
        const char *slash = strrchr(name, '/');
        if (slash && strncmp(slash, "/.nfs", 5) == 0) syscall(SYS_unlinkat, AT_FDCWD, name, 0);
    }
    return closed;
}
"#;

/// A machine whose file systems have no flock.
struct Machine {
    dir: tempfile::TempDir,
    library: PathBuf,
}

impl Machine {
    /// Makes the machine; `None`, with a message, if there is no C compiler.
    fn new() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let (code, library) = (dir.path().join("no_flock.c"), dir.path().join("no_flock.so"));
        fs::write(&code, LIBRARY).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&code).arg("-ldl");
        match cc.output() {
            Err(error) => {
                println!("skip no_flock: no `cc` ({error}), install: apt-get install gcc");
                return None;
            }
            Ok(built) => assert!(built.status.success(), "{built:?}"),
        }
        let machine = Self { dir, library };
        for i in 0..8 {
            put(&machine.at("images"), format!("c{}/{i}.jpg", i % 2), &jpeg(i));
        }
        put(&machine.at("images"), "c0/large.png", &noisy_png(1, 700));
        Some(machine)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(gular());
        command
            .args(args)
            .env("LD_PRELOAD", &self.library)
            .env("GULAR_TEST_ANSWERS", self.at("answers"))
            .env("GULAR_CACHE", self.at("cache"));
        command
    }

    /// Runs the program to its end, and returns which answers were given: `l` for flock, `s` for a
    /// folder's fsync.
    fn run(&self, args: &[&str]) -> (Outcome, String) {
        let _ = fs::remove_file(self.at("answers"));
        let outcome = finish(&mut self.command(args));
        (outcome, fs::read_to_string(self.at("answers")).unwrap_or_default())
    }

    /// Runs a command that must succeed although flock was refused.
    fn done(&self, args: &[&str]) -> String {
        let (outcome, answers) = self.run(args);
        assert_eq!(outcome.code, Some(0), "{args:?} {outcome:?}");
        assert!(answers.contains('l'), "{args:?} took no lock");
        outcome.stdout
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Checks that no file of a lock is left.
fn no_locks_below(dir: &Path) {
    let is_lock = |name: &Path| {
        let name = name.to_string_lossy();
        name.contains(".held") || name.contains(".shared-") || name.ends_with(".lock")
    };
    let left: Vec<_> =
        files(dir).into_iter().map(|(name, _)| name).filter(|n| is_lock(n)).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn every_verb_that_locks_does_its_work() {
    let Some(machine) = Machine::new() else { return };
    let (images, bundle) = (machine.at("images"), machine.at("bundle"));
    machine.done(&["pack", text(&images), text(&bundle)]);
    let (outcome, answers) = machine.run(&["verify", text(&bundle)]);
    assert_eq!((outcome.code, answers.contains('l')), (Some(0), false), "{outcome:?}");
    machine.done(&["convert", text(&bundle), text(&machine.at("tar")), "--envelope", "tar"]);
    let directory = ["--envelope", "directory"];
    let plain = machine.at("plain");
    machine.done(&[&["convert", text(&bundle), text(&plain)], &directory[..]].concat());
    machine.done(&["export", text(&bundle), "--tar-zst", text(&machine.at("b.tar.zst"))]);
    let shards = machine.at("tar/data");
    let shards = shards.read_dir().unwrap().map(|e| e.unwrap().path());
    let tar = shards.into_iter().find(|p| p.extension().is_some_and(|e| e == "tar")).unwrap();
    machine.done(&["adopt", text(&tar), "--out", text(&machine.at("adopted"))]);
    let url = format!("file://{}", text(&machine.at("site/birds/v1")));
    let (published, _) = machine.run(&["publish", text(&bundle), &url, "--json"]);
    assert_eq!(published.code, Some(0), "{published:?}");
    let published: serde_json::Value = serde_json::from_str(&published.stdout).unwrap();
    let pinned = published["url"].as_str().unwrap();
    let fetched = machine.at("fetched");
    machine.done(&["fetch", pinned, text(&fetched)]);
    assert!(files(&fetched) == files(&bundle));
    let to = machine.at("to");
    fs::create_dir(&to).unwrap();
    let seen = machine.at("seen");
    let stage = ["stage", text(&bundle), "--to", text(&to)];
    machine.done(&[&stage[..], &["--", "cp", "-r", "{}", text(&seen)]].concat());
    assert!(files(&seen) == files(&bundle));
    // The bundle is staged from the node's cache.
    let stage = ["stage", pinned, "--to", text(&to), "--unpack"];
    let unpacked = machine.at("unpacked");
    machine.done(&[&stage[..], &["--", "cp", "-r", "{}", text(&unpacked)]].concat());
    assert!(files(&unpacked) == files(&plain));
    assert_eq!(fs::read_dir(&to).unwrap().count(), 0);
    no_locks_below(machine.dir.path());
}

#[test]
fn folders_that_cannot_be_synced_are_taken_as_they_are() {
    let Some(machine) = Machine::new() else { return };
    let bundle = machine.at("bundle");
    let (packed, answers) = machine.run(&["pack", text(&machine.at("images")), text(&bundle)]);
    assert_eq!(packed.code, Some(0), "{packed:?}");
    assert!(answers.contains('s'), "no folder was synced: {answers}");
    let url = format!("file://{}", text(&machine.at("site/birds/v1")));
    for args in [
        &["publish", text(&bundle), &url][..],
        &["fetch", &url, text(&machine.at("fetched"))],
        &["export", text(&bundle), "--tar-zst", text(&machine.at("b.tar.zst"))],
    ] {
        let (outcome, answers) = machine.run(args);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        assert!(answers.contains('s'), "{args:?} synced no folder: {answers}");
    }
}

#[test]
fn one_holds_a_folder_and_a_killed_holder_is_followed_at_once() {
    let Some(machine) = Machine::new() else { return };
    let (bundle, to) = (machine.at("bundle"), machine.at("to"));
    machine.done(&["pack", text(&machine.at("images")), text(&bundle)]);
    fs::create_dir(&to).unwrap();
    let stage = ["stage", text(&bundle), "--to", text(&to)];
    let mut holder =
        machine.command(stage).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let copy = PathBuf::from(line.trim_end());
    assert!(copy.join("manifest.json").is_file(), "{line}");
    // A second process shares the copy, and leaves it to the first.
    let shared = machine.done(&[&stage[..], &["--json", "--", "true"]].concat());
    assert!(shared.contains("\"shared\":true"), "{shared}");
    assert!(copy.join("manifest.json").is_file());
    holder.kill().unwrap();
    holder.wait().unwrap();
    // The copy that the killed process left belongs to nobody: the next one removes it and makes
    // its own.
    let begin = std::time::Instant::now();
    let after = machine.done(&[&stage[..], &["--json", "--", "true"]].concat());
    assert!(after.contains("\"removed\":1"), "{after}");
    assert!(begin.elapsed().as_secs() < 30, "{:?}", begin.elapsed());
    assert_eq!(fs::read_dir(&to).unwrap().count(), 0);
    no_locks_below(machine.dir.path());
}
