//! Shared by the whole-program tests: the programs, images to feed them, and what they printed.

#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The exit code and the output of a program.
#[derive(Debug)]
pub struct Outcome {
    /// Exit code; `None` if a signal ended the program.
    pub code: Option<i32>,
    /// All of stdout.
    pub stdout: String,
    /// All of stderr.
    pub stderr: String,
}

/// The `gular` program: `GULAR_BIN`, or the one built beside this test.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn gular() -> PathBuf {
    program("GULAR_BIN", "gular")
}

fn program(variable: &str, name: &str) -> PathBuf {
    if let Some(path) = std::env::var_os(variable) {
        return path.into();
    }
    let test = std::env::current_exe().expect("a running test has a path");
    // The test is target/<profile>/deps/<test>, and the programs are one folder up.
    let beside = test.ancestors().nth(2).map(|dir| dir.join(name)).unwrap_or_default();
    assert!(
        beside.is_file(),
        "no program `{}`: run `cargo xtask test`, or `cargo build -p {name}` first",
        beside.display()
    );
    beside
}

/// Runs `gular` with `args`.
///
/// # Panics
/// When it cannot be started or prints no UTF-8.
pub fn run<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Outcome {
    finish(Command::new(gular()).args(args))
}

/// Runs a prepared command to its end.
///
/// # Panics
/// As [`run`].
pub fn finish(command: &mut Command) -> Outcome {
    // A program copied just now may still be open for writing in a child that
    // another test is starting.
    let busy = |e: &std::io::Error| e.kind() == std::io::ErrorKind::ExecutableFileBusy;
    let mut output = command.stdin(Stdio::null()).output();
    while output.as_ref().is_err_and(busy) {
        std::thread::sleep(std::time::Duration::from_millis(10));
        output = command.output();
    }
    let output = output.expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the program prints UTF-8");
    Outcome { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Returns the verbs that a help lists: a line of each has its name and what it does.
#[must_use]
pub fn verbs(help: &str) -> Vec<&str> {
    let lists = help.split("\nExample").next().unwrap_or_default();
    let lines = lists.lines().filter_map(|line| line.strip_prefix("  ")?.split_once("  "));
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase());
    lines.map(|(name, _)| name).filter(|name| is_name(name) && *name != "help").collect()
}

/// Returns a different JPEG for each `i`.
///
/// # Panics
/// Never: the sizes are valid.
#[must_use]
pub fn jpeg(i: u32) -> Vec<u8> {
    let (w, h) = (40 + i % 23, 30 + i % 7);
    let pixels: Vec<u8> = (0..w * h * 3).map(|p| ((p * 7) ^ (i * 31)) as u8).collect();
    gular_codec::encode_jpeg(&pixels, w, h, 85).expect("a small picture encodes")
}

/// Returns a different PNG for each `i`, of noise, so that it takes `side`² · 3 bytes.
///
/// # Panics
/// Never: the sizes are valid.
#[must_use]
pub fn noisy_png(i: u32, side: u32) -> Vec<u8> {
    let mut state = u64::from(i) + 1;
    let noise = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    let pixels: Vec<u8> = (0..side * side * 3).map(noise).collect();
    gular_codec::encode_png(&pixels, side, side).expect("a small picture encodes")
}

/// Writes a file and its folders.
///
/// # Panics
/// When the disk refuses.
pub fn put(dir: &Path, name: impl AsRef<Path>, bytes: &[u8]) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().expect("a file lies in a folder"))
        .expect("folders can be made");
    fs::write(path, bytes).expect("a file can be written");
}

/// The data, in JSON, of a page in one file, such as `gular inspect --page` writes.
///
/// # Panics
/// When the page has none.
#[must_use]
pub fn saved(page: &str) -> &str {
    let (_, data) = page.split_once("id=\"saved\">").expect("a saved page has data");
    data.split_once("</script>").expect("its data end").0
}

/// Returns every file below `dir` with its bytes, sorted.
///
/// # Panics
/// When the disk refuses.
#[must_use]
pub fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder can be listed") {
            let path = entry.expect("an entry can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(dir).expect("it lies below").to_owned();
                found.push((name, fs::read(&path).expect("a file can be read")));
            }
        }
    }
    found.sort();
    found
}

/// Returns the command `kill`, as the shell has it: a program of that name is not on every machine.
#[must_use]
pub fn kill() -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", "kill \"$@\"", "kill"]);
    command
}

/// Returns whether this process has the rights of root; some tests mount a small disk.
#[must_use]
pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0)
}
