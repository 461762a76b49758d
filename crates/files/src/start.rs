//! Programs that were written a moment ago.

use std::io::ErrorKind::ExecutableFileBusy;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(10);

/// Starts a program that this process has written. Linux refuses a file that is open for writing
/// (`ETXTBSY` of execve(2)), and what another thread starts has all files open until it is that
/// program. So it is tried again, for two seconds.
///
/// # Errors
/// The program cannot be started.
pub fn start_written(command: &mut Command) -> std::io::Result<Child> {
    for _ in 1..TRIES {
        match command.spawn() {
            Err(error) if error.kind() == ExecutableFileBusy => thread::sleep(PAUSE),
            started => return started,
        }
    }
    command.spawn()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::OpenOptionsExt;

    use super::*;

    #[test]
    fn a_program_that_is_open_for_writing_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o755).open(&program).unwrap();
        std::io::copy(&mut fs::File::open("/bin/true").unwrap(), &mut file).unwrap();
        let busy = Command::new(&program).spawn().unwrap_err();
        assert_eq!(busy.kind(), ExecutableFileBusy);
        let holder = thread::spawn(move || {
            thread::sleep(10 * PAUSE);
            drop(file);
        });
        assert!(start_written(&mut Command::new(&program)).unwrap().wait().unwrap().success());
        holder.join().unwrap();
    }
}
