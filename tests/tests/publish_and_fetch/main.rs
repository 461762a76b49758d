//! Publishing to a federation and fetching from it: one suite for every server.
//!
//! It runs against the embedded federation (`gular federation serve`), which it starts itself; with
//! `GULAR_TEST_FEDERATION=URL` it runs against that federation instead. `cargo xtask peers` does so
//! with real XRootD servers, and a site can with its own:
//!
//! ```sh
//! export GULAR_TEST_FEDERATION=pelican://osg-htc.org/mylab/test   # a collection it may write below
//! export BEARER_TOKEN_FILE=token                                  # storage.read and storage.create
//! cargo xtask peers federation
//! ```
//!
//! Each check writes about 0.1 to 60 MB into a separate collection below the URL, under names that
//! no run uses again, and removes nothing. It needs a token for reading and creating, but not for
//! modifying. `SSL_CERT_FILE` is used, as by the program.
//!
//! ```text
//! site       where the federation is, and `gular` able to reach it
//! bundles    what is published
//! publish, taken, fetch, copied, derived, killed, verify, objects, secrecy,
//! given_tokens, doctor, prestage, folder, any_folder, names   the checks
//! view       the page of a published bundle
//! changed, down, wrong_copy   what needs a federation that may be stopped or damaged: always
//!            the embedded one
//! ```

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and says when it skips"
)]

mod any_folder;
mod bundles;
mod changed;
mod copied;
mod derived;
mod doctor;
mod down;
mod fetch;
mod folder;
mod given_tokens;
mod killed;
mod names;
mod objects;
mod prestage;
mod publish;
mod secrecy;
mod site;
mod taken;
mod verify;
mod view;
mod wrong_copy;
