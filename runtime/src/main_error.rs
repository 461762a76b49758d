//! What `main` of a program that trains ends with.

use std::error::Error;
use std::fmt;

use gular_files::mask;

/// An error of `main`. Rust prints it as `Error: …`: the message with its causes, without what looks
/// like a secret. `?` makes it of any error, so that a program needs no other crate for this.
pub struct MainError(String);

impl MainError {
    /// Makes the error of a message.
    #[must_use]
    pub fn new(message: impl fmt::Display) -> Self {
        Self(message.to_string())
    }
}

impl<E: Error> From<E> for MainError {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            // Many messages end with that of their cause.
            let said = error.to_string();
            if !text.ends_with(&said) {
                text = format!("{text}: {said}");
            }
            cause = error.source();
        }
        Self(text)
    }
}

impl fmt::Debug for MainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&mask(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot train")]
    struct Outer(#[from] std::io::Error);

    #[test]
    fn main_says_the_causes_and_no_secret() {
        let token = format!("ghp_{}", "a1B2".repeat(9));
        let error = std::io::Error::other(format!("cannot open `{token}`"));
        let shown = format!("{:?}", MainError::from(Outer(error)));
        assert_eq!(shown, "cannot train: cannot open `[a token of GitHub, not shown]`");
        assert!(!format!("{:?}", MainError::new(&token)).contains(&token));
    }
}
