//! Panics of code that reads or decodes what others wrote.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Returns the result of `job`, or the message of its panic: a codec's panic is the error of one
/// sample, and must not end a thread that others wait for.
pub(super) fn caught<T>(job: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(job)).map_err(|payload| {
        let text = payload.downcast_ref::<&str>().map(|s| (*s).to_owned());
        text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_what_it_said() {
        assert_eq!(caught(|| 7), Ok(7));
        assert_eq!(caught(|| panic!("at row {}", 3)), Err::<(), _>("at row 3".into()));
        assert_eq!(caught(|| panic!("plain")), Err::<(), _>("plain".into()));
    }
}
