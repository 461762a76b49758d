//! Starts writing a growing file to the disk while more is appended.

use std::fs::File;
use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Writes a growing file back to the disk while it is still being written, so
/// that the fsync before its rename finds little left to do.
#[derive(Debug)]
pub struct WriteBack {
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl WriteBack {
    /// Starts a thread that serves `file`.
    ///
    /// # Errors
    /// When the file cannot be opened twice, or there is no thread.
    pub fn start(file: &File) -> io::Result<Self> {
        let file = file.try_clone()?;
        // One request may wait while another is served; further ones would be the same.
        let (wake, woken) = sync_channel(1);
        let work = move || woken.iter().try_for_each(|()| file.sync_data());
        let thread = std::thread::Builder::new().name("write-back".to_owned()).spawn(work)?;
        Ok(Self { wake: Some(wake), thread: Some(thread) })
    }

    /// Requests that the bytes written so far are written back; does not wait.
    pub fn request(&self) {
        if let Some(wake) = &self.wake {
            // Full: a request is waiting. Closed: a fault, which `finish` returns.
            let _ = wake.try_send(());
        }
    }

    /// Waits for the thread, and returns its error, which must not be lost: the kernel reports each
    /// error once, and a later fsync of the same file would not.
    ///
    /// # Errors
    /// The error of any of the requests.
    pub fn finish(mut self) -> io::Result<()> {
        self.join()
    }

    fn join(&mut self) -> io::Result<()> {
        self.wake = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(done)) => done,
            Some(Err(_)) => Err(io::Error::other("the thread that writes back panicked")),
            None => Ok(()),
        }
    }
}

impl Drop for WriteBack {
    fn drop(&mut self) {
        // If the file was abandoned, its errors do not matter.
        let _ = self.join();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn requests_do_not_wait_and_the_end_does() {
        let mut file = tempfile::tempfile().unwrap();
        let write_back = WriteBack::start(&file).unwrap();
        for _ in 0..100 {
            file.write_all(&[7; 1000]).unwrap();
            write_back.request();
        }
        write_back.finish().unwrap();
    }

    #[test]
    fn a_fault_of_the_disk_is_returned_at_the_end() {
        // Syncing a pipe fails.
        let (_reader, writer) = io::pipe().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(writer));
        let write_back = WriteBack::start(&file).unwrap();
        write_back.request();
        write_back.finish().unwrap_err();
    }
}
