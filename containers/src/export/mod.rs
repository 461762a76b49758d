//! Describes an image for other tools, and says what jobs must request to run it.
//!
//! Definition files and Dockerfiles take the packages of `image.lock` with their digests. The
//! results are similar to our images, but not the same bytes: the other tools run Debian's
//! maintainer scripts and note their own times.

mod definition;
mod facts;
mod script;

pub use self::definition::{definition, dockerfile};
pub use self::facts::ImageFacts;
