//! `cargo xtask VERB`; the verbs are in the library.

#![forbid(unsafe_code)]
#![expect(clippy::print_stderr, reason = "a program, not a library")]

fn main() {
    if let Err(error) = xtask::run() {
        eprintln!("error: {error:#}");
        std::process::exit(2);
    }
}
