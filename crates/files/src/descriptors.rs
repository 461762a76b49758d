//! Files that this process was started with.

#![expect(unsafe_code, reason = "files that somebody else opened have only numbers")]

use std::fs;
use std::os::fd::{BorrowedFd, RawFd};

use rustix::io::{FdFlags, fcntl_setfd};

/// Standard input, output and errors are below this.
const FIRST_OTHER: RawFd = 3;

/// Has no program that this one starts see the files that it was itself started with, but for its
/// standard input, output and errors. Files that Rust opens are closed there anyway.
///
/// # Errors
/// The list of open files cannot be read.
pub fn keep_open_files() -> std::io::Result<()> {
    for entry in fs::read_dir("/proc/self/fd")? {
        let number = entry?.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok());
        if let Some(number) = number.filter(|number| *number >= FIRST_OTHER) {
            // SAFETY: the number is used for one call, which changes a flag of whatever has this
            // number, and fails if nothing has it any more.
            let file = unsafe { BorrowedFd::borrow_raw(number) };
            // One that was closed in the meantime needs no flag.
            let _ = fcntl_setfd(file, FdFlags::CLOEXEC);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::io::fcntl_setfd;

    use super::*;

    #[test]
    fn a_program_sees_no_file_that_was_open_before() {
        let file = fs::File::open("/").unwrap();
        fcntl_setfd(&file, FdFlags::empty()).unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&file);
        let sees = || {
            let path = format!("/proc/self/fd/{number}/etc");
            Command::new("ls").arg(path).output().unwrap().status.success()
        };
        assert!(sees());
        keep_open_files().unwrap();
        assert!(!sees());
    }
}
