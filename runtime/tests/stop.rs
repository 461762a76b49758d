//! The first signal asks the process to stop, the second kills it. Each case runs in a separate
//! process.

use std::env;
use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use gular_runtime::{EXIT_CHECKPOINTED, StopFlag};
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::low_level::raise;

const CASE: &str = "GULAR_TEST_STOP_CASE";

/// Runs `child` below in a process of its own; gives what it printed and how it ended.
fn run(case: &str) -> (String, Option<i32>, Option<i32>) {
    let mut child = Command::new(env::current_exe().expect("a test program has a path"))
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(CASE, case)
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut text = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut text).expect("text");
    let status = child.wait().expect("ends");
    (text, status.code(), status.signal())
}

#[test]
#[expect(clippy::exit, reason = "the exit code is what is tested")]
fn child() {
    let Ok(case) = env::var(CASE) else { return };
    let stop = StopFlag::install().expect("installs");
    let clone = stop.clone();
    assert!(!clone.requested());
    let number = |name| match name {
        "term" => SIGTERM,
        "usr1" => SIGUSR1,
        _ => SIGINT,
    };
    for word in case.split(' ') {
        if word == "later" {
            std::thread::sleep(std::time::Duration::from_secs(3));
            continue;
        }
        println!("raise");
        raise(number(word)).expect("raises");
        assert!(clone.requested());
    }
    std::process::exit(i32::from(EXIT_CHECKPOINTED));
}

#[test]
fn first_signal_lets_the_job_save_and_exit_85() {
    for case in ["term", "int"] {
        let (text, code, signal) = run(case);
        assert_eq!((text.matches("raise").count(), code, signal), (1, Some(85), None), "{case}");
    }
}

#[test]
fn sigusr1_announces_an_end_that_sigterm_brings() {
    for (case, n) in [("usr1", 1), ("usr1 usr1 usr1", 3), ("usr1 term", 2)] {
        let (text, code, signal) = run(case);
        assert_eq!((text.matches("raise").count(), code, signal), (n, Some(85), None), "{case}");
    }
    let (_, code, signal) = run("usr1 term later term");
    assert_eq!((code, signal), (None, Some(SIGTERM)));
}

#[test]
fn second_signal_of_either_kind_kills_as_by_default() {
    let cases =
        [("term later term", SIGTERM), ("int later int", SIGINT), ("term later int", SIGINT)];
    for (case, by) in cases {
        let (text, code, signal) = run(case);
        assert_eq!((text.matches("raise").count(), code, signal), (2, None, Some(by)), "{case}");
    }
}

/// `timeout` sends the signal to the program, and at once to all processes of its group.
#[test]
fn a_signal_that_comes_twice_at_once_is_one() {
    for (case, n) in [("term term", 2), ("int int int", 3)] {
        let (text, code, signal) = run(case);
        assert_eq!((text.matches("raise").count(), code, signal), (n, Some(85), None), "{case}");
    }
}
