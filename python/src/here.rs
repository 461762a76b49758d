//! What belongs to the process that made it.

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::process;

/// A value that is dropped in the process that made it alone: a forked one has none of its
/// threads, and its locks are the parent's.
#[derive(Debug)]
pub(crate) struct Here<T> {
    value: ManuallyDrop<T>,
    pid: u32,
}

impl<T> Here<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: ManuallyDrop::new(value), pid: process::id() }
    }

    /// Whether this is the process that made it.
    pub(crate) fn is_own(&self) -> bool {
        self.pid == process::id()
    }
}

impl<T> Deref for Here<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Drop for Here<T> {
    fn drop(&mut self) {
        if self.is_own() {
            // SAFETY: once, here.
            #[expect(unsafe_code, reason = "in a forked process the value is not dropped")]
            unsafe {
                ManuallyDrop::drop(&mut self.value);
            }
        }
    }
}
