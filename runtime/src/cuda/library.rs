//! libtorch's CUDA half, `libtorch_cuda.so`.

use std::error::Error as _;
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

/// The file's name; the dynamic linker finds it where it finds `libtorch_cpu.so`.
const NAME: &str = "libtorch_cuda.so";

/// Opens the library for the life of the process, once; says why it could not.
///
/// A program that is linked with it does not start where it is missing, and the linker
/// drops a library that no symbol is taken from. Opened, it registers itself with
/// libtorch, which asks for it once, at its first question about CUDA, and remembers
/// the answer: so this comes before that.
#[expect(unsafe_code, reason = "opening a library runs its initialisers")]
pub(super) fn open() -> Result<(), String> {
    static OPENED: OnceLock<Result<(), String>> = OnceLock::new();
    let open = || {
        // SAFETY: libtorch's own library of the release this program is built for, whose
        // initialisers register kernels and start nothing; another release's would fail
        // to find its symbols, which is an error and not undefined.
        let opened = unsafe { Library::open(Some(NAME), RTLD_NOW | RTLD_GLOBAL) };
        // Kernels stay registered, so that the library must stay.
        opened.map(std::mem::forget).map_err(|e| reason(&e))
    };
    OPENED.get_or_init(open).clone()
}

/// The message of the dynamic linker, which libloading has as the cause.
pub(super) fn reason(error: &libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_missing_library_is_named() {
        // If the library exists, it can be opened several times.
        if let Err(reason) = open() {
            assert!(reason.contains(".so"), "{reason}");
        }
        assert_eq!(open(), open());
    }
}
