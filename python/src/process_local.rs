//! Values that belong to the process that made them.

use std::mem;
use std::ops::Deref;
use std::process;

/// A value that is dropped only in the process that made it: a forked process has none of its
/// threads, and its locks are the parent's.
#[derive(Debug)]
pub(crate) struct ProcessLocal<T> {
    /// The value, until this is dropped.
    value: Option<T>,
    pid: u32,
}

impl<T> ProcessLocal<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Some(value), pid: process::id() }
    }

    /// Returns whether this is the process that made the value.
    pub(crate) fn is_own(&self) -> bool {
        self.pid == process::id()
    }
}

impl<T> Deref for ProcessLocal<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("taken by `drop` alone")
    }
}

impl<T> Drop for ProcessLocal<T> {
    fn drop(&mut self) {
        let value = self.value.take();
        if !self.is_own() {
            mem::forget(value);
        }
    }
}
