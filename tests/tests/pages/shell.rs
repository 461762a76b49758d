//! A shell that runs the blocks of a page, one after the other.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use gular_tests::{gular, kill};

/// One bash for all blocks: variables and background processes of one block are there in the next.
pub(crate) struct Shell {
    process: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
    /// The file for stderr, to which background processes may also write.
    stderr: PathBuf,
    /// The time limit of one block.
    limit: Duration,
}

impl Shell {
    pub(crate) fn start(dir: &Path, limit: Duration) -> Self {
        let stderr = dir.join("stderr");
        let bin = gular().parent().unwrap().to_path_buf();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut process = Command::new("bash")
            .current_dir(dir)
            .env("PATH", format!("{}:{path}", bin.display()))
            .env("TMPDIR", dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&stderr).unwrap())
            // The shell has its own process group, so that it can be ended together with all
            // processes that it started.
            .process_group(0)
            .spawn()
            .expect("bash starts");
        let stdin = process.stdin.take().unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        let (send, lines) = channel();
        thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|l| send.send(l)));
        let mut shell = Self { process, stdin, lines, stderr, limit };
        // Processes that the page leaves running end with the shell.
        shell.run("trap 'kill $(jobs -p) 2>/dev/null' EXIT").unwrap();
        shell
    }

    /// Runs `text` and returns its stdout.
    pub(crate) fn run(&mut self, text: &str) -> Result<Vec<String>, String> {
        const END: &str = "end-of-block";
        writeln!(self.stdin, "{{ {text}\n}} < /dev/null\necho \"{END} $?\"").unwrap();
        let begin = Instant::now();
        let mut said = Vec::new();
        let end = loop {
            let left = self.limit.saturating_sub(begin.elapsed());
            match self.lines.recv_timeout(left) {
                Ok(line) => match line.strip_prefix(END).map(str::trim) {
                    Some("0") => return Ok(said),
                    Some(code) => break format!("ended with {code}"),
                    None => said.push(line.trim_end().to_owned()),
                },
                Err(_) => break format!("did not end in {} s", self.limit.as_secs()),
            }
        };
        let stderr = fs::read_to_string(&self.stderr).unwrap_or_default();
        Err(format!("{text}\n{end} and printed\n{}\nand\n{stderr}", said.join("\n")))
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = writeln!(self.stdin, "exit");
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(5) {
            if self.process.try_wait().is_ok_and(|status| status.is_some()) {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        let group = format!("-{}", self.process.id());
        let _ = kill().args(["-KILL", "--", &group]).status();
        let _ = self.process.wait();
    }
}

#[test]
fn a_block_that_fails_or_does_not_end_is_shown_with_all_it_said() {
    let dir = tempfile::tempdir().unwrap();
    let mut shell = Shell::start(dir.path(), Duration::from_secs(2));
    assert_eq!(shell.run("echo one\necho two").unwrap(), ["one", "two"]);
    let mut fault = |block: &str, words: [&str; 4]| {
        let fault = shell.run(block).unwrap_err();
        assert!(words.iter().all(|word| fault.contains(word)), "{fault}");
    };
    fault("echo said\necho why >&2\nfalse", ["ended with 1", "false", "said", "why"]);
    fault("echo so far\necho stuck >&2\nsleep 1000", ["2 s", "sleep", "so far", "stuck"]);
}
